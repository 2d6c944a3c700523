package simulator

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// deviceCount is the number of devices.
const deviceCount = 5

// scenario is what happens in the simulation of one seed.
type scenario struct {
	Seed         uint64
	FaultProfile faultProfile
	Actions      []action // in order of time
	// RestoreDrill is a restore of the tables to an earlier time; nil in most scenarios.
	RestoreDrill *restoreDrill
	Retention    time.Duration // how long an ended execution is kept, 0 for ever
	PolledOneIn  int           // a program that polls takes one pack in so many, 0 for none
	QueueTime    time.Duration // how long the workers are busy with others
	StallTime    time.Duration // how long the wake-ups of one execution fail
	LargeResults bool          // the results of a pack do not fit into its item
	Ends         bool          // ends of executions start others
	PublishAt    time.Duration // when the definition is published that ends start, and that is not there at first; 0 for never
}

// restoreDrill is a restore as docs/runbooks/restore.md describes it.
type restoreDrill struct {
	At           time.Duration    // when the tables are restored
	RestoreTo    [4]time.Duration // the time that each table is restored to; within one second
	KeepMessages bool             // the queues are not purged, although they should be
	LateWorkers  bool             // workers that have begun a pack are not stopped
}

// largeResultsOneIn: in one scenario in so many, half of the results have largeResultBytes, for which the
// item of a pack has no room, and which take two items of their own. With small bounds any result is as large.
const largeResultsOneIn, largeResultBytes = 200, 310 << 10

// largeResultsStream is the stream of random numbers for large results.
const largeResultsStream = 180

// newScenario generates the scenario of a seed.
func newScenario(seed uint64) scenario {
	r := rand.New(rand.NewPCG(seed, 5))
	p := scenario{Seed: seed, FaultProfile: randomFaultProfile(r)}
	names := make([]string, 1+r.IntN(3))
	for i := range names {
		names[i] = definitionName(r.IntN(definitionsPerCorpus))
	}
	busy := time.Duration(1+r.IntN(4)) * time.Minute // most actions happen within this time
	within := func(d time.Duration) time.Duration {
		if r.IntN(3) == 0 {
			return time.Duration(r.IntN(200)) * time.Millisecond // at nearly the same time
		}
		return time.Duration(r.Int64N(d.Milliseconds())) * time.Millisecond
	}
	add := func(a action) { p.Actions = append(p.Actions, a) }
	devices := 1 + r.IntN(deviceCount)
	executions := 1 + r.IntN(4)
	if r.IntN(12) == 0 {
		executions = 5 + r.IntN(8)
	}
	for range executions {
		a := action{At: within(busy), Kind: actionStart, Definition: names[r.IntN(len(names))], Devices: adjacentDevices(r, devices), Parameter: 1 + r.IntN(6)}
		if r.IntN(5) == 0 {
			a.Kind = actionStartTwice
		}
		a.Probe = r.IntN(8) == 0
		if r.IntN(8) == 0 {
			a.StartDelay = time.Duration(1+r.IntN(90)) * time.Second
		}
		add(a)
	}
	commands := []actionKind{actionCancel, actionCancel, actionCancel, actionRetry, actionRetry, actionResume, actionUnlock, actionAcknowledge, actionImport, actionImport, actionStrayWakeup, actionStrayWakeup}
	if p.FaultProfile.SweeperEnabled {
		commands = append(commands, actionKillWorker, actionSweep)
	}
	for range r.IntN(6) {
		a := action{At: within(2 * busy), Kind: commands[r.IntN(len(commands))], ExecutionIndex: r.IntN(executions), Choice: r.IntN(12)}
		if a.Kind == actionImport {
			a.Devices = []string{deviceID(r.IntN(devices))}
		}
		add(a)
	}
	if p.FaultProfile.SweeperEnabled && r.IntN(12) == 0 {
		name := names[r.IntN(len(names))]
		add(action{At: within(busy), Kind: actionSchedule, Definition: name, Devices: adjacentDevices(r, devices), Choice: r.IntN(2)})
		add(action{At: busy + 5*time.Minute, Kind: actionUnschedule, Definition: name})
	}
	if p.FaultProfile.SweeperEnabled && r.IntN(10) == 0 {
		to := within(busy)
		d := &restoreDrill{At: to + time.Second + time.Duration(r.Int64N(int64(4*time.Minute))).Truncate(time.Millisecond), KeepMessages: r.IntN(2) == 0, LateWorkers: r.IntN(2) == 0}
		for i := range d.RestoreTo {
			d.RestoreTo[i] = to + time.Duration(r.IntN(1000))*time.Millisecond
		}
		if r.IntN(3) == 0 { // all tables to the same time
			d.RestoreTo = [4]time.Duration{to, to, to, to}
		}
		p.RestoreDrill = d
	}
	if p.FaultProfile.SweeperEnabled && r.IntN(15) == 0 {
		add(action{At: within(busy), Kind: actionOutage, Choice: r.IntN(len(services))})
	}
	if !p.drawChoices(names) {
		p.drawRollouts(names)
	}
	p.drawLimits(names)
	p.drawFurther(names)
	p.drawInvalid(names)
	p.drawBranches(names)
	p.drawMore(names)
	p.drawBreaks(names)
	p.drawExtra(names)
	p.drawStepping()
	p.drawRetention(names)
	p.drawPrograms()
	p.drawStall()
	p.drawLongQueue()
	p.drawEnds()
	slices.SortStableFunc(p.Actions, func(a, b action) int { return int(a.At - b.At) })
	for i := range p.Actions {
		p.Actions[i].Number = i + 1
	}
	p.LargeResults = !Small && rand.New(rand.NewPCG(seed, largeResultsStream)).IntN(largeResultsOneIn) == 0
	return p
}

