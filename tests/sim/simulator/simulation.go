package simulator

import (
	"container/heap"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
)

// Result is what came of one play.
type Result struct {
	Seed          uint64
	Calls         int // calls made, of ports and of blocks
	Executions    int
	SimulatedTime time.Duration // how long it took in the world
	Digest        uint64        // of all calls in their order
	Faults        []InjectedFault
	Violation     *invariant.Violation // nil if all held
}

// simulation is one play under way.
type simulation struct {
	*Simulator
	scenario  scenario
	faultPlan *faultPlan
	checker   *invariant.Checker
	startedAt time.Time

	running            processes
	current            *process // the one that is at work, nil between two
	spawnCount         int
	lifecycleHandlers  int // handlers of lifecycle messages at work
	packsByWorker      [workerCount]int
	executions         []string          // in order of their answer
	executionByRequest map[string]string // runs by request
	actions            []action
	lastSweep          time.Time // the last minute of the alarm clock
	nextRoundAt        time.Time // when an operator goes round next
	otherVerbs         int       // how often that operator has tried something else than to acknowledge
	activeSchedules    []string
	unscheduled        map[string]bool // definitions whose schedules have been switched off
	restoreProgress    restoreProgress
	digest             uint64
	trace              func(format string, args ...any) // of what happens, for people
}

// maxCalls bounds a play.
const maxCalls = 60_000

// Run plays one seed. tell, unless it is nil, is told of all that happens.
func (t *Simulator) Run(seed uint64, cut Cut, trace func(format string, args ...any)) Result {
	p := newScenario(seed)
	p.Actions = slices.DeleteFunc(p.Actions, func(a action) bool { return slices.Contains(cut.Actions, a.Number) })
	for _, a := range p.Actions {
		if a.Definition != "" {
			t.publishOnce(cut, a.Definition)
		}
	}
	t.World, t.BlockCalls = t.base.CloneRegistry(seed), nil
	w := &simulation{Simulator: t, scenario: p, actions: p.Actions, startedAt: t.base.Now(), checker: invariant.New(), lastSweep: t.base.Now(), executionByRequest: map[string]string{}, unscheduled: map[string]bool{}}
	if trace != nil {
		w.trace = w.withPrefix(trace)
	}
	w.checker.Skew, w.checker.Trace = p.FaultProfile.MaxSkew+time.Millisecond, w.trace
	w.checker.Importing = func() bool { return w.current != nil && strings.HasPrefix(w.current.name, "import") }
	w.checker.LateWorker = func() bool { return w.current != nil && w.current.outlivedRestore }
	t.Engine.Policy.MinFencingToken = 0
	w.faultPlan = newFaultPlan(seed, p.FaultProfile, w.elapsed, cut.allowsFault)
	t.Observer = w.checker
	t.QueueFaults = p.FaultProfile.QueueFaults
	t.Faults = w.faultFor
	t.Clock, t.BeforeBlock, t.ProgramVersion, t.Script = w.clock, w.beforeBlock, w.programVersion, w.blockOutcome
	return w.run()
}

func (w *simulation) run() (r Result) {
	r.Seed = w.scenario.Seed
	defer func() {
		if cause := recover(); cause != nil {
			r.Violation = &invariant.Violation{Invariant: "no panic", Text: fmt.Sprintf("%v\n%s", cause, debug.Stack())}
		}
		w.current = nil
		w.killAll()
		r.Calls, r.Executions, r.SimulatedTime = w.CallCount(), len(w.States(harness.Caller.Tenant)), w.elapsed()
		r.Digest, r.Faults = w.digest, w.faultPlan.injectedFaults()
	}()
	for w.next() {
		if r.Violation = w.checker.Violation(); r.Violation != nil {
			return r
		}
		if w.CallCount() > maxCalls {
			r.Violation = &invariant.Violation{Invariant: "every execution ends", Text: fmt.Sprintf("%d calls, and no end: %s", maxCalls, w.describeUnfinished())}
			return r
		}
		if w.elapsed() > maxSimulatedTime {
			r.Violation = &invariant.Violation{Invariant: "every execution ends", Text: fmt.Sprintf("after %s: %s", maxSimulatedTime, w.describeUnfinished())}
			return r
		}
	}
	if r.Violation = w.checker.Violation(); r.Violation == nil {
		r.Violation = w.checkFinalState()
	}
	return r
}

func (w *simulation) elapsed() time.Duration { return w.Now().Sub(w.startedAt) }

// clock is the time as the process at work takes it.
func (w *simulation) clock() time.Time {
	if w.current == nil {
		return w.Now()
	}
	return w.Now().Add(w.current.clockSkew)
}

// faultFor is what becomes of a call.
func (w *simulation) faultFor(c faults.Call) faults.Fault {
	for _, b := range []byte(c.Name) {
		w.digest = w.digest*1099511628211 ^ uint64(b)
	}
	w.digest ^= uint64(w.Now().UnixMilli())
	if w.current == nil {
		return faults.None // a question from outside of the play
	}
	f := w.faultPlan.faultFor(c)
	if w.trace != nil {
		w.traceCall(c, f)
	}
	return f
}

// beforeBlock lets time pass before a worker calls a block: less than the margin within
// which its lease is known to run.
func (w *simulation) beforeBlock() { w.pauseAt("block.enter") }

