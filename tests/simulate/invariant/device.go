package invariant

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The laws of devices.
const (
	lawTwice   = "a block that is not idempotent is executed once an attempt"
	lawFence   = "a device sees fences that grow"
	lawClosed  = "nothing of a step run that has ended starts"
	lawHeld    = "a device is called by who holds it, with the lock's token"
	lawClaimed = "a job begins under a claim, once it is written down as started"
	lawOwn     = "a job begins under nobody else's claim"
	lawAttempt = "an attempt follows one that failed"
)

// Called is told of every call of a block, as it begins.
func (w *Watch) Called(c stage.Call) {
	w.calls[c.Job] = append(w.calls[c.Job], c)
	if w.Late != nil && w.Late() {
		w.forgotten[c.Job] = true
		if c.Entity != "" && !c.Pure && c.Fence >= w.devices[c.Entity].Fence {
			w.devices[c.Entity] = c // a device that has seen a later fence refuses it
		}
		return
	}
	id, rest, _ := strings.Cut(c.Job, ".")
	var seq, index, attempt int
	if _, err := fmt.Sscanf(rest, "%d.%d.%d", &seq, &index, &attempt); err != nil {
		w.Break(lawClosed, "job %q has no name of a job", c.Job)
		return
	}
	r := w.runs[id]
	if r == nil || r.x.RunOf(seq) == nil {
		w.Break(lawClosed, "job %s belongs to nothing", c.Job)
		return
	}
	if !c.Repeatable && len(w.calls[c.Job]) > 1 {
		w.Break(lawTwice, "job %s is called once more, with fence %s after %s", c.Job, c.Fence, w.calls[c.Job][0].Fence)
	}
	if c.Pure {
		return // what changes nothing may come at any time
	}
	step := r.x.RunOf(seq)
	if !step.Open() || sm.Terminal(r.x.State) {
		w.Break(lawClosed, "job %s is called, and step run %d is %s in %s", c.Job, seq, step.Status, r.x.State)
	}
	w.claimed(r, step, c, index, attempt)
	switch c.Kind {
	case workflow.JobRollback:
		note(r.undone, step.Undoes, c.Entity)
	case workflow.JobExecute:
		note(r.called, seq, c.Entity)
	}
	if c.Entity == "" {
		return
	}
	key := workflow.EntityKey{Type: "device", ID: c.Entity}
	if h, ok := w.locks[key].Held(id, r.x.Epoch); !ok || !strings.HasPrefix(c.Fence, fmt.Sprintf("%010d-", h.Token)) {
		w.Break(lawHeld, "%s is called for job %s at epoch %d with fence %s; the lock says %+v", key, c.Job, r.x.Epoch, c.Fence, w.locks[key])
	}
	if last := w.devices[c.Entity]; c.Fence < last.Fence {
		w.Break(lawFence, "%s sees fence %s of %s after %s of %s", key, c.Fence, c.Job, last.Fence, last.Job)
	}
	w.devices[c.Entity] = c
}

func note(of map[int]map[string]bool, seq int, entity string) {
	if of[seq] == nil {
		of[seq] = map[string]bool{}
	}
	of[seq][entity] = true
}

// claimed wants the job's pack to be claimed, the job to be written down as
// started, and the attempt before it to have failed.
func (w *Watch) claimed(r *run, step *workflow.StepRun, c stage.Call, index, attempt int) {
	lane := index / max(1, step.PackSize)
	key := keyOf(r.x, step).Pack(lane, attempt)
	p := w.packs[key.Run()][key]
	if p == nil || p.State != workflow.PackClaimed || codeOf(p, index) != workflow.CodeStarted {
		w.Break(lawClaimed, "job %s is called, and its pack is %+v", c.Job, p)
		return
	}
	if !strings.HasSuffix(c.Fence, fmt.Sprintf("-%02d", p.Token)) {
		w.Break(lawOwn, "job %s is called with fence %s, and its pack is claimed with token %d", c.Job, c.Fence, p.Token)
	}
	if attempt == 1 {
		return
	}
	key.Attempt--
	if before := w.packs[key.Run()][key]; before == nil || before.State != workflow.PackFinished || codeOf(before, index) != workflow.CodeFail {
		w.Break(lawAttempt, "job %s is called, and the pack before it is %+v", c.Job, before)
	}
}

func codeOf(p *workflow.Pack, index int) workflow.JobCode {
	for _, j := range p.Jobs {
		if j.Index == index {
			return j.Code
		}
	}
	return ""
}
