package simulator

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// Result is the result of one seed.
type Result struct {
	Seed           uint64
	Calls          int // of ports and of blocks
	Executions     int
	SimulatedTime  time.Duration
	Ends           oracle.Ends
	StoredOutcomes int    // executions whose outcomes are in items of their own, as they were compared
	Digest         uint64 // of all calls in their order
	Faults         []InjectedFault
	Violation      *invariant.Violation // nil if all invariants hold
}

// simulation is the simulation of one seed in progress.
type simulation struct {
	*Simulator
	scenario  scenario
	faultPlan *faultPlan
	checker   *invariant.Checker
	plans     *oracle.Oracle
	requests  map[string]oracle.Request // by idempotency key
	startedAt time.Time

	running            processes
	current            *process // the process that is making a call, nil between calls
	spawnCount         int
	lifecycleHandlers  int // lifecycle handlers in progress
	packsByWorker      [workerCount]int
	executions         []string          // in the order in which starts were answered
	executionByRequest map[string]string // by idempotency key
	actions            []action
	lastSweep          time.Time
	nextRoundAt        time.Time  // when an operator acknowledges executions next
	storedOutcomes     int        // how many executions checkStoredOutcomes has compared
	otherVerbs         int        // how often that operator used a command other than acknowledge
	anew               *rand.Rand // draws how executions that ended unsafely are retried, see retryAnew
	anewLeft           int        // how many such retries are left
	late               *rand.Rand // draws what happens when executions are deleted
	lateCommands       int        // how many commands came when their executions were deleted
	activeSchedules    []string
	programs           programs
	outage             outage
	queueUntil         time.Time // when the workers are done with the work of others
	stall              stall
	ends               ends
	streaks            map[string]streak // by execution
	deferred           []deferred        // in order of time
	unscheduled        map[string]bool   // definitions whose schedules were removed
	restoreProgress    restoreProgress
	digest             uint64
	trace              func(format string, args ...any) // writes a line of the trace, nil if not wanted
}

// measuredOneIn: one seed in so many measures items as they are stored, which takes time.
const measuredOneIn = 10

// subscriptionsAge is how long a process remembers which tenants have subscriptions.
const subscriptionsAge = 30 * time.Second

// maxCalls is the most calls of one simulation.
const maxCalls = 120_000

// Run simulates one seed. trace, unless it is nil, gets a line for everything that happens.
func (t *Simulator) Run(seed uint64, cut Cut, trace func(format string, args ...any)) Result {
	p := newScenario(seed)
	t.Engine.SubscriptionsAge = 0
	p.Actions = slices.DeleteFunc(p.Actions, func(a action) bool { return slices.Contains(cut.Actions, a.Number) })
	for _, a := range p.Actions {
		if a.Definition != "" {
			t.publishOnce(cut, a.Definition)
		}
	}
	t.World, t.BlockCalls = t.base.CloneRegistry(seed), nil
	t.Engine.Forget()
	if p.Ends {
		t.Engine.SubscriptionsAge = subscriptionsAge
	}
	if seed%measuredOneIn == 0 {
		harness.MeasureItems(t.World)
	}
	if !p.FaultProfile.SweeperEnabled {
		t.MaxWaiters = workflow.MaxWaiters // waiters beyond the bound depend on their timers
	}
	w := &simulation{Simulator: t, scenario: p, actions: p.Actions, startedAt: t.base.Now(), checker: invariant.New(), lastSweep: t.base.Now(), executionByRequest: map[string]string{}, streaks: map[string]streak{}, unscheduled: map[string]bool{}, late: rand.New(rand.NewPCG(seed, 21)), requests: map[string]oracle.Request{}}
	if trace != nil {
		w.trace = w.withPrefix(trace)
	}
	w.checker.Skew, w.checker.Trace = p.FaultProfile.MaxSkew+time.Millisecond, w.trace
	w.checker.Importing = func() bool { return w.current != nil && strings.HasPrefix(w.current.name, "import") }
	w.checker.LateWorker = func() bool { return w.current != nil && w.current.outlivedRestore }
	t.Engine.Policy.MinFencingToken, t.Engine.Policy.Retention, w.checker.Retention = 0, p.Retention, p.Retention
	w.checker.MayBreak = w.mayBreak
	w.faultPlan = newFaultPlan(seed, p.FaultProfile, w.elapsed, cut.allowsFault)
	w.watchPlans()
	w.checker.Polled, w.plans.Polled, w.plans.MaxStepRuns = claimedByProgram, claimedByProgram, t.Engine.Policy.MaxStepRuns
	w.preparePrograms()
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
		r.Calls, r.Executions, r.SimulatedTime = w.CallCount(), max(len(w.States(harness.Caller.Tenant)), len(w.executions)), w.elapsed()
		r.StoredOutcomes, r.Ends = w.storedOutcomes, w.plans.Ends
		r.Digest, r.Faults = w.digest, w.faultPlan.injectedFaults()
	}()
	for w.next() {
		if r.Violation = w.checker.Violation(); r.Violation != nil {
			return r
		}
		most := maxCalls
		if w.scenario.QueueTime > 0 {
			most = maxQueueCalls
		}
		if w.CallCount() > most {
			r.Violation = &invariant.Violation{Invariant: "every execution ends", Text: fmt.Sprintf("not ended after %d calls: %s", most, w.describeUnfinished())}
			return r
		}
		if longest := w.longest(); w.elapsed() > longest {
			r.Violation = &invariant.Violation{Invariant: "every execution ends", Text: fmt.Sprintf("not ended after %s: %s", longest, w.describeUnfinished())}
			return r
		}
	}
	if r.Violation = w.checker.Violation(); r.Violation == nil {
		r.Violation = w.checkFinalState()
	}
	return r
}

