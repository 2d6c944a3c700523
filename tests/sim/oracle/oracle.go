// Package oracle predicts what executions have to do, from their definitions and from what has
// happened so far, and compares: which entities take part in a step run, with which parameters and
// attributes; which step comes next, and how long after the one before; which entities an execution
// has; and which values the inventory has in the end.
//
// Everything here is written a second time, from docs/definitions.md, and calls nothing of the code
// that it judges: no definitions, expressions, planner or decider. Package defgen, which has drawn
// a definition, knows its meaning. What has happened comes from the calls that devices see, from
// the records of packs, and from the numbers, states and events of state items.
//
// oracle.go records what happens. program.go has the steps of an execution in order, scope.go its
// entities, plan.go the jobs of a step run, flow.go the order of step runs with their pauses,
// updates.go the inventory, and limits.go how many executions are live and how fast they and jobs
// begin. rules.go lists the kinds of steps; each kind has its own file: block.go, nested.go and
// reference.go.
//
// follow.go follows a definition with choices as a reader would, and followed.go compares.
// retried.go follows new tries, branches.go steps with branches, rollouts.go steps with a job for
// each entity or item. waits.go judges steps that wait for people and signals, escalations.go
// unanswered questions, late.go branches with a timeout, and further.go has loops with a condition, waits for a condition and the
// forms of input. follow_ups.go judges what the ends of executions start, engine_steps.go what the engine does itself, and values.go evaluates values.
// ended.go judges how each try ends, and what is told of the entities then.
package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// The laws.
const (
	lawTakesPart  = "exactly the entities take part that the definition says"
	lawParameters = "a block gets the parameters and attributes that the definition says"
	lawOrder      = "steps are entered in the order of the definition"
	lawPause      = "delays are kept"
	lawScope      = "an execution has the entities that were asked for"
	lawRefused    = "what is not valid gets no locks and executes nothing"
	lawInventory  = "the inventory has the values that the jobs of a completed execution set"
)

// Oracle judges all executions of one world.
type Oracle struct {
	// Definition returns the definition with a name.
	Definition func(name string) *defgen.Definition
	// Requested returns what a client or a schedule started an execution with.
	Requested func(*workflow.Execution) (Request, bool)
	// Groups returns the groups of an entity.
	Groups func(id string) []string
	// Failf records that a law does not hold.
	Failf func(law, format string, args ...any)

	Now time.Time
	// Polled reports whether a program that polls has claimed a pack. A job that it has polled counts
	// as started, and may time out, or be taken over, before its block is called.
	Polled func(*workflow.Pack) bool
	// MaxStepRuns is how many step runs an execution may have.
	MaxStepRuns int
	// KnownSince is the time since which the process that makes the current call has known what it
	// decides by. Skew is how far a clock may be wrong.
	KnownSince time.Time
	Skew       time.Duration

	executions map[string]*execution
	versions   map[string][]map[string]any // attributes of each entity, oldest version first
	writtenAt  map[string][]time.Time      // when each version was written
	locks      map[workflow.EntityKey]workflow.Lock
	calls      map[string]*call // by job ID
	schedules  map[string]*scheduleHistory
	followUps  followUps
	Ends       Ends
	restored   bool // the tables were restored
}

// Request is what a client asked for.
type Request struct {
	Devices    []string
	Parameters map[string]any
	NotBefore  time.Time
	Hold       bool // until an operator releases it
	Stepping   bool // each step only when an operator says so
	Probe      bool // only the pure steps at the beginning
}

// call is a call of a block. A repeated call has the same outcome.
type call struct {
	Call
	returnedAt time.Time // when it returned first; zero if it has not
}

// Call is a call of a block, with the outcome that the block will return.
type Call struct {
	Job, Step, Entity string
	Execution         string
	Kind              workflow.JobKind
	Attempt           int

	Parameters, Attributes, Undoes json.RawMessage

	Result   any
	Set      map[string]any // attributes of its entity
	Acquired []string
	Answer   string // what it returns as the next step
}

