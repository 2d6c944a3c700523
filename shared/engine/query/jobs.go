package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Jobs lists the jobs of an execution, one item for each attempt, ordered by step run, entity and
// attempt. Jobs that no worker has claimed are listed too, from the plan.
func (v *Service) Jobs(ctx context.Context, c workflow.Caller, id string, f views.JobFilter, p workflow.Page) (workflow.List[workflow.Job], error) {
	var list workflow.List[workflow.Job]
	at, err := parseJobToken(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, limit, bytes, reads := i.Execution(), pageLimit(p), 0, 0
	retried := func(*workflow.StepRun, workflow.JobInput) bool { return false }
	if f.FinallyFailed {
		if retried, err = retriedJobs(ctx, i); err != nil {
			return list, err
		}
	}
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if r.Seq < at.stepRunSeq || !r.HasJobs() || r.Jobs == 0 || (f.Step != "" && f.Step != r.Label) || (f.Kind != "" && f.Kind != r.Kind) || f.FinallyFailed && !x.WasNarrowed() && retried(r, workflow.JobInput{}) {
			continue
		}
		planned, err := i.PlannedJobs(ctx, r)
		if err != nil {
			return list, err
		}
		var all map[int][]attempt
		for _, in := range planned {
			if r.Seq == at.stepRunSeq && in.Index <= at.index || !matchesEntity(f, in) || retried(r, in) {
				continue
			}
			if shard := in.Index / max(1, r.PackSize) / workflow.LanesPerShard; all == nil || shard != at.shard {
				if reads++; reads > maxShardReads {
					list.NextToken = encodePageToken(at.String())
					return list, nil
				}
				packs, err := i.ShardPacks(ctx, r, shard)
				if err != nil {
					return list, err
				}
				all, at.shard = attemptsByJob(packs), shard
			}
			jobs := slices.DeleteFunc(jobAttempts(x, r, in, all[in.Index]), func(j workflow.Job) bool { return !matchesAttempt(f, &j) })
			size := 0
			for n := range jobs {
				size += jobViewBytes + len(jobs[n].Parameters)
				if a := findAttempt(all[in.Index], jobs[n].Attempt); a != nil {
					size += resultBytes(a.Record) + a.Record.Checkpoints.Bytes() + 2*a.Record.Logs.Bytes()
				}
			}
			// Keep all attempts of one job on one page.
			if len(list.Items) > 0 && (len(list.Items)+len(jobs) > limit || bytes+size > maxPageBytes) {
				list.NextToken = encodePageToken(at.String())
				return list, nil
			}
			bytes += size
			for n := range jobs {
				if a := findAttempt(all[in.Index], jobs[n].Attempt); a != nil && a.Record.ResultRef != nil {
					if jobs[n].Result, err = loadStoredResult(ctx, i, a.Record.ResultRef.InPack(a.Pack.Key)); err != nil {
						return list, err
					}
				}
			}
			list.Items = append(list.Items, jobs...)
			at.stepRunSeq, at.index = r.Seq, in.Index
		}
	}
	return list, nil
}