// longest returns after how long everything must have happened.
func (w *simulation) longest() time.Duration {
	longest := maxSimulatedTime + 4*w.scenario.Retention + w.scenario.QueueTime
	if w.scenario.Ends {
		longest += maxEndsTime
	}
	return longest
}

func (w *simulation) elapsed() time.Duration { return w.Now().Sub(w.startedAt) }

// clock returns the time on the clock of the current process.
func (w *simulation) clock() time.Time {
	if w.current == nil {
		return w.Now()
	}
	return w.Now().Add(w.current.clockSkew)
}

// faultFor returns the fault of a call.
func (w *simulation) faultFor(c faults.Call) faults.Fault {
	for _, b := range []byte(c.Name) {
		w.digest = w.digest*1099511628211 ^ uint64(b)
	}
	w.digest ^= uint64(w.Now().UnixMilli())
	if w.current == nil {
		return faults.None // a call of the simulator itself
	}
	f := faults.Throttled
	switch {
	case w.isStalled(c.Name):
		f = faults.Broken
	case !w.outage.hits(c.Name, w.Now()):
		f = w.faultPlan.faultFor(c)
	}
	if w.trace != nil {
		w.traceCall(c, f)
	}
	return f
}

// beforeBlock pauses before a worker calls a block, for less than the margin by which the worker
// knows that its lease is valid.
func (w *simulation) beforeBlock() { w.pauseAt("block.enter") }

func (w *simulation) pauseAt(where string) {
	if w.current == nil {
		return
	}
	if c, f := w.Intercept(where); f == faults.CrashBefore {
		panic(faults.Crash{Call: c})
	}
}

// blockOutcome returns the outcome of a block's call and checks the call.
func (w *simulation) blockOutcome(c harness.BlockCall) *harness.Outcome {
	w.checker.BlockCalled(c)
	if w.trace != nil {
		w.trace("device %s is called: %s %s of %s, fence %s", c.Entity, c.Kind, c.Step, c.Job, c.Fence)
	}
	o := w.scenario.blockOutcome(c)
	if c.Kind == workflow.JobExecute && o.FailCode == "" && w.plans.Breaks(c.Execution) {
		o.Break = w.scenario.answersBreak(c)
	}
	if c.Kind == workflow.JobExecute && w.plans.HasChoices(c.Execution) {
		failsOneIn := 2
		if w.plans.HasFurther(c.Execution) || w.plans.HasExtra(c.Execution) {
			failsOneIn = 6 // else few executions come far
		}
		if w.plans.HasFailingBranches(c.Execution) {
			failsOneIn = 3 // or few branches end well beside one that fails
		}
		o = w.scenario.choiceOutcome(c, failsOneIn)
		if w.plans.HasRollouts(c.Execution) {
			o = w.scenario.rolledOutcome(c)
			w.callBack(c)
		}
		if long := w.plans.AsksFor(c.Execution, c.Step); long > 0 && c.Resume == nil && o.FailCode == "" {
			o.Wait = &workflow.AskedWait{Until: w.Now().Add(long).UTC().Truncate(time.Millisecond)}
		}
		if of := w.plans.AnswersOf(c.Execution, c.Step); of != nil && o.FailCode == "" {
			w.scenario.answer(c, of, o)
		}
	}
	w.callPlanned(c, o)
	o.During = func() {
		w.pauseAt("block.run")
		w.plans.Now = w.Now()
		w.plans.BlockReturned(c.Job)
	}
	return o
}