// New makes an oracle for a world without executions. entities are the attributes of all entities
// in the inventory.
func New(entities map[string]map[string]any) *Oracle {
	o := &Oracle{executions: map[string]*execution{}, locks: map[workflow.EntityKey]workflow.Lock{}, calls: map[string]*call{}, followUps: followUps{ends: map[string][]*end{}, tries: map[string][]int64{}}}
	o.readInventory(entities)
	return o
}

// readInventory sets the first version of each entity.
func (o *Oracle) readInventory(entities map[string]map[string]any) {
	o.versions, o.writtenAt = map[string][]map[string]any{}, map[string][]time.Time{}
	for id, attributes := range entities {
		o.versions[id], o.writtenAt[id] = []map[string]any{attributes}, []time.Time{{}}
	}
}

// execution is what the oracle knows about one execution.
type execution struct {
	*Oracle
	x       *workflow.Execution
	program program
	request Request
	tries   map[int]*try
	plans   map[int]*plan                // of step runs outside of pipelines, by Seq
	records map[int]map[int]map[int]code // by Seq, index and attempt
	written map[string]int64             // token under which it has written an entity
	flow    flow

	followed *followed // for a definition with choices; then nothing else is judged
	waits    *waits    // for the same
	unjudged bool      // not judged: too little is known, because the tables were restored

	begunBy   bool              // an operator has let it begin
	stepping  stepping          // what operators have let it do
	live      bool              // it counts as live
	notHeld   bool              // a try was stopped at an update of an entity that it did not hold
	ends      int               // how many of its ends were judged, with what is told of its entities
	forgotten bool              // it is older than the restore of the tables
	polled    map[string]bool   // the jobs whose packs a program that polls has claimed, by ID
	enteredAt map[int]time.Time // since when a process has known what it entered a step run by, by Seq
}

// code is how an attempt of a job ended.
type code struct {
	code   workflow.JobCode
	failed string // code of the failure
	unsent bool
}

// executed reports whether the block was called, or may have been.
func (c code) executed() bool {
	return c.code == workflow.JobCodeOK || c.code == workflow.JobCodeUnknown || c.code == workflow.JobCodeFail && !c.unsent
}

// try is one try of an execution.
type try struct {
	since      map[string]int // version of each entity when the try began
	from       int            // index of the step at which it begins
	begin      spot           // and its place
	onlyFailed bool           // jobs that ended well keep their results
	rollsBack  bool           // it only undoes what is left of the tries before it

	entities   []string                       // in order
	attributes map[string]map[string]any      // as read under the locks
	locked     []string                       // the entities whose locks it had, including those that it has released
	places     []string                       // the entities by place, including those left out
	told       map[int]workflow.EntityOutcome // by place: what was told of each before a try in place
}

// Forget is called when the tables were restored: from then on the executions so far are not
// judged. entities are the attributes in the inventory now.
func (o *Oracle) Forget(entities map[string]map[string]any) {
	for _, x := range o.executions {
		if x.unjudged, x.forgotten = true, true; x.followed != nil {
			x.followed.over, x.waits.over = true, true
		}
	}
	o.restored = true
	o.readInventory(entities)
	o.locks = map[workflow.EntityKey]workflow.Lock{}
}

// isForgotten reports whether an execution is older than the restore of the tables.
func (o *Oracle) isForgotten(id string) bool {
	x := o.executions[id]
	return x != nil && x.forgotten
}