// drawChoices replaces one of the definitions by one with choices, in one scenario of four. It has
// its own random numbers, so that the draws of other scenarios stay the same.
func (p *scenario) drawChoices(names []string) bool {
	r := rand.New(rand.NewPCG(p.Seed, 6))
	if r.IntN(4) > 0 {
		return false
	}
	p.replace(names[r.IntN(len(names))], "f")
	return true
}

// drawRollouts replaces one of the definitions by one with rollouts and foreach, in one scenario of
// four that has none with choices. In half of these scenarios, an operator rewinds executions.
func (p *scenario) drawRollouts(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, 7))
	if r.IntN(4) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "r")
	for i := range p.Actions {
		if a := &p.Actions[i]; strings.HasPrefix(a.Definition, "r") && !a.Probe && r.IntN(3) == 0 && a.Kind != actionSchedule && a.Kind != actionUnschedule {
			a.Key = "k"
		}
	}
	for range r.IntN(4) - 1 {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(240_000)) * time.Millisecond, Kind: actionRewind, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// drawLimits replaces one of the remaining definitions by one with limits and paces, in one
// scenario of five. Half of those also get a step that starts several executions.
func (p *scenario) drawLimits(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, 8))
	if r.IntN(5) > 0 {
		return
	}
	kind := "l"
	if r.IntN(2) == 0 {
		kind = "c"
	}
	p.replace(names[r.IntN(len(names))], kind)
}

// drawFurther replaces one of the remaining definitions by one with the further kinds of steps, in
// one scenario of six. Meanwhile devices become ready, or stop being ready.
func (p *scenario) drawFurther(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, furtherStream))
	if r.IntN(6) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "g")
	for range r.IntN(4) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(240_000)) * time.Millisecond, Kind: actionImport, Devices: []string{deviceID(r.IntN(3))}, Choice: r.IntN(12)})
	}
}

// furtherStream is the stream of random numbers for further kinds of steps.
const furtherStream = 46

// drawInvalid replaces one of the remaining definitions by an invalid one, in one scenario of 24.
// Operators retry what was refused, also by force.
func (p *scenario) drawInvalid(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, invalidStream))
	if r.IntN(24) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "v")
	for range 1 + r.IntN(3) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(360_000)) * time.Millisecond, Kind: []actionKind{actionRetry, actionRetry, actionUnlock}[r.IntN(3)], ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// invalidStream is the stream of random numbers for invalid definitions.
const invalidStream = 61

// drawBranches replaces one of the definitions that are left, in one scenario of 16, by one with branches with which
// retries begin.
func (p *scenario) drawBranches(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, branchesStream))
	if r.IntN(16) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "k")
	for range 6 + r.IntN(8) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(360_000)) * time.Millisecond, Kind: actionRetry, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// branchesStream is that of the random numbers by which branches are drawn with which retries begin.
const branchesStream = 77

// drawMore replaces one of the definitions that are left, in one scenario of 12, by one of [defgen.DrawMore].
func (p *scenario) drawMore(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, moreStream))
	if r.IntN(12) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "m")
	for range r.IntN(4) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(360_000)) * time.Millisecond, Kind: actionRetry, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// moreStream is the stream of random numbers for the definitions of [defgen.DrawMore].
const moreStream = 90