// A rolling deployment replaces programs of the current version by a newer version, which
// writes items that the current version refuses.
const currentVersion, newerVersion = workflow.SchemaVersion, workflow.SchemaVersion + 1

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

// Limits of what is in progress at a time.
const maxLifecycleHandlers, maxPacksPerWorker = 4, 2

// next performs the event that is due first. It reports whether there was one.
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
	if len(w.deferred) > 0 {
		sooner(w.deferred[0].at, func() {
			first := w.deferred[0]
			w.deferred = w.deferred[1:]
			first.do()
		})
	}
	if t, ok := w.LifecycleQueue().NextVisible(); ok && w.lifecycleHandlers < maxLifecycleHandlers {
		sooner(w.receivable(lifecycleQueueName, t), w.deliverWakeup)
	}
	pool := w.PoolQueue("default")
	if t, ok := pool.NextVisible(); ok {
		if who := w.idleWorker(); who >= 0 {
			sooner(w.receivable(poolQueueName, t), func() { w.deliverPack(pool, who) })
		}
	}
	w.nextOfEnds(sooner)
	if t, ok := w.nextSweep(); ok {
		sooner(t, func() { w.sweepOnTimer(t) })
	}
	if t, what := w.nextRestoreStep(); what != nil && (do != nil || w.elapsed() < t) {
		sooner(w.startedAt.Add(t), what)
	}
	if do == nil {
		w.Advance(w.scenario.FaultProfile.MaxSkew) // what a fast clock has discarded is not due yet
		return w.expire()
	}
	if now := w.Now(); at.After(now) {
		w.Advance(at.Sub(now))
	}
	if w.faultPlan.ended() {
		w.QueueFaults.DuplicateOneIn, w.QueueFaults.LoseOneIn = 0, 0
	}
	w.checker.Now, w.plans.Now = w.Now(), w.Now()
	do()
	if w.scenario.Retention > 0 {
		w.judgeAcknowledged()
		for _, id := range w.checker.TakeRemoved() {
			w.comeLate(id)
		}
		if w.late.IntN(3) == 0 {
			w.expire()
		}
	}
	for _, id := range w.checker.TakeNewRollbacks() {
		if w.scenario.FaultProfile.CancelRollbacks {
			w.operateOn(action{Kind: actionCancel, Choice: w.faultPlan.intN(12)}, id)
		}
	}
	return true
}

// idleWorker returns a worker that can take another pack, -1 if there is none.
func (w *simulation) idleWorker() int {
	from := w.faultPlan.intN(workerCount)
	for i := range workerCount {
		if who := (from + i) % workerCount; w.packsByWorker[who] < maxPacksPerWorker {
			return who
		}
	}
	return -1
}

// visibilityTimeout is how long a received message stays hidden.
const visibilityTimeout = 30 * time.Second

// maxReceives returns how often a message is received before it becomes a dead letter. During an
// outage or a stall that takes less long, because all messages fail and the sweeper sends more.
func (w *simulation) maxReceives() int {
	switch now := w.Now(); {
	case now.Before(w.outage.until):
		return 4
	case now.Before(w.stall.until):
		return 2
	}
	return 40
}

func (w *simulation) deliverWakeup() {
	m, ok := w.LifecycleQueue().Receive(visibilityTimeout)
	if !ok {
		return
	}
	if m.Receives > w.maxReceives() {
		w.LifecycleQueue().Delete(m)
		return
	}
	w.comeLate(m.Wakeup().Execution)
	w.lifecycleHandlers++
	w.spawn("lifecycle", -1, func() error { return w.handleWakeup(m) }, func(p *process) {
		w.lifecycleHandlers--
		w.wakeupEnded(p)
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
	if m.Receives > w.maxReceives() {
		q.Delete(m)
		return
	}
	if w.isPolled() {
		w.poll(m)
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
				q.Delete(m) // becomes a dead letter
			}
		case retryAfter > 0:
			q.ChangeVisibility(m, retryAfter)
		default:
			q.Delete(m)
		}
	})
}