// ExecutionWritten is called on every write of a state item.
func (o *Oracle) ExecutionWritten(before, after *workflow.Execution) {
	x := o.executions[after.ID]
	if before == nil {
		before = &workflow.Execution{}
	}
	if x == nil {
		x = o.newExecution(after)
	}
	x.x = after
	defer x.countEnd(before, after, x.ends)
	x.checkEnds(before, after)
	if x.program.definition.Refused != "" {
		x.checkRefused(after)
		return
	}
	for i := len(before.StepRuns); i < len(after.StepRuns); i++ {
		x.enteredAt[after.StepRuns[i].Seq] = o.KnownSince
	}
	if !x.forgotten {
		x.checkLimits(before, after)
		x.checkChildren(after)
		x.checkUnsafe(before, after)
		x.checkStepping(before, after)
	}
	if x.followed != nil {
		x.waits.written(before, after)
		x.followed.written(before, after)
		if !x.forgotten {
			x.followed.checkStarted(before, after)
		}
	}
	if after.Cause == workflow.CauseRestored || after.Cause == workflow.CauseInternal || after.MinFencingToken != before.MinFencingToken && before.Version > 0 {
		x.unjudged = true
	}
	if x.unjudged {
		return
	}
	x.followTries(before, after)
	grant := func(e workflow.Event) bool { return e.Sequence > before.Sequence && e.To == string(sm.ExecutionLocked) }
	if after.Scope.HeldEpoch != before.Scope.HeldEpoch && after.Scope.HeldEpoch > 0 && (!Terminal(after.State) || slices.ContainsFunc(after.Events, grant)) {
		x.locksTaken()
	}
	if x.unjudged {
		return
	}
	x.followStepRuns(before, after)
	if after.State != before.State {
		x.checkEnd(before)
	}
}

func (o *Oracle) newExecution(first *workflow.Execution) *execution {
	x := &execution{Oracle: o, x: first, tries: map[int]*try{}, plans: map[int]*plan{}, records: map[int]map[int]map[int]code{}, written: map[string]int64{}, enteredAt: map[int]time.Time{}, polled: map[string]bool{}}
	o.executions[first.ID] = x
	_, name, _ := strings.Cut(first.Workflow.String(), "/")
	name, _, _ = strings.Cut(name, ":")
	x.program = newProgram(o.Definition, name)
	if choices := x.program.definition.Flow; choices != nil {
		x.followed, x.waits, x.unjudged = &followed{execution: x, definition: choices, branches: choices.Branches(), resumed: map[string]bool{}, parameters: map[string]string{}, wave: map[string]int{}, tokens: map[int]string{}, ended: map[string]bool{}, times: map[string]int{}, timedOut: map[int]bool{}, who: map[int][]string{}, engineSteps: newEngineSteps()}, newWaits(x, choices), true
	}
	x.request.Parameters = map[string]any{}
	switch parent, asked := first.Parent, false; {
	case parent != nil:
		if w := o.waitsOf(parent.Execution); w != nil {
			w.paging(first, parent.StepRunSeq)
		}
		if p := o.executions[parent.Execution]; p != nil && p.followed != nil {
			p.followed.starting(first)
		}
		x.unjudged = !x.startedByParent(parent)
	case first.FollowUpOf != nil:
		o.startedByEnd(first)
		x.request.Parameters, _ = decode(first.Input.Parameters).(map[string]any)
	default:
		if x.request, asked = o.Requested(first); !asked {
			o.Failf(lawScope, "%s was started, and nobody asked for it", first.ID)
		}
	}
	x.unjudged = x.unjudged || x.program.definition.StartsSets // only its limits are judged
	x.tries[max(1, first.Try)] = &try{since: o.presentAt(o.KnownSince)}
	if !x.unjudged && first.Probe != x.request.Probe {
		o.Failf(lawTakesPart, "%s is a probe: %v, but %v was asked for", first.ID, first.Probe, x.request.Probe)
	}
	return x
}

// checkRefused requires that an execution with an invalid definition ends before it asks for locks,
// whatever an operator wants. Its epoch grows without locks if the tables were restored.
func (x *execution) checkRefused(after *workflow.Execution) {
	if len(after.StepRuns) > 0 || after.State == sm.ExecutionLocking || after.Scope.HeldEpoch > 0 || after.State == sm.ExecutionCompleted || after.State == sm.ExecutionCompletedAck {
		x.Failf(lawRefused, "%s of %s is in %s at epoch %d with %d step runs", after.ID, after.Workflow, after.State, after.Epoch, len(after.StepRuns))
	}
}

// Entities returns the entities that an execution has in its current try, as far as known.
func (o *Oracle) Entities(id string) (keys []workflow.EntityKey) {
	if x := o.executions[id]; x != nil && !x.unjudged && x.currentTry() != nil {
		for _, id := range x.currentTry().entities {
			keys = append(keys, deviceKey(id))
		}
	}
	return keys
}

