package dispatch

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// laneState is the progress of a lane: done, or at an attempt that is not final.
type laneState struct {
	lane      int
	done      bool
	failed    bool             // done, but some job did not end OK
	attempt   int              // the first attempt that is not final
	pack      *workflow.Pack   // the item of that attempt; nil if nobody has claimed it
	jobs      []int            // indexes of the jobs of that attempt
	notBefore time.Time        // earliest start of a retry that nobody has claimed
	packs     []*workflow.Pack // the items of all attempts, the earliest first
}

// findLaneState follows a lane along its attempts. packs holds the lane's items by
// attempt.
func findLaneState(r *StepRun, lane int, packs map[int]*workflow.Pack) laneState {
	step := r.Step
	from, to := step.LaneRange(lane)
	l := laneState{lane: lane, attempt: 1}
	for i := from; i < to; i++ {
		l.jobs = append(l.jobs, i)
	}
	for {
		l.pack = packs[l.attempt]
		if l.pack != nil {
			l.packs = append(l.packs, l.pack)
		}
		if !l.pack.Final() {
			return l
		}
		retry := r.retryJobs(l.pack)
		if len(retry) == 0 {
			l.done = true
			l.failed = laneFailed(l.packs)
			return l
		}
		l.notBefore = l.pack.FinishedAt.Add(max(r.Work.Retry.DelayBefore(l.attempt+1), l.pack.RetryAfter(retry)))
		l.attempt, l.jobs = l.attempt+1, retry
	}
}

// closed reports whether a handler that stops the step run has closed the lane, or asks its worker to stop.
func (l laneState) closed() bool {
	return slices.ContainsFunc(l.packs, func(p *workflow.Pack) bool {
		return p.CancelRequested || p.State == workflow.PackCancelled && p.Token == 0
	})
}

// retryJobs lists the jobs of a final pack that the next attempt repeats.
func (r *StepRun) retryJobs(p *workflow.Pack) []int {
	if r.ShouldRetry == nil {
		return workflow.RetryableJobs(p, r.Step.MaxAttempts)
	}
	return p.NextJobs(r.Step.MaxAttempts, func(f *workflow.Failure) bool { return r.ShouldRetry(p.Key.Attempt, f) })
}

// laneFailed reports whether the last attempt of any job of a done lane did not end
// OK.
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

// laneEnd returns what the done set records about a done lane.
func (l laneState) laneEnd() workflow.LaneResult {
	end := workflow.LaneResult{Unsuccessful: l.failed, HasUpdates: asksUpdates(l.packs)}
	for _, rec := range plan.LatestRecords(l.packs) {
		end.Failures.Add(rec.Code)
	}
	return end
}

// asksUpdates reports whether a job in any of the packs requests updates of entities. Every attempt
// counts, because a job that ended OK is not tried again.
func asksUpdates(packs []*workflow.Pack) bool {
	return slices.ContainsFunc(packs, (*workflow.Pack).HasUpdates)
}

// failuresLeft reports whether a job failed in an earlier attempt and is not repeated by the
// current or a later attempt, and counts such jobs.
func (l laneState) failuresLeft() (left bool, failures workflow.JobFailures) {
	for _, q := range l.packs {
		for _, j := range q.Jobs {
			if q.Key.Attempt < l.attempt && j.Code != workflow.JobCodeOK && !slices.Contains(l.jobs, j.Index) {
				if !triedLater(l.packs, q.Key.Attempt, j.Index) {
					left = true
					failures.Add(j.Code)
				}
			}
		}
	}
	return left, failures
}

// triedLater reports whether a job has a record in a later attempt.
func triedLater(packs []*workflow.Pack, attempt, index int) bool {
	return slices.ContainsFunc(packs, func(p *workflow.Pack) bool {
		return p.Key.Attempt > attempt && slices.ContainsFunc(p.Jobs, func(j workflow.JobRecord) bool { return j.Index == index })
	})
}

// cancelledPack returns the cancelled marker of an attempt. Once it is written, no worker can claim
// the attempt.
func cancelledPack(key workflow.PackKey, jobs []int, now time.Time) *workflow.Pack {
	p := &workflow.Pack{Key: key, State: workflow.PackCancelled, FinishedAt: now}
	for _, i := range jobs {
		p.Jobs = append(p.Jobs, workflow.JobRecord{Index: i, Code: workflow.JobCodeNotExecuted})
	}
	return p
}

// seizedPack returns the pack after the engine has taken it from a holder whose lease has expired.
// Started jobs become UNKNOWN and the others NOT_EXECUTED; results that the holder has written
// stay.
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
			rec.Code, rec.EndedAt, rec.Failure = workflow.JobCodeUnknown, now, seen.WorkerLost()
		}
		p.Jobs = append(p.Jobs, rec)
	}
	return &p
}