// retriedJobs returns whether a later try has repeated a job. In tries that were restricted to some entities
// that is not so of the others.
func retriedJobs(ctx context.Context, i *engine.Inspection) (func(*workflow.StepRun, workflow.JobInput) bool, error) {
	x := i.Execution()
	placeOf := map[workflow.EntityKey]int{}
	if x.WasNarrowed() {
		entities, err := i.AllEntities(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range entities {
			placeOf[e.Key] = e.Place
		}
	}
	return func(r *workflow.StepRun, in workflow.JobInput) bool {
		if in.Entity != nil && placeOf[*in.Entity] > 0 {
			return x.RetriedFor(r, placeOf[*in.Entity])
		}
		return r.SupersededBy > 0 || x.RetriedLater(r)
	}, nil
}

// maxShardReads bounds how many shards of packs one call reads. The page may then be short, or even
// empty; its token continues from there.
const maxShardReads = 2

// jobViewBytes estimates the size of a listed attempt without its result.
const jobViewBytes = 400

func matchesEntity(f views.JobFilter, in workflow.JobInput) bool {
	return f.Entity.ID == "" || in.Entity != nil && in.Entity.ID == f.Entity.ID && (f.Entity.Type == "" || in.Entity.Type == f.Entity.Type)
}

// matchesAttempt reports whether a filter lets an attempt pass.
func matchesAttempt(f views.JobFilter, j *workflow.Job) bool {
	switch {
	case f.State != "" && j.State != f.State, (f.LastAttempts || f.FinallyFailed) && j.ReplacedBy != nil:
		return false
	}
	return !f.FinallyFailed || j.State == sm.JobFailed || j.State == sm.JobUnknown
}

// jobCursor is the last job that a page has read. shard is the shard whose packs are loaded.
type jobCursor struct{ stepRunSeq, index, shard int }

func (a jobCursor) String() string { return fmt.Sprintf("%d.%d", a.stepRunSeq, a.index) }

// parseJobToken returns the position in a page token. Without a token it is the position before the
// first job.
func parseJobToken(p workflow.Page) (jobCursor, error) {
	at := jobCursor{index: -1}
	if p.Token == "" {
		return at, nil
	}
	s, err := decodePageToken(p)
	if err != nil {
		return at, err
	}
	seq, index, ok := strings.Cut(s, ".")
	if at.stepRunSeq, err = strconv.Atoi(seq); err != nil || !ok {
		return at, invalidPageToken()
	}
	if at.index, err = strconv.Atoi(index); err != nil {
		return at, invalidPageToken()
	}
	return at, nil
}

// attempt is one try of a job: its record in a pack.
type attempt struct {
	Pack   *workflow.Pack
	Record workflow.JobRecord
	State  sm.JobState
}

// attemptsByJob maps the index of each job to its attempts, the first one first.
func attemptsByJob(packs []*workflow.Pack) map[int][]attempt {
	all := map[int][]attempt{}
	for _, p := range packs {
		for _, rec := range p.Jobs {
			all[rec.Index] = append(all[rec.Index], attempt{p, rec, jobState(p, rec)})
		}
	}
	for _, as := range all {
		slices.SortFunc(as, func(a, b attempt) int { return a.Pack.Key.Attempt - b.Pack.Key.Attempt })
	}
	return all
}

// findAttempt returns the attempt with the given number; nil if no worker has claimed it.
func findAttempt(as []attempt, number int) *attempt {
	for n := range as {
		if as[n].Pack.Key.Attempt == number {
			return &as[n]
		}
	}
	return nil
}

// latestAttempts returns each job's latest attempt.
func latestAttempts(packs []*workflow.Pack) map[int]attempt {
	latest := map[int]attempt{}
	for index, as := range attemptsByJob(packs) {
		latest[index] = as[len(as)-1]
	}
	return latest
}

// jobState returns the state to show for a record.
func jobState(p *workflow.Pack, rec workflow.JobRecord) sm.JobState {
	switch rec.Code {
	case workflow.JobCodeOK:
		return sm.JobCompleted
	case workflow.JobCodeFail:
		return sm.JobFailed
	case workflow.JobCodeUnknown:
		return sm.JobUnknown
	case workflow.JobCodeNotExecuted:
		return sm.JobCancelled
	case workflow.JobCodeStarted:
		return sm.JobRunning
	}
	if p.State == workflow.PackClaimed {
		return sm.JobClaimed
	}
	return sm.JobPending
}

// jobAttempts lists every attempt of one job, including one that has not started.
func jobAttempts(x *workflow.Execution, r *workflow.StepRun, in workflow.JobInput, as []attempt) []workflow.Job {
	base := workflow.Job{
		Kind: r.Kind, Step: r.Label, StepRunOrdinal: r.Ordinal, Entity: in.Entity,
		State: sm.JobPending, CreatedAt: r.EnteredAt, Parameters: in.Parameters,
	}
	if r.Kind == workflow.JobRollback {
		base.Wave = &r.Wave
	}
	if in.Entity != nil {
		base.Token = &in.Token
	}
	if in.Item != nil {
		base.Item, base.ItemText = &in.Item.Number, ptr(in.Item.Text())
	}
	id := func(n int) string { return workflow.JobID(x.ID, r.Seq, in.Index, n) }
	var jobs []workflow.Job
	for _, a := range as {
		j := base
		j.Attempt, j.State, j.Result, j.Error = a.Pack.Key.Attempt, a.State, a.Record.Result, a.Record.Failure
		j.ID, j.Worker = id(j.Attempt), nonZeroPtr(workerOf(a))
		j.ClaimedAt, j.StartedAt, j.EndedAt = timePtr(a.Pack.ClaimedAt), timePtr(a.Record.StartedAt), timePtr(a.Record.EndedAt)
		j.Progress, j.Checkpoints = a.Record.Progress, a.Record.Checkpoints
		if logs := a.Record.Logs; logs != nil {
			j.Logs, j.LogsDropped = logs.Lines, logs.Dropped
		}
		if a.Record.Outcome != "" {
			j.Outcome = &a.Record.Outcome
		}
		jobs = append(jobs, j)
	}
	switch {
	case len(jobs) == 0:
		if base.Attempt, base.ID = 1, id(1); !r.Open() {
			base.State = stateWithoutRecord(r)
		}
		jobs = append(jobs, base)
	case retryPending(as[len(as)-1], r):
		last := jobs[len(jobs)-1]
		base.Attempt, base.ID, base.CreatedAt = last.Attempt+1, id(last.Attempt+1), as[len(as)-1].Pack.FinishedAt
		jobs = append(jobs, base)
	}
	for n := range jobs {
		if n > 0 {
			jobs[n].Replaces, jobs[n-1].ReplacedBy = ptr(jobs[n-1].ID), ptr(jobs[n].ID) // copies: a filter moves the jobs
			if ended := jobs[n-1].EndedAt; ended != nil {
				jobs[n].CreatedAt = *ended
			}
		}
	}
	return jobs
}

// stateWithoutRecord returns the state of a job of an ended step run of which nothing is recorded. Its
// turn never came, if that is so of any job. Otherwise the records are lost, or the jobs could not be
// closed, and what became of it is unknown.
func stateWithoutRecord(r *workflow.StepRun) sm.JobState {
	if r.Counts.NotExecuted+r.Skipped > 0 {
		return sm.JobCancelled
	}
	return sm.JobUnknown
}

// workerOf returns the worker that had the attempt: the worker of its pack, or the lost worker from
// which that one took the pack over.
func workerOf(a attempt) string {
	var lost struct {
		Worker string `json:"worker"`
	}
	if a.Record.Code == workflow.JobCodeUnknown && a.Record.Failure != nil && json.Unmarshal(a.Record.Failure.Details, &lost) == nil && lost.Worker != "" {
		return lost.Worker
	}
	return a.Pack.Worker
}

// retryPending reports whether a failed job will be tried again.
func retryPending(a attempt, r *workflow.StepRun) bool {
	return r.Open() && slices.Contains(workflow.RetryableJobs(a.Pack, r.MaxAttempts), a.Record.Index)
}
