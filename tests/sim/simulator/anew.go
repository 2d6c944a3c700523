package simulator

import (
	"math/rand/v2"
	"strings"
	"time"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An operator acknowledges an execution that ended unsafely and then retries it. The new try has to
// take its locks anew, and another execution may have some of them by then: the try waits, has
// outdated results, is refused its locks, or is cancelled.

// maxRetriesAnew bounds how often that is done in a scenario.
const maxRetriesAnew = 3

// retryAnew does so with an execution that waits for an operator, in one scenario of three, and
// reports whether it did. It has its own random numbers, so that the draws of other scenarios stay
// the same.
func (w *simulation) retryAnew(id string) bool {
	if w.anew == nil {
		w.anew = rand.New(rand.NewPCG(w.scenario.Seed, 9))
		if w.anew.IntN(3) == 0 {
			w.anewLeft = maxRetriesAnew
		}
	}
	x := w.checker.ExecutionByID(id)
	if w.anewLeft == 0 || x.State != sm.ExecutionFailedUnsafe || x.Parent != nil || len(x.Scope.Inline) == 0 {
		return false
	}
	w.anewLeft--
	var devices []string
	for i := range x.Scope.Inline {
		devices = append(devices, x.Scope.Inline[i].Key.ID)
	}
	_, name, _ := strings.Cut(x.Workflow.String(), "/")
	name, _, _ = strings.Cut(name, ":")
	w.operateOn(action{Kind: actionAcknowledge}, id)
	other := action{Number: 500 + w.anewLeft, Kind: actionStart, Definition: name, Devices: devices[w.anew.IntN(len(devices)):], Parameter: 1 + w.anew.IntN(6)}
	second := func() time.Duration { return time.Second + within(w.anew, 3*time.Second) }
	if w.anew.IntN(4) > 0 {
		w.after(second(), func() { w.perform(other) })
	}
	w.after(second()+time.Second, func() { w.operateOn(action{Kind: actionRetry, Choice: w.anew.IntN(12)}, id) })
	if w.anew.IntN(3) == 0 {
		w.after(second()+2*time.Second, func() { w.operateOn(action{Kind: actionCancel, Choice: w.anew.IntN(12)}, id) })
	}
	return true
}
