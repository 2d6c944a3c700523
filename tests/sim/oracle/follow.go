package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// FlowEntry is one entry into a step.
type FlowEntry struct {
	Label string
	Nth   int // from 1
	Call  bool
	Value any // the parameter v of the block: int64, or a text; the same for all entities

	Input any // all parameters, if the step has an input

	Entities []string // the entities that take part, in order; nil if the step has none
	Items    []any    // the parameter v for each item that takes part; nil if the step has none

	EngineStep *engineStep // of a step that the engine does itself
	True       bool        // the value of the condition on a variable for which it waits
	Time       string      // the round of each loop, or wave of each rollout, around it
	at         int
	Again      bool               // the block is called again after the wait that it asked for
	Of         []int              // the items that take part, whose parameters Items has
	Keep       map[string]keptJob // not called because they keep what they did: entities by ID, items by number
}

// Jobs returns how many jobs a step run has that calls a block.
func (e *FlowEntry) Jobs(s *defgen.FlowStep) int {
	switch {
	case s.OnDevices:
		return len(e.Entities)
	case s.Each != nil:
		return len(e.Items)
	}
	return 1
}

// FlowOutcome is how a step run that calls a block or waits has ended: the code of a failure, or n.
// Until then it is Pending.
type FlowOutcome struct {
	Code    string
	N       int
	Pending bool
	Stopped bool   // together with its branch
	Answer  string // what its block has returned as the next step

	Skipped   bool        // it had no job
	JobFailed bool        // of a step with callback: its job failed, whatever was answered
	Lost      []int       // the failed jobs, by index
	Values    map[int]int // what the other jobs returned
	Doubt     bool        // one of them has an unknown outcome
}

// FlowFailure is why an execution has failed: in which step, and what error.step is when the
// failure is handled. For a failure in a branch, that is the step with the branches.
type FlowFailure struct {
	Step, Code, Seen string

	Doubt bool // nothing in a wave handles it
	Whole bool // its wave cannot be undone by itself

	who []string // the entities whose jobs have failed
	at  int      // the number of the entry in which it happened

	branches []*FlowFailure // the failures of its branches
}

func failureIn(step, code string) *FlowFailure {
	return &FlowFailure{Step: step, Code: code, Seen: step}
}

// FlowRun follows a definition as a reader would: step by step, with the variables in a map.
// Outcome returns what the block of a step returned at its nth execution, from 1. Following stops
// at a step run that has not ended.
type FlowRun struct {
	Outcome    func(FlowEntry) FlowOutcome
	Devices    []string // of the execution, in their order
	Parameters map[string]any

	// Begin is called at each step that is entered, with its number from 0: where another try has
	// continued, it sets Devices to those of the try. Keeps returns for which entities and items
	// the block is not called because they keep what an earlier try did, and what that returned.
	Begin func(at int, r *FlowRun)
	Keeps func(r *FlowRun, e *FlowEntry, at int, key string) (keptJob, bool)

	// Closed reports whether the branches of a step were closed, or are to be, the nth time, and
	// Has whether another step was entered in them, for its own nth time.
	Closed    func(label string, n int) bool
	Cancelled func(label string, n int) bool
	Has       func(label string, n int, around FlowEntry) bool

	// Late reports whether a branch of the step of an entry had not ended when the branches timed
	// out. from is its first entry; over means that nothing is left to do in it.
	Late func(r *FlowRun, fork, branch, from int, over bool) bool

	// LeftInDoubt reports whether an earlier try has left a wave so that it cannot be undone by itself.
	LeftInDoubt func(wave string) bool

	Entered []FlowEntry
	Failed  *FlowFailure // nil if the execution completes
	Pending bool         // it is not over
	GaveUp  bool         // it has more step runs than are followed
	Vars    map[string]any

	Lost   map[string]bool // the entities that have failed and are tolerated
	LostAt map[string]int  // the number of the entry in which each failed
	Stop   *flowStop       // the rollout that has stopped, nil for none
	Wrong  string          // a step run has ended OK, or failed, and should not have
	Settle []FlowEntry     // the step runs whose jobs have ended

	wave      *flowWave         // the current wave
	lastWave  int               // the number of the last executed wave
	failedIn  map[*flowWave]int // number of failed entities; nil key for outside of waves with a tolerance
	goesOn    int               // number of surrounding steps with continueOnError
	tolerated int

	completed map[string]bool // the steps that completed at their last execution
	breakable bool            // the innermost surrounding loop, wave or branch is a loop

	error  *FlowFailure // the last failure that was handled
	counts map[string]int
	items  []int // of the surrounding loops, innermost last
	times  []string

	spans map[int][]flowSpan // of each step with branches, by its number: its branches

	forks []int // the steps with branches around the current entry, by number

	handled []flowSpan // what was entered in a step whose failure was handled

	writes []flowWrite // what was set in the current branch
	closed *FlowEntry  // the step around the current branch, if that is closed
}

