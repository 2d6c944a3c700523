package view

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Jobs is a run's jobs, one for each attempt, in order of step run, entity and
// attempt. Jobs that nobody has claimed are listed too: they stand in the plan.
func (v *View) Jobs(ctx context.Context, c workflow.Caller, id string, f views.JobFilter, p workflow.Page) (workflow.List[workflow.Job], error) {
	var list workflow.List[workflow.Job]
	at, err := jobPosition(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, limit, bytes := i.Execution(), limitOf(p), 0
	for n := range x.Runs {
		r := &x.Runs[n]
		if r.RunSeq < at.runSeq || (f.Step != "" && f.Step != r.Label) || (f.Kind != "" && f.Kind != r.Kind) {
			continue
		}
		planned, packs, err := i.Jobs(ctx, r)
		if err != nil {
			return list, err
		}
		attempts := attemptsOf(packs)
		for _, in := range planned {
			if r.RunSeq == at.runSeq && in.Index <= at.index {
				continue
			}
			if f.Entity.ID != "" && (in.Entity == nil || in.Entity.ID != f.Entity.ID || (f.Entity.Type != "" && in.Entity.Type != f.Entity.Type)) {
				continue
			}
			jobs := jobsOf(x, r, in, attempts[in.Index])
			if f.State != "" {
				jobs = slices.DeleteFunc(jobs, func(j workflow.Job) bool { return j.State != f.State })
			}
			size := 0
			for n := range jobs {
				size += 400
				if a := attemptOf(attempts[in.Index], jobs[n].Attempt); a != nil {
					size += sizeOf(a.record)
				}
			}
			// All attempts of one job stand on one page.
			if len(list.Items) > 0 && (len(list.Items)+len(jobs) > limit || bytes+size > maxBytes) {
				list.Next = tokenOf(at.String())
				return list, nil
			}
			bytes += size
			for n := range jobs {
				if a := attemptOf(attempts[in.Index], jobs[n].Attempt); a != nil && a.record.Stored != nil {
					if jobs[n].Result, err = i.Stored(ctx, a.record.Stored.At(a.pack.Key)); err != nil {
						return list, err
					}
				}
			}
			list.Items = append(list.Items, jobs...)
			at = jobAt{r.RunSeq, in.Index}
		}
	}
	return list, nil
}

// jobAt is the last job of a page.
type jobAt struct{ runSeq, index int }

func (a jobAt) String() string { return fmt.Sprintf("%d.%d", a.runSeq, a.index) }

func jobPosition(p workflow.Page) (jobAt, error) {
	at := jobAt{0, -1}
	if p.Token == "" {
		return at, nil
	}
	s, err := afterOf(p)
	if err != nil {
		return at, err
	}
	run, index, ok := strings.Cut(s, ".")
	if at.runSeq, err = strconv.Atoi(run); err != nil || !ok {
		return at, badToken()
	}
	if at.index, err = strconv.Atoi(index); err != nil {
		return at, badToken()
	}
	return at, nil
}

// attempt is one job's record in one pack.
type attempt struct {
	pack   *workflow.Pack
	record workflow.JobRecord
	state  sm.JobState
}

// attemptsOf orders all records by job, then attempt.
func attemptsOf(packs []*workflow.Pack) map[int][]attempt {
	all := map[int][]attempt{}
	for _, p := range packs {
		for _, rec := range p.Jobs {
			all[rec.Index] = append(all[rec.Index], attempt{p, rec, stateOf(p, rec)})
		}
	}
	for _, as := range all {
		slices.SortFunc(as, func(a, b attempt) int { return a.pack.Key.Attempt - b.pack.Key.Attempt })
	}
	return all
}

// attemptOf is the attempt with the number, nil if nobody has begun it.
func attemptOf(as []attempt, number int) *attempt {
	for n := range as {
		if as[n].pack.Key.Attempt == number {
			return &as[n]
		}
	}
	return nil
}

// latestStates is the state of each job's latest attempt.
func latestStates(packs []*workflow.Pack) map[int]attempt {
	latest := map[int]attempt{}
	for index, as := range attemptsOf(packs) {
		latest[index] = as[len(as)-1]
	}
	return latest
}

// stateOf is a job's state as it is shown.
func stateOf(p *workflow.Pack, rec workflow.JobRecord) sm.JobState {
	switch rec.Code {
	case workflow.CodeOK:
		return sm.JobCompleted
	case workflow.CodeFail:
		return sm.JobFailed
	case workflow.CodeUnknown:
		return sm.JobUnknown
	case workflow.CodeNotExecuted:
		return sm.JobCancelled
	case workflow.CodeStarted:
		return sm.JobRunning
	}
	if p.State == workflow.PackClaimed {
		return sm.JobClaimed
	}
	return sm.JobPending
}

// jobsOf is every attempt of one job, the one that waits included.
func jobsOf(x *workflow.Execution, r *workflow.StepRun, in workflow.JobInput, as []attempt) []workflow.Job {
	base := workflow.Job{
		Kind: r.Kind, Step: r.Label, Visit: r.Visit, Entity: in.Entity,
		State: sm.JobPending, CreatedAt: r.EnteredAt,
	}
	if r.Kind == workflow.JobRollback {
		base.Wave = &r.Wave
	}
	if in.Entity != nil {
		base.Token = &in.Token
	}
	id := func(n int) string { return workflow.JobID(x.ID, r.RunSeq, in.Index, n) }
	var jobs []workflow.Job
	for _, a := range as {
		j := base
		j.Attempt, j.State, j.Result, j.Error = a.pack.Key.Attempt, a.state, a.record.Result, a.record.Failure
		j.ID, j.Worker = id(j.Attempt), textPointer(a.pack.Worker)
		j.ClaimedAt, j.StartedAt, j.EndedAt = timePointer(a.pack.ClaimedAt), timePointer(a.record.StartedAt), timePointer(a.record.EndedAt)
		if a.record.Outcome != "" {
			j.Outcome = &a.record.Outcome
		}
		jobs = append(jobs, j)
	}
	switch {
	case len(jobs) == 0:
		base.Attempt, base.ID = 1, id(1)
		jobs = append(jobs, base)
	case again(as[len(as)-1], r):
		last := jobs[len(jobs)-1]
		base.Attempt, base.ID, base.CreatedAt = last.Attempt+1, id(last.Attempt+1), as[len(as)-1].pack.FinishedAt
		jobs = append(jobs, base)
	}
	for n := range jobs {
		if n > 0 {
			jobs[n].Replaces, jobs[n-1].ReplacedBy = pointer(jobs[n-1].ID), pointer(jobs[n].ID)
			jobs[n].CreatedAt = latest(jobs[n-1].EndedAt, jobs[n].CreatedAt)
		}
	}
	return jobs
}

func latest(a *time.Time, b time.Time) time.Time {
	if a != nil {
		return *a
	}
	return b
}

// again reports whether a failed job's next attempt is still to come.
func again(a attempt, r *workflow.StepRun) bool {
	return r.Open() && slices.Contains(workflow.Retries(a.pack, r.MaxAttempts), a.record.Index)
}