// present returns the number of the current version of each entity.
func (o *Oracle) present() map[string]int {
	at := map[string]int{}
	for id, all := range o.versions {
		at[id] = len(all) - 1
	}
	return at
}

// presentAt returns the number of the version of each entity that was current at a time.
func (o *Oracle) presentAt(at time.Time) map[string]int {
	then := map[string]int{}
	for id, all := range o.writtenAt {
		for n := range all {
			if !all[n].After(at) {
				then[id] = n
			}
		}
	}
	return then
}

// LockWritten is called on every write of a lock item.
func (o *Oracle) LockWritten(after workflow.Lock) { o.locks[after.Entity] = after }

// PackWritten is called on every write of a pack item.
func (o *Oracle) PackWritten(p *workflow.Pack) {
	x := o.executions[p.Key.Execution]
	if x == nil {
		return
	}
	seq := p.Key.StepRunSeq
	if x.records[seq] == nil {
		x.records[seq] = map[int]map[int]code{}
	}
	polled := o.Polled(p)
	for _, rec := range p.Jobs {
		if polled {
			x.polled[workflow.JobID(x.x.ID, seq, rec.Index, p.Key.Attempt)] = true
		}
		c := code{code: rec.Code}
		if rec.Failure != nil {
			c.failed, c.unsent = rec.Failure.Code, rec.Failure.Unsent
		}
		if x.records[seq][rec.Index] == nil {
			x.records[seq][rec.Index] = map[int]code{}
		}
		x.records[seq][rec.Index][p.Key.Attempt] = c
	}
}

// latest returns how a job ended: its last executed attempt, or else its last attempt; attempt is 0
// if there is no record.
func (x *execution) latest(seq, index int) (c code, attempt int) {
	for n := 1; ; n++ {
		rec, ok := x.records[seq][index][n]
		if !ok {
			return c, attempt
		}
		if attempt == 0 || rec.executed() || !c.executed() {
			c, attempt = rec, n
		}
	}
}

// BlockCalled is called when a call of a block begins.
func (o *Oracle) BlockCalled(c Call) {
	first := o.calls[c.Job] == nil
	if first {
		o.calls[c.Job] = &call{Call: c}
	}
	x := o.executions[c.Execution]
	seq, index, attempt := parseJob(c.Job)
	if x != nil && x.followed != nil {
		x.followed.called(x.x.StepRunBySeq(seq), c)
		x.followed.calledAgain(x.x.StepRunBySeq(seq), c)
		x.followed.calledInWave(x.x.StepRunBySeq(seq), c)
	}
	if x == nil || x.unjudged {
		return
	}
	r := x.x.StepRunBySeq(seq)
	if r == nil {
		return // another invariant reports it
	}
	switch {
	case first && attempt > 1:
		x.checkRetryPause(r, c, attempt)
	case first:
		x.checkPace(r, index)
	}
	switch c.Kind {
	case workflow.JobExecute:
		x.checkCall(r, index, c)
	case workflow.JobRollback:
		x.checkUndo(r, c)
	}
}

// BlockReturned is called when the call of a block ends, if it does.
func (o *Oracle) BlockReturned(job string) {
	if c := o.calls[job]; c.returnedAt.IsZero() {
		c.returnedAt = o.Now
	}
}

func parseJob(id string) (seq, index, attempt int) {
	_, rest, _ := strings.Cut(id, ".")
	_, _ = fmt.Sscanf(rest, "%d.%d.%d", &seq, &index, &attempt) // another invariant reports it
	return seq, index, attempt
}

// checkEnd judges an execution whose state has changed.
func (x *execution) checkEnd(before *workflow.Execution) {
	completed := x.x.State == sm.ExecutionCompleted || x.x.State == sm.ExecutionCompletedAck
	if !Terminal(before.State) && (completed || x.x.State == sm.ExecutionFailedUnsafe) {
		x.checkTold()
	}
	if x.x.State == sm.ExecutionCompletedAck {
		x.checkWritten()
	}
}

func decode(raw json.RawMessage) (value any) {
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &value)
	}
	return value
}
