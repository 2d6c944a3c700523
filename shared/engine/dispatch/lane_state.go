package dispatch

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// laneState is how far a lane has come: over, or at an attempt that is not final.
type laneState struct {
	lane      int
	done      bool
	failed    bool           // over, and some job did not come to OK
	attempt   int            // the first attempt that is not final
	pack      *workflow.Pack // its item; nil if nobody has claimed it
	jobs      []int          // indexes of its jobs
	notBefore time.Time      // an absent retry must not start before
	packs     []*workflow.Pack
}

// findLaneState walks a lane from attempt to attempt by what its packs say. packs holds
// the lane's items by attempt.
func findLaneState(r *StepRun, lane int, packs map[int]*workflow.Pack) laneState {
	step := r.Step
	from, to := step.LaneRange(lane)
	p := laneState{lane: lane, attempt: 1}
	for i := from; i < to; i++ {
		p.jobs = append(p.jobs, i)
	}
	for {
		p.pack = packs[p.attempt]
		if p.pack != nil {
			p.packs = append(p.packs, p.pack)
		}
		if !p.pack.Final() {
			return p
		}
		retry := r.retryJobs(p.pack)
		if len(retry) == 0 {
			p.done = true
			p.failed = laneFailed(p.packs)
			return p
		}
		p.notBefore = p.pack.FinishedAt.Add(r.Work.Retry.DelayBefore(p.attempt + 1))
		p.attempt, p.jobs = p.attempt+1, retry
	}
}

// retryJobs lists the jobs that a final pack hands to its successor.
func (r *StepRun) retryJobs(p *workflow.Pack) []int {
	if r.ShouldRetry == nil {
		return workflow.RetryableJobs(p, r.Step.MaxAttempts)
	}
	if p.State != workflow.PackFinished || p.Key.Attempt >= r.Step.MaxAttempts {
		return nil
	}
	var retry []int
	for _, j := range p.Jobs {
		if j.Code == workflow.JobCodeFail && j.Failure != nil && r.ShouldRetry(p.Key.Attempt, j.Failure) {
			retry = append(retry, j.Index)
		}
	}
	return retry
}

// laneFailed reports whether any job of a lane that is over came to something other
// than OK in its last attempt.
func laneFailed(attempts []*workflow.Pack) bool {
	last := map[int]workflow.JobCode{}
	for _, p := range attempts {
		for _, j := range p.Jobs {
			last[j.Index] = j.Code
		}
	}
	for _, code := range last {
		if code != workflow.JobCodeOK {
			return true
		}
	}
	return false
}

// laneEnd is what the done set keeps of a lane that is over.
func (p laneState) laneEnd() workflow.LaneResult {
	return workflow.LaneResult{Unsuccessful: p.failed, HasUpdates: asksUpdates(p.packs)}
}

// asksUpdates reports whether a job of any of the packs asks for updates of
// entities. A job that came to OK is not tried again, so that every attempt
// counts.
func asksUpdates(packs []*workflow.Pack) bool {
	return slices.ContainsFunc(packs, (*workflow.Pack).HasUpdates)
}

// leavesFailedJobs reports whether an earlier attempt left a job without success that the
// attempt at hand does not try again.
func (p laneState) leavesFailedJobs() bool {
	for _, q := range p.packs {
		for _, j := range q.Jobs {
			if q.Key.Attempt < p.attempt && j.Code != workflow.JobCodeOK && !slices.Contains(p.jobs, j.Index) {
				if !triedLater(p.packs, q.Key.Attempt, j.Index) {
					return true
				}
			}
		}
	}
	return false
}

// triedLater reports whether a job has a record in a later attempt.
func triedLater(records []*workflow.Pack, attempt, index int) bool {
	return slices.ContainsFunc(records, func(p *workflow.Pack) bool {
		return p.Key.Attempt > attempt && slices.ContainsFunc(p.Jobs, func(j workflow.JobRecord) bool { return j.Index == index })
	})
}

// cancelledPack is the pack that keeps an attempt from ever being claimed.
func cancelledPack(key workflow.PackKey, jobs []int, now time.Time) *workflow.Pack {
	p := &workflow.Pack{Key: key, State: workflow.PackCancelled, FinishedAt: now}
	for _, i := range jobs {
		p.Jobs = append(p.Jobs, workflow.JobRecord{Index: i, Code: workflow.JobCodeNotExecuted})
	}
	return p
}

// seizedPack is the pack after the engine has taken it from a holder whose lease is
// over: what was started is not known, what was not has not been executed, and
// results that were flushed stay.
func seizedPack(seen *workflow.Pack, jobs []int, now time.Time) *workflow.Pack {
	p := *seen
	p.Token++
	p.State, p.FinishedAt, p.Jobs = workflow.PackCancelled, now, nil
	known := map[int]workflow.JobRecord{}
	for _, j := range seen.Jobs {
		known[j.Index] = j
	}
	for _, i := range jobs {
		rec, ok := known[i]
		switch {
		case !ok || rec.Code == workflow.JobCodeNone || rec.Code == "":
			rec = workflow.JobRecord{Index: i, Code: workflow.JobCodeNotExecuted}
		case rec.Code == workflow.JobCodeStarted:
			rec.Code, rec.EndedAt = workflow.JobCodeUnknown, now
		}
		p.Jobs = append(p.Jobs, rec)
	}
	return &p
}
