package invariant

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The invariants of packs.
const (
	invPackProtocol   = "a pack follows the protocol"
	invFinalImmutable = "a final result never changes"
	invWindow         = "claimed packs stay within the in-flight limit"
	invLease          = "a claim is taken over only after its lease"
	invNotExecuted    = "NOT_EXECUTED is recorded only for jobs that were not called"
)

// PackWritten is called on every write of a pack item.
func (w *Checker) PackWritten(before, after *workflow.Pack) {
	key := after.Key
	if w.packs[key.StepRunKey()] == nil {
		w.packs[key.StepRunKey()] = map[workflow.PackKey]*workflow.Pack{}
	}
	w.packs[key.StepRunKey()][key] = after
	w.polled[key] = w.polled[key] || w.Polled != nil && w.Polled(after)
	if w.Trace != nil {
		w.trace("   pack %s: %s token %d lease %s cancel %v %s", formatPackKey(key), after.State, after.Token, after.Lease.Format("04:05.000"), after.CancelRequested, formatJobCodes(after))
	}
	if before == nil {
		if after.Token > 1 || after.State == workflow.PackClaimed && after.Token != 1 {
			w.Failf(invPackProtocol, "%s begins with token %d", key, after.Token)
		}
		w.checkWindow(after)
		before = &workflow.Pack{Token: after.Token, Lease: after.Lease}
	} else {
		w.checkPackReplaced(before, after)
	}
	known := map[int]workflow.JobCode{}
	for _, rec := range before.Jobs {
		known[rec.Index] = rec.Code
	}
	for _, rec := range after.Jobs {
		w.checkJobRecord(key, known[rec.Index], rec)
		delete(known, rec.Index)
	}
	for index, code := range known {
		w.Failf(invNoJobLost, "%s: the record of job %d, which was %s, is missing", key, index, code)
	}
}

// checkWindow requires that claims stay within the in-flight limit of their step run.
func (w *Checker) checkWindow(p *workflow.Pack) {
	r := w.executions[p.Key.Execution]
	if r == nil || p.State != workflow.PackClaimed {
		return
	}
	step := r.x.StepRunBySeq(p.Key.StepRunSeq)
	if step == nil || step.Window == 0 {
		return
	}
	claimed := 0
	for _, other := range w.packs[p.Key.StepRunKey()] {
		claimed += boolToInt(other.State == workflow.PackClaimed)
	}
	if claimed > step.Window {
		w.Failf(invWindow, "%s makes %d claimed packs of step run %d, which allows %d", p.Key, claimed, step.Seq, step.Window)
	}
}

func (w *Checker) checkPackReplaced(before, after *workflow.Pack) {
	key := after.Key
	switch {
	case oracle.Final(before):
		w.Failf(invFinalImmutable, "%s was %s, but is written again", key, before.State)
	case after.Token != before.Token && after.Token != before.Token+1:
		w.Failf(invPackProtocol, "%s: token %d became %d", key, before.Token, after.Token)
	case after.Token == before.Token && after.Lease.Before(before.Lease):
		w.Failf(invPackProtocol, "%s: the lease went back from %s to %s", key, before.Lease, after.Lease)
	case after.Token == before.Token && before.CancelRequested && !after.CancelRequested:
		w.Failf(invPackProtocol, "%s: the cancel flag was cleared", key)
	case after.Token > before.Token && !before.Lease.Before(w.Now.Add(w.Skew)):
		w.Failf(invLease, "%s is taken over at %s, but its lease ends at %s", key, w.Now, before.Lease)
	}
}

// checkJobRecord compares a job's record with the one before and with the calls of devices.
func (w *Checker) checkJobRecord(key workflow.PackKey, before workflow.JobCode, rec workflow.JobRecord) {
	job := workflow.JobID(key.Execution, key.StepRunSeq, rec.Index, key.Attempt)
	calls := w.calls[job]
	switch before {
	case workflow.JobCodeOK, workflow.JobCodeFail, workflow.JobCodeUnknown, workflow.JobCodeNotExecuted:
		if rec.Code != before {
			w.Failf(invFinalImmutable, "job %s was %s, but is now %s", job, before, rec.Code)
		}
	case workflow.JobCodeStarted:
		if rec.Code == workflow.JobCodeNone {
			w.Failf(invPackProtocol, "job %s was started, but its record is now empty", job)
		}
	}
	switch {
	case rec.Code == workflow.JobCodeNotExecuted && len(calls) > 0 && !calls[0].Pure && !w.forgottenJobs[job]:
		w.Failf(invNotExecuted, "job %s was called, but is recorded as %s", job, rec.Code)
	case w.polled[key] && rec.Code == workflow.JobCodeFail && rec.Failure != nil && rec.Failure.Code == workflow.FailureTimeout && len(calls) == 0:
		// A job that a program has polled counts as started from then on, and may time out before it is.
	case (rec.Code == workflow.JobCodeOK || rec.Code == workflow.JobCodeFail) && len(calls) == 0:
		w.Failf(invNoJobLost, "job %s is %s, but was never called", job, rec.Code)
	}
}

func formatPackKey(k workflow.PackKey) string {
	return fmt.Sprintf("%s step run %d lane %d attempt %d", shortID(k.Execution), k.StepRunSeq, k.Lane, k.Attempt)
}

func formatJobCodes(p *workflow.Pack) (text string) {
	for _, j := range p.Jobs {
		text += fmt.Sprintf("%d:%s ", j.Index, j.Code)
	}
	return text
}
