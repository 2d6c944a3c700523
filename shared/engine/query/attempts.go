package query

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// attempt is one job's record in one pack.
type attempt struct {
	Pack   *workflow.Pack
	Record workflow.JobRecord
	State  sm.JobState
}

// attemptsByJob orders all records by job, then attempt.
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

// findAttempt is the attempt with the number, nil if nobody has begun it.
func findAttempt(as []attempt, number int) *attempt {
	for n := range as {
		if as[n].Pack.Key.Attempt == number {
			return &as[n]
		}
	}
	return nil
}

// latestAttempts is each job's latest attempt.
func latestAttempts(packs []*workflow.Pack) map[int]attempt {
	latest := map[int]attempt{}
	for index, as := range attemptsByJob(packs) {
		latest[index] = as[len(as)-1]
	}
	return latest
}

// jobState is a job's state as it is shown.
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

// jobAttempts is every attempt of one job, the one that waits included.
func jobAttempts(x *workflow.Execution, r *workflow.StepRun, in workflow.JobInput, as []attempt) []workflow.Job {
	base := workflow.Job{
		Kind: r.Kind, Step: r.Label, StepRunOrdinal: r.Ordinal, Entity: in.Entity,
		State: sm.JobPending, CreatedAt: r.EnteredAt,
	}
	if r.Kind == workflow.JobRollback {
		base.Wave = &r.Wave
	}
	if in.Entity != nil {
		base.Token = &in.Token
	}
	id := func(n int) string { return workflow.JobID(x.ID, r.Seq, in.Index, n) }
	var jobs []workflow.Job
	for _, a := range as {
		j := base
		j.Attempt, j.State, j.Result, j.Error = a.Pack.Key.Attempt, a.State, a.Record.Result, a.Record.Failure
		j.ID, j.Worker = id(j.Attempt), nonZeroPtr(a.Pack.Worker)
		j.ClaimedAt, j.StartedAt, j.EndedAt = nonZeroPtr(a.Pack.ClaimedAt), nonZeroPtr(a.Record.StartedAt), nonZeroPtr(a.Record.EndedAt)
		if a.Record.Outcome != "" {
			j.Outcome = &a.Record.Outcome
		}
		jobs = append(jobs, j)
	}
	switch {
	case len(jobs) == 0:
		base.Attempt, base.ID = 1, id(1)
		jobs = append(jobs, base)
	case retryPending(as[len(as)-1], r):
		last := jobs[len(jobs)-1]
		base.Attempt, base.ID, base.CreatedAt = last.Attempt+1, id(last.Attempt+1), as[len(as)-1].Pack.FinishedAt
		jobs = append(jobs, base)
	}
	for n := range jobs {
		if n > 0 {
			jobs[n].Replaces, jobs[n-1].ReplacedBy = &jobs[n-1].ID, &jobs[n].ID
			jobs[n].CreatedAt = endOr(jobs[n-1].EndedAt, jobs[n].CreatedAt)
		}
	}
	return jobs
}

func endOr(a *time.Time, b time.Time) time.Time {
	if a != nil {
		return *a
	}
	return b
}

// retryPending reports whether a failed job's next attempt is still to come.
func retryPending(a attempt, r *workflow.StepRun) bool {
	return r.Open() && slices.Contains(workflow.RetryableJobs(a.Pack, r.MaxAttempts), a.Record.Index)
}

// nonZeroPtr is nil for a value that is nothing.
func nonZeroPtr[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