// drawBreaks replaces one of the definitions that are left, in one scenario of 14, by one whose blocks answer BREAK.
func (p *scenario) drawBreaks(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, breaksStream))
	if r.IntN(14) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "b")
	for range r.IntN(4) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(360_000)) * time.Millisecond, Kind: actionRetry, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// breaksStream is the stream of random numbers for definitions whose blocks answer BREAK.
const breaksStream = 101

// drawExtra replaces one of the definitions that are left, in one scenario of 14, by one of [defgen.DrawExtra]. Some
// of its executions are stepped through, and operators let them go back, and try them again.
func (p *scenario) drawExtra(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, extraStream))
	if r.IntN(14) > 0 {
		return
	}
	p.replace(names[r.IntN(len(names))], "t")
	for i := range p.Actions {
		if a := &p.Actions[i]; strings.HasPrefix(a.Definition, "t") && !a.Probe && p.FaultProfile.SweeperEnabled && p.RestoreDrill == nil && r.IntN(4) == 0 {
			a.Stepping = a.Kind == actionStart || a.Kind == actionStartTwice
		}
	}
	for range r.IntN(4) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(240_000)) * time.Millisecond, Kind: actionRewind, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
	for range r.IntN(4) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(360_000)) * time.Millisecond, Kind: actionRetry, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// extraStream is the stream of random numbers for the definitions of [defgen.DrawExtra].
const extraStream = 140

// answersBreak reports whether a call of a block answers BREAK.
func (p *scenario) answersBreak(c harness.BlockCall) bool {
	_, rest, _ := strings.Cut(c.Job, ".")
	stepRun, _, _ := strings.Cut(rest, ".")
	return p.oneIn(4, "break", harness.BlockCall{Step: c.Step + stepRun, Entity: c.Entity, Execution: c.Execution})
}

// replace replaces a definition by one of another kind with the same number.
func (p *scenario) replace(name, kind string) {
	for i := range p.Actions {
		if a := &p.Actions[i]; a.Definition == name {
			a.Definition = kind + name[1:]
		}
	}
}

