package attempts

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Attempt is one job's record in one pack.
type Attempt struct {
	Pack   *workflow.Pack
	Record workflow.JobRecord
	State  sm.JobState
}

// Of orders all records by job, then attempt.
func Of(packs []*workflow.Pack) map[int][]Attempt {
	all := map[int][]Attempt{}
	for _, p := range packs {
		for _, rec := range p.Jobs {
			all[rec.Index] = append(all[rec.Index], Attempt{p, rec, stateOf(p, rec)})
		}
	}
	for _, as := range all {
		slices.SortFunc(as, func(a, b Attempt) int { return a.Pack.Key.Attempt - b.Pack.Key.Attempt })
	}
	return all
}

// Numbered is the attempt with the number, nil if nobody has begun it.
func Numbered(as []Attempt, number int) *Attempt {
	for n := range as {
		if as[n].Pack.Key.Attempt == number {
			return &as[n]
		}
	}
	return nil
}

// Latest is each job's latest attempt.
func Latest(packs []*workflow.Pack) map[int]Attempt {
	latest := map[int]Attempt{}
	for index, as := range Of(packs) {
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

// Jobs is every attempt of one job, the one that waits included.
func Jobs(x *workflow.Execution, r *workflow.StepRun, in workflow.JobInput, as []Attempt) []workflow.Job {
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
		j.Attempt, j.State, j.Result, j.Error = a.Pack.Key.Attempt, a.State, a.Record.Result, a.Record.Failure
		j.ID, j.Worker = id(j.Attempt), pointer(a.Pack.Worker)
		j.ClaimedAt, j.StartedAt, j.EndedAt = pointer(a.Pack.ClaimedAt), pointer(a.Record.StartedAt), pointer(a.Record.EndedAt)
		if a.Record.Outcome != "" {
			j.Outcome = &a.Record.Outcome
		}
		jobs = append(jobs, j)
	}
	switch {
	case len(jobs) == 0:
		base.Attempt, base.ID = 1, id(1)
		jobs = append(jobs, base)
	case again(as[len(as)-1], r):
		last := jobs[len(jobs)-1]
		base.Attempt, base.ID, base.CreatedAt = last.Attempt+1, id(last.Attempt+1), as[len(as)-1].Pack.FinishedAt
		jobs = append(jobs, base)
	}
	for n := range jobs {
		if n > 0 {
			jobs[n].Replaces, jobs[n-1].ReplacedBy = &jobs[n-1].ID, &jobs[n].ID
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
func again(a Attempt, r *workflow.StepRun) bool {
	return r.Open() && slices.Contains(workflow.Retries(a.Pack, r.MaxAttempts), a.Record.Index)
}

// pointer is nil for a value that is nothing.
func pointer[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