func (w *simulation) pauseAt(where string) {
	if w.current == nil {
		return
	}
	if c, f := w.Intercept(where); f == faults.CrashBefore {
		panic(faults.Crash{Call: c})
	}
}

// blockOutcome is what comes of a call of a block.
func (w *simulation) blockOutcome(c harness.BlockCall) *harness.Outcome {
	w.checker.BlockCalled(c)
	if w.trace != nil {
		w.trace("device %s is called: %s %s of %s, fence %s", c.Entity, c.Kind, c.Step, c.Job, c.Fence)
	}
	o := w.scenario.blockOutcome(c)
	o.During = func() { w.pauseAt("block.run") }
	return o
}

// A deployment replaces programs of one release by such of the next, which write
// items that the older ones refuse.
const currentVersion, newerVersion = 1, 2

const deployStart, deployEnd = time.Minute, 2 * time.Minute

func (w *simulation) versionToStart() int {
	if !w.scenario.FaultProfile.RollingDeploy || w.elapsed() < deployStart {
		return currentVersion
	}
	if w.elapsed() < deployEnd {
		return currentVersion + w.faultPlan.intN(2)
	}
	return newerVersion
}

func (w *simulation) programVersion() int {
	if w.current == nil {
		return newerVersion
	}
	return w.current.programVersion
}

// At most so many handlers and packs of one worker are at work at a time.
const maxLifecycleHandlers, maxPacksPerWorker = 4, 2

// next lets the one thing happen that is due first. It reports whether there was
// any.
func (w *simulation) next() bool {
	at, do := w.nextRound()
	sooner := func(t time.Time, what func()) {
		if do == nil || t.Before(at) {
			at, do = t, what
		}
	}
	if len(w.running) > 0 {
		sooner(w.running[0].resumeAt, func() { w.stepProcess(heap.Pop(&w.running).(*process)) })
	}
	if len(w.actions) > 0 {
		sooner(w.startedAt.Add(w.actions[0].At), func() {
			a := w.actions[0]
			w.actions = w.actions[1:]
			w.perform(a)
		})
	}
	if t, ok := w.LifecycleQueue().NextVisible(); ok && w.lifecycleHandlers < maxLifecycleHandlers {
		sooner(t, w.deliverWakeup)
	}
	pool := w.PoolQueue("default")
	if t, ok := pool.NextVisible(); ok {
		if who := w.idleWorker(); who >= 0 {
			sooner(t, func() { w.deliverPack(pool, who) })
		}
	}
	if t, ok := w.nextSweep(); ok {
		sooner(t, func() { w.sweepOnTimer(t) })
	}
	if t, what := w.nextRestoreStep(); what != nil && (do != nil || w.elapsed() < t) {
		sooner(w.startedAt.Add(t), what)
	}
	if do == nil {
		return false
	}
	if now := w.Now(); at.After(now) {
		w.Advance(at.Sub(now))
	}
	if w.faultPlan.ended() {
		w.QueueFaults.DuplicateOneIn, w.QueueFaults.LoseOneIn = 0, 0
	}
	w.checker.Now = w.Now()
	do()
	for _, id := range w.checker.TakeNewRollbacks() {
		if w.scenario.FaultProfile.CancelRollbacks {
			w.operateOn(action{Kind: actionCancel, Choice: w.faultPlan.intN(12)}, id)
		}
	}
	return true
}

// idleWorker is a worker that has room for a pack, -1 if none has.
func (w *simulation) idleWorker() int {
	from := w.faultPlan.intN(workerCount)
	for i := range workerCount {
		if who := (from + i) % workerCount; w.packsByWorker[who] < maxPacksPerWorker {
			return who
		}
	}
	return -1
}

// visibilityTimeout is how long a message that was received stays hidden.
const visibilityTimeout = 30 * time.Second

// maxReceives is how often a message is received before it is put aside; one that
// comes that often in a world without faults is poison.
const maxReceives = 40

func (w *simulation) deliverWakeup() {
	m, ok := w.LifecycleQueue().Receive(visibilityTimeout)
	if !ok {
		return
	}
	if m.Receives > maxReceives {
		w.LifecycleQueue().Delete(m)
		return
	}
	w.lifecycleHandlers++
	w.spawn("lifecycle", -1, func() error { return w.handleWakeup(m) }, func(p *process) {
		w.lifecycleHandlers--
		if p.err == nil && !p.task.Crashed() {
			w.LifecycleQueue().Delete(m)
		}
	})
}

func (w *simulation) deliverPack(q *sim.Queue, worker int) {
	m, ok := q.Receive(visibilityTimeout)
	if !ok {
		return
	}
	if m.Receives > maxReceives {
		q.Delete(m)
		return
	}
	w.packsByWorker[worker]++
	var retryAfter time.Duration
	w.spawn(fmt.Sprintf("worker%d", worker), worker, func() (err error) {
		retryAfter, err = w.HandlePack(worker, m.Pack())
		return err
	}, func(p *process) {
		w.packsByWorker[worker]--
		switch {
		case p.err != nil || p.task.Crashed():
			if w.faultPlan.losesMessage("the message of " + p.name) {
				q.Delete(m) // to where dead letters go
			}
		case retryAfter > 0:
			q.ChangeVisibility(m, retryAfter)
		default:
			q.Delete(m)
		}
	})
}