// flowWrite is a variable that was set.
type flowWrite struct {
	path  string
	value any
}

// flowEnd is how a step or a list of steps is left: it ends, jumps to another step, or fails.
type flowEnd struct {
	next   string
	failed *FlowFailure
	breaks bool // it ends the innermost loop
}

// String describes how far it has come, or how it ends.
func (r *FlowRun) String() string {
	switch {
	case r.Pending:
		return "it to wait"
	case r.Failed != nil:
		return fmt.Sprintf("it to fail with %s in %s", r.Failed.Code, r.Failed.Step)
	}
	return fmt.Sprintf("it to complete after %d steps", len(r.Entered))
}

// pending stands for a failure at a step run that has not ended. Nothing handles it.
var pending = &FlowFailure{Code: "PENDING"}

// closed stands for a failure at a branch that was closed. Nothing handles it.
var closed = &FlowFailure{Code: "CLOSED"}

// maxFlowRuns is when following is given up: more step runs than an execution may have.
const maxFlowRuns = 90

// Follow executes a definition from its beginning to its end.
func (r *FlowRun) Follow(f *defgen.Flow) {
	r.Vars, r.counts, r.completed, r.spans = map[string]any{}, map[string]int{}, map[string]bool{}, map[int][]flowSpan{}
	r.handled = nil
	r.Lost, r.LostAt, r.failedIn, r.tolerated = map[string]bool{}, map[string]int{}, map[*flowWave]int{}, f.Tolerated
	r.finish(r.list(f.Steps))
}

func (r *FlowRun) finish(end flowEnd) {
	if r.Pending = end.failed == pending || end.failed == closed; !r.Pending {
		r.Failed = end.failed
	}
}

// list executes a list of steps.
func (r *FlowRun) list(steps []defgen.FlowStep) flowEnd {
	for i := 0; i < len(steps); i++ {
		end := r.step(&steps[i])
		if end.failed != nil || end.breaks {
			return end
		}
		if end.next == "" {
			continue
		}
		to := slices.IndexFunc(steps, func(s defgen.FlowStep) bool { return s.Label == end.next })
		if to < 0 {
			return end // a surrounding list has it, or it is the end
		}
		i = to - 1
	}
	return flowEnd{}
}

// enter records that a step is executed.
func (r *FlowRun) enter(label string) {
	r.counts[label]++
	r.completed[label] = false
	r.Entered = append(r.Entered, FlowEntry{Label: label, Nth: r.counts[label], at: len(r.Entered), Time: strings.Join(r.times, "/")})
	r.Begin(len(r.Entered)-1, r)
}

func (r *FlowRun) step(s *defgen.FlowStep) flowEnd {
	if len(r.Entered) > maxFlowRuns {
		r.GaveUp = true
		return flowEnd{failed: pending}
	}
	if r.closed != nil && !r.Has(s.Label, r.counts[s.Label]+1, *r.closed) {
		return flowEnd{failed: closed}
	}
	if s.ContinueOnError {
		r.goesOn++
	}
	end := r.body(s)
	if s.ContinueOnError {
		r.goesOn--
	}
	switch {
	case end.failed == pending || end.failed == closed || end.next != "" || end.breaks:
		return end
	case end.failed != nil:
		return r.handle(s, end.failed)
	}
	return r.behind(s)
}

// behind returns how a step is left that is over.
func (r *FlowRun) behind(s *defgen.FlowStep) flowEnd {
	if s.Next != "" {
		return flowEnd{next: s.Next}
	}
	return flowEnd{}
}

