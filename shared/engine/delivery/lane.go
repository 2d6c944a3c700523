package delivery

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// place is how far a lane has come: over, or at an attempt that is not final.
type place struct {
	lane    int
	over    bool
	bad     bool           // over, and some job did not come to OK
	attempt int            // the first attempt that is not final
	pack    *workflow.Pack // its item; nil if nobody has claimed it
	jobs    []int          // indexes of its jobs
	after   time.Time      // an absent retry must not start before
	records []*workflow.Pack
}

// locate walks a lane from attempt to attempt by what its packs say. packs holds
// the lane's items by attempt.
func locate(r *Run, lane int, packs map[int]*workflow.Pack) place {
	step := r.Step
	from, to := step.LaneJobs(lane)
	p := place{lane: lane, attempt: 1}
	for i := from; i < to; i++ {
		p.jobs = append(p.jobs, i)
	}
	for {
		p.pack = packs[p.attempt]
		if p.pack != nil {
			p.records = append(p.records, p.pack)
		}
		if !p.pack.Final() {
			return p
		}
		again := r.retries(p.pack)
		if len(again) == 0 {
			p.over = true
			p.bad = laneBad(p.records)
			return p
		}
		p.after = p.pack.FinishedAt.Add(r.Work.Retry.Wait(p.attempt + 1))
		p.attempt, p.jobs = p.attempt+1, again
	}
}

// retries lists the jobs that a final pack hands to its successor.
func (r *Run) retries(p *workflow.Pack) []int {
	if r.Again == nil {
		return workflow.Retries(p, r.Step.MaxAttempts)
	}
	if p.State != workflow.PackFinished || p.Key.Attempt >= r.Step.MaxAttempts {
		return nil
	}
	var again []int
	for _, j := range p.Jobs {
		if j.Code == workflow.CodeFail && j.Failure != nil && r.Again(p.Key.Attempt, j.Failure) {
			again = append(again, j.Index)
		}
	}
	return again
}

// laneBad reports whether any job of a lane that is over came to something other
// than OK in its last attempt.
func laneBad(attempts []*workflow.Pack) bool {
	last := map[int]workflow.JobCode{}
	for _, p := range attempts {
		for _, j := range p.Jobs {
			last[j.Index] = j.Code
		}
	}
	for _, code := range last {
		if code != workflow.CodeOK {
			return true
		}
	}
	return false
}

// end is what the done set keeps of a lane that is over.
func (p place) end() workflow.LaneEnd {
	return workflow.LaneEnd{Bad: p.bad, Updates: asksUpdates(p.records)}
}

// asksUpdates reports whether a job of any of the packs asks for updates of
// entities. A job that came to OK is not tried again, so that every attempt
// counts.
func asksUpdates(packs []*workflow.Pack) bool {
	return slices.ContainsFunc(packs, (*workflow.Pack).AsksUpdates)
}

// leaves reports whether an earlier attempt left a job without success that the
// attempt at hand does not try again.
func (p place) leaves() bool {
	for _, q := range p.records {
		for _, j := range q.Jobs {
			if q.Key.Attempt < p.attempt && j.Code != workflow.CodeOK && !slices.Contains(p.jobs, j.Index) {
				if !triedLater(p.records, q.Key.Attempt, j.Index) {
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

// tombstone is the pack that keeps an attempt from ever being claimed.
func tombstone(key workflow.PackKey, jobs []int, now time.Time) *workflow.Pack {
	p := &workflow.Pack{Key: key, State: workflow.PackCancelled, FinishedAt: now}
	for _, i := range jobs {
		p.Jobs = append(p.Jobs, workflow.JobRecord{Index: i, Code: workflow.CodeNotExecuted})
	}
	return p
}

// seized is the pack after the engine has taken it from a holder whose lease is
// over: what was started is not known, what was not has not been executed, and
// results that were flushed stay.
func seized(seen *workflow.Pack, jobs []int, now time.Time) *workflow.Pack {
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
		case !ok || rec.Code == workflow.CodeNone || rec.Code == "":
			rec = workflow.JobRecord{Index: i, Code: workflow.CodeNotExecuted}
		case rec.Code == workflow.CodeStarted:
			rec.Code, rec.EndedAt = workflow.CodeUnknown, now
		}
		p.Jobs = append(p.Jobs, rec)
	}
	return &p
}
