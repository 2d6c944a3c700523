package invariant

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The invariants of devices.
const (
	invExecutedOnce        = "a non-idempotent block is executed once per attempt"
	invFenceMonotonic      = "fences seen by a device never decrease"
	invNoLateJobs          = "no job starts in a step run that has ended"
	invCallerHoldsLock     = "a device is called only by the lock holder, with the lock's token"
	invStartedBeforeCall   = "a job starts under a claim, after STARTED is written"
	invOwnClaim            = "a job starts only under its own worker's claim"
	invAttemptAfterFailure = "a new attempt follows a failed one"
	invUndoneOnce          = "what is undone is not undone once more"
)

// BlockCalled is called when a call of a block begins.
func (w *Checker) BlockCalled(c harness.BlockCall) {
	w.calls[c.Job] = append(w.calls[c.Job], c)
	if w.LateWorker != nil && w.LateWorker() {
		w.forgottenJobs[c.Job] = true
		if c.Entity != "" && !c.Pure && c.Fence >= w.devices[c.Entity].Fence {
			w.devices[c.Entity] = c // a device that has seen a later fence refuses the call
		}
		return
	}
	id, rest, _ := strings.Cut(c.Job, ".")
	var seq, index, attempt int
	if _, err := fmt.Sscanf(rest, "%d.%d.%d", &seq, &index, &attempt); err != nil {
		w.Failf(invNoLateJobs, "%q is not a job ID", c.Job)
		return
	}
	r := w.executions[id]
	if r == nil || r.x.StepRunBySeq(seq) == nil {
		w.Failf(invNoLateJobs, "job %s belongs to no step run", c.Job)
		return
	}
	if !c.Repeatable && len(w.calls[c.Job]) > 1 {
		w.Failf(invExecutedOnce, "job %s is called again, with fence %s after %s", c.Job, c.Fence, w.calls[c.Job][0].Fence)
	}
	w.checkOutdated(r, c, seq)
	if c.Pure {
		return // a pure block changes nothing and may come at any time
	}
	step := r.x.StepRunBySeq(seq)
	if !step.Open() || oracle.Terminal(r.x.State) {
		w.Failf(invNoLateJobs, "job %s is called, but step run %d is %s in %s", c.Job, seq, step.Status, r.x.State)
	}
	w.checkClaim(r, step, c, index, attempt)
	switch {
	case step.Undoes > 0: // a rollback, or the execution of a block that compensates
		w.checkUndoneOnce(r, step, c)
		mark(r.undoneJobs, step.Undoes, c.Entity)
	case c.Kind == workflow.JobExecute:
		mark(r.executedJobs, seq, c.Entity)
	}
	if c.Entity == "" {
		return
	}
	key := workflow.EntityKey{Type: "device", ID: c.Entity}
	if h, ok := oracle.HolderOf(w.locks[key], id, r.x.Epoch); !ok || !strings.HasPrefix(c.Fence, fmt.Sprintf("%010d-", h.Token)) {
		w.Failf(invCallerHoldsLock, "%s is called for job %s at epoch %d with fence %s; the lock is %+v", key, c.Job, r.x.Epoch, c.Fence, w.locks[key])
	}
	if last := w.devices[c.Entity]; c.Fence < last.Fence {
		w.Failf(invFenceMonotonic, "%s sees fence %s of %s after %s of %s", key, c.Fence, c.Job, last.Fence, last.Job)
	}
	w.devices[c.Entity] = c
}

// checkUndoneOnce requires that no earlier wave has already undone, for the same entity, what a
// call undoes.
func (w *Checker) checkUndoneOnce(r *executionState, step *workflow.StepRun, c harness.BlockCall) {
	for i := range r.x.StepRuns {
		u := &r.x.StepRuns[i]
		if c.Entity == "" || u.Undoes != step.Undoes || u.Seq >= step.Seq {
			continue
		}
		for index, rec := range w.latestRecords(r.x, u) {
			if rec.Code == workflow.JobCodeOK && w.isJobOf(r.x, u, index, c.Entity) {
				w.Failf(invUndoneOnce, "job %s undoes for %s what step run %d has undone", c.Job, c.Entity, u.Seq)
			}
		}
	}
}

func mark(of map[int]map[string]bool, seq int, entity string) {
	if of[seq] == nil {
		of[seq] = map[string]bool{}
	}
	of[seq][entity] = true
}

// checkClaim requires that the job's pack is claimed, that the job is recorded as started, and
// that the attempt before it failed.
func (w *Checker) checkClaim(r *executionState, step *workflow.StepRun, c harness.BlockCall, index, attempt int) {
	lane := index / max(1, step.PackSize)
	key := stepRunKey(r.x, step).Pack(lane, attempt)
	p := w.packs[key.StepRunKey()][key]
	if p == nil || p.State != workflow.PackClaimed || jobCode(p, index) != workflow.JobCodeStarted {
		w.Failf(invStartedBeforeCall, "job %s is called, but its pack is %+v", c.Job, p)
		return
	}
	if !strings.HasSuffix(c.Fence, fmt.Sprintf("-%02d", p.Token)) {
		w.Failf(invOwnClaim, "job %s is called with fence %s, but its pack is claimed with token %d", c.Job, c.Fence, p.Token)
	}
	if attempt == 1 {
		return
	}
	key.Attempt--
	if before := w.packs[key.StepRunKey()][key]; before == nil || before.State != workflow.PackFinished || jobCode(before, index) != workflow.JobCodeFail {
		w.Failf(invAttemptAfterFailure, "job %s is called, but the pack of the attempt before is %+v", c.Job, before)
	}
}

func jobCode(p *workflow.Pack, index int) workflow.JobCode {
	for _, j := range p.Jobs {
		if j.Index == index {
			return j.Code
		}
	}
	return ""
}