// afterSteps returns how a step is left after the steps of one of its cases.
func (r *FlowRun) afterSteps(s *defgen.FlowStep, c *defgen.FlowCase, end flowEnd) flowEnd {
	switch {
	case end.failed != nil || end.next != "" || end.breaks:
		return end
	case c.Next != "":
		return flowEnd{next: c.Next}
	}
	return r.behind(s)
}

// body executes a step without handling its failure.
func (r *FlowRun) body(s *defgen.FlowStep) flowEnd {
	switch {
	case !r.meets(s):
		r.enter(s.Label)
		return flowEnd{failed: failureIn(s.Label, workflow.FailureAssertion)}
	case len(s.Set) > 0:
		return r.set(s)
	case s.Row != nil || s.Schedule != nil:
		return r.executeByEngine(s)
	case len(s.Switch) > 0:
		r.enter(s.Label)
		for i := range s.Switch {
			c := &s.Switch[i]
			if c.When != nil && !r.isTrue(c.When, nil) {
				continue
			}
			if end := r.list(c.Steps); end.failed != nil || end.next != "" || end.breaks {
				return end
			}
			if c.Next != "" {
				return flowEnd{next: c.Next}
			}
			return flowEnd{}
		}
		return flowEnd{failed: failureIn(s.Label, workflow.FailureNoRoute)}
	case s.While != nil:
		r.enter(s.Label)
		return r.while(s)
	case s.Loops:
		r.enter(s.Label)
		loop, within := r.counts[s.Label], r.breakable
		r.breakable = true
		defer func() { r.breakable = within }()
		for i, item := range s.Items {
			r.items, r.times = append(r.items, item), append(r.times, fmt.Sprintf("%s.%d:%d", s.Label, loop, i))
			end := r.list(s.Inner)
			r.items, r.times = r.items[:len(r.items)-1], r.times[:len(r.times)-1]
			if end.breaks {
				return flowEnd{}
			}
			if end.failed != nil || end.next != "" {
				return end
			}
		}
	case s.Rollout != nil:
		r.enter(s.Label)
		return r.rollout(s)
	case len(s.Inner) > 0:
		r.enter(s.Label)
		return r.list(s.Inner)
	case s.Parallel != nil:
		r.enter(s.Label)
		return r.branches(s)
	default:
		return r.execute(s, false)
	}
	return flowEnd{}
}

// execute executes a step that calls a block or waits. again means that the block is called again
// after the wait that it asked for.
func (r *FlowRun) execute(s *defgen.FlowStep, again bool) flowEnd {
	r.enter(s.Label)
	at := len(r.Entered) - 1
	r.Entered[at].Again = again
	if s.Block != "" {
		r.plan(s, &r.Entered[at])
	}
	if s.Input != nil {
		var told bool
		if r.Entered[at].Input, told = r.input(s.Input); !told {
			r.Entered[at].Call = false
			return flowEnd{failed: failureIn(s.Label, workflow.FailureInput)}
		}
	}
	if s.When != nil && s.When.Cond != nil {
		r.Entered[at].True = r.isTrue(s.When.Cond, nil)
	}
	outcome := r.Outcome(r.Entered[at])
	unasked := r.closed != nil && outcome.Code == "" && outcome.Answer == defgen.AnswerUnknown // nobody asks where its branch goes on
	switch {
	case outcome.Pending:
		return flowEnd{failed: pending}
	case outcome.Stopped:
		return flowEnd{failed: closed}
	case s.When != nil:
		return r.lapsed(s, &r.Entered[at], outcome.Code)
	case outcome.Code != "" && s.Ask != nil && !outcome.JobFailed:
		return r.unanswered(s, failureIn(s.Label, outcome.Code))
	case !unasked && (outcome.Code == workflow.FailureUnknownStep || outcome.Answer == defgen.AnswerUnknown):
		return r.goesNowhere(s, &r.Entered[at], &outcome)
	case outcome.Code != "" && s.Wait == 0 && s.Until.IsZero():
		return flowEnd{failed: r.fails(s, &r.Entered[at], &outcome)}
	}
	switch {
	case s.Asks == 0 || again:
	case s.OnResume == "":
		return r.execute(s, true)
	default: // what has come after a wait for a time is nothing
		r.endsWell(s, &r.Entered[at], &outcome)
		if r.completed[s.Label] = true; s.OutputKey != "" {
			r.write(s.OutputKey, nil)
		}
		return flowEnd{next: s.OnResume}
	}
	if s.Block != "" {
		r.endsWell(s, &r.Entered[at], &outcome)
	}
	switch {
	case s.OutputKey == "" || outcome.Skipped:
	case s.Each != nil:
		r.write(s.OutputKey, resultsOf(s.Each, &r.Entered[at], &outcome))
	default:
		r.write(s.OutputKey, map[string]any{"n": int64(outcome.N)})
	}
	r.completed[s.Label] = !outcome.Skipped
	switch {
	case unasked:
		return flowEnd{failed: closed}
	case outcome.Answer == defgen.AnswerBreak:
		return flowEnd{breaks: r.breakable}
	case outcome.Answer != defgen.AnswerNothing:
		return flowEnd{next: outcome.Answer}
	}
	return flowEnd{}
}