// adjacentDevices returns a few devices with consecutive IDs, in any order.
func adjacentDevices(r *rand.Rand, devices int) (ids []string) {
	from := r.IntN(devices)
	for i := range 1 + r.IntN(devices-from) {
		ids = append(ids, deviceID(from+i))
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func deviceID(i int) string { return fmt.Sprintf("d%03d", i) }

// actionKind is the kind of an action.
type actionKind string

// The kinds of actions.
const (
	actionStart       actionKind = "start"
	actionStartTwice  actionKind = "start twice" // two processes send the same request at once
	actionCancel      actionKind = "cancel"
	actionRetry       actionKind = "retry"
	actionResume      actionKind = "resume"
	actionRewind      actionKind = "rewind"
	actionNext        actionKind = "next" // a step of an execution that is stepped through
	actionUnlock      actionKind = "unlock"
	actionAcknowledge actionKind = "acknowledge"
	actionImport      actionKind = "import" // a device changes in the inventory
	actionSchedule    actionKind = "schedule"
	actionUnschedule  actionKind = "unschedule"
	actionKillWorker  actionKind = "kill a worker"
	actionStrayWakeup actionKind = "stray wakeup" // a wake-up without a reason
	actionSweep       actionKind = "sweep"        // outside of its schedule
	actionOutage      actionKind = "outage"       // of one service
	actionRead        actionKind = "read"
	actionLongQueue   actionKind = "long queue"
	actionStall       actionKind = "stall" // the wake-ups of an execution fail from now on
)

// action is something that a client or an operator does at a given time.
type action struct {
	Number         int // its number in the scenario
	At             time.Duration
	Kind           actionKind
	Definition     string   // of a start or a schedule
	Devices        []string // of a start; of an import, the one
	ExecutionIndex int      // the execution of a command, by the order of starts
	Choice         int      // chooses between variants of a command
	StartDelay     time.Duration
	Parameter      int    // of a start, the parameter n
	Probe          bool   // of a start
	Key            string // of a start, the business key
	Hold, Stepping bool   // of a start: until an operator releases it; one step at a time
}

func (a action) String() string {
	s := fmt.Sprintf("action %d at %s: %s", a.Number, a.At, a.Kind)
	if a.Definition != "" {
		s += " " + a.Definition
	}
	if len(a.Devices) > 0 {
		s += fmt.Sprint(" ", a.Devices)
	}
	if a.Kind == actionOutage {
		s += " of " + services[a.Choice].name
	}
	if a.Probe {
		s += ", as a probe"
	}
	if a.Key != "" {
		s += ", with the key " + a.Key
	}
	if a.Hold {
		s += ", held"
	}
	if a.Stepping {
		s += ", step by step"
	}
	return s
}

// blockOutcome returns the outcome of a block's call. It depends only on the seed and the call, not
// on the order of calls.
func (p *scenario) blockOutcome(c harness.BlockCall) *harness.Outcome {
	o := &harness.Outcome{}
	m := p.FaultProfile
	if p.oneIn(m.BlockFailOneIn, "fail", c) {
		o.FailCode, o.Retryable = "REFUSED", p.oneIn(m.RetryableOneIn, "retry", c)
		if !o.Retryable && p.oneIn(8, "broken", c) {
			o.FailCode = workflow.FailureHTTPUnreachable
		}
		return o
	}
	switch c.Kind {
	case workflow.JobAcquire:
		for i := range deviceCount {
			if p.hash("found"+deviceID(i), c)%3 == 0 {
				o.Acquired = append(o.Acquired, deviceID(i))
			}
		}
	case workflow.JobExecute:
		o.Result, _ = json.Marshal(map[string]any{"attempt": c.Attempt, "by": c.Job})
		if p.LargeResults && p.oneIn(2, "large", c) {
			o.Result, _ = json.Marshal(map[string]any{"attempt": c.Attempt, "by": c.Job, "text": strings.Repeat("x", largeResultBytes)})
		}
		if c.Entity != "" && p.oneIn(m.SetAttributeOneIn, "set", c) {
			o.SetAttributes = map[string]any{"by": c.Job}
			if p.oneIn(2, "ready", c) {
				o.SetAttributes["ready"] = p.oneIn(2, "is", c)
			}
		}
	}
	return o
}

// choiceOutcome returns the outcome of a block's call in a definition with choices. It is the same
// for all entities, so that a failure of the step has one code. On average, at most one call in
// failsOneIn fails.
func (p *scenario) choiceOutcome(c harness.BlockCall, failsOneIn int) *harness.Outcome {
	_, rest, _ := strings.Cut(c.Job, ".")
	stepRun, _, _ := strings.Cut(rest, ".")
	same := harness.BlockCall{Step: c.Step + stepRun, Execution: c.Execution}
	if p.oneIn(max(failsOneIn, p.FaultProfile.BlockFailOneIn/2), "fail", same) {
		return &harness.Outcome{FailCode: defgen.FlowCodes[p.hash("code", same)%uint64(len(defgen.FlowCodes))]}
	}
	return &harness.Outcome{Result: fmt.Appendf(nil, `{"n":%d}`, p.hash("n", same)%5)}
}

// answer lets a block choose the next step, among those that it may return.
func (p *scenario) answer(c harness.BlockCall, of []string, o *harness.Outcome) {
	_, rest, _ := strings.Cut(c.Job, ".")
	stepRun, _, _ := strings.Cut(rest, ".")
	switch a := of[p.hash("goes on", harness.BlockCall{Step: c.Step + stepRun, Execution: c.Execution})%uint64(len(of))]; a {
	case defgen.AnswerBreak:
		o.Break = true
	default:
		o.Next = a
	}
}

// rolledOutcome returns the outcome of a block's call in a definition with rollouts. Each entity
// and item has its own, but all failures have one code.
func (p *scenario) rolledOutcome(c harness.BlockCall) *harness.Outcome {
	_, rest, _ := strings.Cut(c.Job, ".")
	stepRun, rest, _ := strings.Cut(rest, ".")
	index, _, _ := strings.Cut(rest, ".")
	same := harness.BlockCall{Step: c.Step + stepRun, Execution: c.Execution}
	one := same
	one.Entity = cmp.Or(c.Entity, index)
	if p.oneIn(max(6, p.FaultProfile.BlockFailOneIn), "fail", one) {
		return &harness.Outcome{FailCode: defgen.FlowCodes[p.hash("code", same)%uint64(len(defgen.FlowCodes))]}
	}
	return &harness.Outcome{Result: fmt.Appendf(nil, `{"n":%d}`, p.hash("n", one)%5)}
}

// oneIn is true for one call in so many; 0 means never.
func (p *scenario) oneIn(in int, what string, c harness.BlockCall) bool {
	return in > 0 && p.hash(what, c)%uint64(in) == 0
}

func (p *scenario) hash(what string, c harness.BlockCall) uint64 {
	h := fnv.New64a()
	var seed [9]byte
	binary.BigEndian.PutUint64(seed[:], p.Seed)
	seed[8] = byte(c.Attempt)
	h.Write(seed[:])
	for _, s := range []string{what, c.Step, string(c.Kind), c.Entity, c.Execution[len(c.Execution)-4:]} {
		h.Write([]byte(s))
	}
	return h.Sum64() >> 3
}
