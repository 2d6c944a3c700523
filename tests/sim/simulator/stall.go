package simulator

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// stalledCalls are the calls, all of one service, that may fail for the wake-ups of one execution.
var stalledCalls = [][]string{{"locks.", "store.heads"}, {"packs."}, {"registry.", "store.load_input"}, {"sender."}, {"store.save_", "store.load_"}}

// maxStall is longer than any stall that lasts until its execution was broken.
const maxStall = 8 * time.Hour

// stall is an error that all wake-ups of one execution meet, for a while.
type stall struct {
	execution string
	calls     []string
	until     time.Time
}

// drawStall lets the wake-ups of one execution fail, in one scenario of 48: a little shorter than
// the engine allows an execution, a little longer, or until the execution is broken.
func (p *scenario) drawStall() {
	r := rand.New(rand.NewPCG(p.Seed, stallStream))
	if r.IntN(48) > 0 || !p.FaultProfile.SweeperEnabled || p.RestoreDrill != nil {
		return
	}
	p.StallTime = time.Duration(pick(r, 50, 58, 59, 63, 90, int(maxStall/time.Minute), int(maxStall/time.Minute), int(maxStall/time.Minute))) * time.Minute
	p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(150_000)) * time.Millisecond, Kind: actionStall, ExecutionIndex: r.IntN(3), Choice: r.IntN(len(stalledCalls))})
}

// stallStream is the stream of random numbers for stalls.
const stallStream = 50

// isStalled reports whether the current process cannot make a call.
func (w *simulation) isStalled(call string) bool {
	if w.current.wakes == "" || w.current.wakes != w.stall.execution || !w.Now().Before(w.stall.until) {
		return false
	}
	for _, prefix := range w.stall.calls {
		if strings.HasPrefix(call, prefix) {
			return true
		}
	}
	return false
}

// streak is how long the wake-ups of an execution have failed, as observed by the simulation.
type streak struct {
	since time.Time
	count int
}

// wakeupEnded counts the failed wake-ups of an execution. A success ends the streak only after the
// last fault, because before that the engine may have been unable to record it. One that crashes during a
// stall may be the first that the engine has counted.
func (w *simulation) wakeupEnded(p *process) {
	s := w.streaks[p.wakes]
	switch {
	case p.task.Crashed() && s.since.IsZero() && p.wakes == w.stall.execution && w.Now().Before(w.stall.until):
		s.since = w.Now()
	case p.task.Crashed() || workflow.Is(p.err, workflow.CodeUnavailable):
		return
	case p.err != nil:
		if s.since.IsZero() {
			s.since = w.Now()
		}
		s.since, s.count = minTime(s.since, p.startedAt), s.count+1 // the engine counts it from when it began
	case w.faultPlan.ended() && !p.startedAt.Before(s.since): // else it had read the execution before the streak
		s = streak{}
	}
	w.streaks[p.wakes] = s
}

// mayBreak reports whether the wake-ups of an execution have failed for so long that the engine may
// break it. The wake-up that breaks it fails itself. Once the execution is broken, what had failed
// works again a little later.
func (w *simulation) mayBreak(id string) bool {
	s, now := w.streaks[id], w.checker.Now // the world is locked
	if s.count < 4 || now.Sub(s.since) < harness.Options().StallTimeout-w.checker.Skew-time.Minute {
		return false
	}
	if id == w.stall.execution {
		w.stall.until = minTime(w.stall.until, now.Add(10*time.Minute))
	}
	return true
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