// unanswered returns how a step is left that has waited in vain, or was answered with no.
func (r *FlowRun) unanswered(s *defgen.FlowStep, why *FlowFailure) flowEnd {
	to := s.Ask.OnTimeout
	if why.Code == workflow.FailureRejected {
		to = s.Ask.OnReject
	}
	if to == "" {
		return flowEnd{failed: why}
	}
	r.error = why
	return flowEnd{next: to}
}

// handle handles a failure in a step as the step says, or leaves the step with the failure.
func (r *FlowRun) handle(s *defgen.FlowStep, why *FlowFailure) flowEnd {
	if why.Doubt && r.wave != nil {
		return flowEnd{failed: why}
	}
	if s.ContinueOnError {
		return r.behind(s)
	}
	for i := range s.OnFailure {
		c := &s.OnFailure[i]
		if c.When != nil && !r.isTrue(c.When, why) {
			continue
		}
		r.error = why
		r.forgive(s)
		r.handled = append(r.handled, flowSpan{from: r.lastOf(why.Seen), to: len(r.Entered)})
		if len(c.Steps) == 0 && c.Next != "" {
			return flowEnd{next: c.Next}
		}
		return r.afterSteps(s, c, r.list(c.Steps))
	}
	return flowEnd{failed: why}
}

func (r *FlowRun) isTrue(c *defgen.FlowCondition, why *FlowFailure) bool {
	switch {
	case c.Code != "":
		return why.Code == c.Code
	case c.Step != "":
		return why.Seen == c.Step
	}
	n, set := r.read(c.Path).(int64)
	switch c.Op {
	case "none":
		return !set
	case "gt":
		return set && n > int64(c.Than)
	case "lt":
		return set && n < int64(c.Than)
	}
	return set && n == int64(c.Than)
}

func (r *FlowRun) value(v defgen.FlowValue) any {
	switch {
	case v.ErrorCode:
		if r.error == nil {
			panic("oracle: a step reads a failure, and none was handled")
		}
		return r.error.Code
	case v.OfItem:
		return int64(r.items[len(r.items)-1] + v.Add)
	case v.Path == "":
		return int64(v.Add)
	}
	path := v.Path
	if v.OfResult {
		path += ".n"
	}
	if n, set := r.read(path).(int64); set {
		return n + int64(v.Add)
	}
	return int64(v.Else)
}

func (r *FlowRun) read(path string) any {
	var at any = r.Vars
	for _, name := range strings.Split(path, ".") {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	return at
}

// write sets the variable at a path, in new objects, because others may still hold the old ones.
func (r *FlowRun) write(path string, v any) {
	r.writes = append(r.writes, flowWrite{path, v})
	names := strings.Split(path, ".")
	r.Vars = maps.Clone(r.Vars)
	at := r.Vars
	for _, name := range names[:len(names)-1] {
		object, _ := at[name].(map[string]any)
		if object = maps.Clone(object); object == nil {
			object = map[string]any{}
		}
		at[name] = object
		at = object
	}
	at[names[len(names)-1]] = v
}
