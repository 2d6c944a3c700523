package invariant

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The laws of packs.
const (
	lawPack    = "a pack moves by the protocol"
	lawFinal   = "what is final stays"
	lawWindow  = "no more packs are claimed than are allowed in flight"
	lawLease   = "a claim is taken over after its lease"
	lawUnknown = "not executed is said only where it is true"
)

// Pack is told of every write of a pack item.
func (w *Watch) Pack(before, after *workflow.Pack) {
	key := after.Key
	if w.packs[key.Run()] == nil {
		w.packs[key.Run()] = map[workflow.PackKey]*workflow.Pack{}
	}
	w.packs[key.Run()][key] = after
	if w.Tell != nil {
		w.tell("   pack %s: %s token %d lease %s cancel %v %s", packName(key), after.State, after.Token, after.Lease.Format("04:05.000"), after.Cancel, codes(after))
	}
	if before == nil {
		if after.Token > 1 || after.State == workflow.PackClaimed && after.Token != 1 {
			w.Break(lawPack, "%s begins with token %d", key, after.Token)
		}
		w.window(after)
		before = &workflow.Pack{Token: after.Token, Lease: after.Lease}
	} else {
		w.replaced(before, after)
	}
	known := map[int]workflow.JobCode{}
	for _, rec := range before.Jobs {
		known[rec.Index] = rec.Code
	}
	for _, rec := range after.Jobs {
		w.record(key, known[rec.Index], rec)
		delete(known, rec.Index)
	}
	for index, code := range known {
		w.Break(lawLost, "%s: job %d was %s and has vanished", key, index, code)
	}
}

// window wants a claim to keep within what its step run allows in flight.
func (w *Watch) window(p *workflow.Pack) {
	r := w.runs[p.Key.Execution]
	if r == nil || p.State != workflow.PackClaimed {
		return
	}
	step := r.x.RunOf(p.Key.RunSeq)
	if step == nil || step.Window == 0 {
		return
	}
	claimed := 0
	for _, other := range w.packs[p.Key.Run()] {
		claimed += count(other.State == workflow.PackClaimed)
	}
	if claimed > step.Window {
		w.Break(lawWindow, "%s is the %dth at a time of step run %d, which allows %d", p.Key, claimed, step.RunSeq, step.Window)
	}
}

func (w *Watch) replaced(before, after *workflow.Pack) {
	key := after.Key
	switch {
	case before.Final():
		w.Break(lawFinal, "%s was %s, and is written again", key, before.State)
	case after.Token != before.Token && after.Token != before.Token+1:
		w.Break(lawPack, "%s: token %d became %d", key, before.Token, after.Token)
	case after.Token == before.Token && after.Lease.Before(before.Lease):
		w.Break(lawPack, "%s: its lease went back from %s to %s", key, before.Lease, after.Lease)
	case after.Token == before.Token && before.Cancel && !after.Cancel:
		w.Break(lawPack, "%s: the cancel flag is gone", key)
	case after.Token > before.Token && !before.Lease.Before(w.At.Add(w.Skew)):
		w.Break(lawLease, "%s is taken over at %s, and its lease runs until %s", key, w.At, before.Lease)
	}
}

// record holds what a write says of one job against what was said before, and
// against what devices have seen.
func (w *Watch) record(key workflow.PackKey, before workflow.JobCode, rec workflow.JobRecord) {
	job := workflow.JobID(key.Execution, key.RunSeq, rec.Index, key.Attempt)
	calls := w.calls[job]
	switch before {
	case workflow.CodeOK, workflow.CodeFail, workflow.CodeUnknown, workflow.CodeNotExecuted:
		if rec.Code != before {
			w.Break(lawFinal, "job %s was %s, and is %s", job, before, rec.Code)
		}
	case workflow.CodeStarted:
		if rec.Code == workflow.CodeNone {
			w.Break(lawPack, "job %s was started, and is not any more", job)
		}
	}
	switch {
	case rec.Code == workflow.CodeNotExecuted && len(calls) > 0 && !calls[0].Pure && !w.forgotten[job]:
		w.Break(lawUnknown, "job %s was called, and is %s", job, rec.Code)
	case (rec.Code == workflow.CodeOK || rec.Code == workflow.CodeFail) && len(calls) == 0:
		w.Break(lawLost, "job %s is %s, and was never called", job, rec.Code)
	}
}

func packName(k workflow.PackKey) string {
	return fmt.Sprintf("%s run %d lane %d attempt %d", short(k.Execution), k.RunSeq, k.Lane, k.Attempt)
}

func codes(p *workflow.Pack) (text string) {
	for _, j := range p.Jobs {
		text += fmt.Sprintf("%d:%s ", j.Index, j.Code)
	}
	return text
}
