package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawCondition is the law about steps that wait for a condition.
const lawCondition = "a step waits until its condition is true, or until its deadline"

// while executes the steps of a loop as long as its condition is true.
func (r *FlowRun) while(s *defgen.FlowStep) flowEnd {
	o, loop, within := s.While, r.counts[s.Label], r.breakable
	r.breakable = true
	defer func() { r.breakable = within }()
	for index := 0; ; index++ {
		more, told := r.goesOnWith(o, index)
		switch {
		case !told:
			return flowEnd{failed: failureIn(s.Label, workflow.FailureLoop)}
		case !more || o.Max > 0 && index == o.Max && o.Stop:
			return flowEnd{}
		case o.Max > 0 && index == o.Max:
			return flowEnd{failed: failureIn(s.Label, workflow.FailureLimit)}
		}
		r.items, r.times = append(r.items, index), append(r.times, fmt.Sprintf("%s.%d:%d", s.Label, loop, index))
		end := r.list(s.Inner)
		r.items, r.times = r.items[:len(r.items)-1], r.times[:len(r.times)-1]
		if end.breaks {
			return flowEnd{}
		}
		if end.failed != nil || end.next != "" {
			return end
		}
	}
}

// meets reports whether the steps that a step requires have completed.
func (r *FlowRun) meets(s *defgen.FlowStep) bool {
	return !slices.ContainsFunc(s.Requires, func(label string) bool { return !r.completed[label] })
}

// goesNowhere returns the failure of a step whose block names a step to which the execution cannot
// go.
func (r *FlowRun) goesNowhere(s *defgen.FlowStep, e *FlowEntry, o *FlowOutcome) flowEnd {
	if o.Code != workflow.FailureUnknownStep || o.Answer != defgen.AnswerUnknown {
		r.Wrong = fmt.Sprintf("step %s has ended with %q the %d. time, and its block has named the next step %q", e.Label, o.Code, e.Nth, o.Answer)
	}
	r.Settle = append(r.Settle, *e)
	return flowEnd{failed: failureIn(s.Label, workflow.FailureUnknownStep)}
}

// input returns the parameters for a form of input; told is false if it has no value.
func (r *FlowRun) input(o *defgen.FlowInput) (parameters any, told bool) {
	context := maps.Clone(r.Vars)
	for name, value := range r.Parameters {
		if _, set := context[name]; !set {
			context[name] = value
		}
	}
	switch o.Form {
	case "static":
		return o.Static(), true
	case "full":
		return context, true
	case "keys":
		all := map[string]any{}
		for _, name := range o.Paths {
			if all[name], told = context[name]; !told {
				return nil, false
			}
		}
		return all, true
	case "template":
		if len(o.Paths) == 0 {
			return map[string]any{"v": r.value(o.Value)}, true
		}
	}
	var at any = context
	for _, name := range strings.Split(o.Paths[0], ".") {
		switch of := at.(type) {
		case map[string]any:
			if at, told = of[name]; !told {
				return nil, false
			}
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(of) {
				return nil, false
			}
			at = of[n]
		default:
			return nil, false
		}
	}
	_, told = at.(map[string]any)
	return at, told
}

// checkInput requires that a block gets the input of its step.
func (f *followed) checkInput(e *FlowEntry, c Call) {
	want, _ := json.Marshal(e.Input)
	if !reflect.DeepEqual(decode(want), decode(c.Parameters)) {
		f.Failf(lawParameters, "job %s of step %s has the parameters %s, want %s", c.Job, c.Step, c.Parameters, want)
	}
}

// AnswersOf returns what the block of a step may return as the next step.
func (o *Oracle) AnswersOf(execution, step string) []string {
	if x := o.executions[execution]; x != nil && x.followed != nil {
		if s := x.followed.definition.Find(step); s != nil {
			return s.Answers
		}
	}
	return nil
}

// goesOnWith reports whether a loop is executed once more, and whether that is known.
func (r *FlowRun) goesOnWith(o *defgen.FlowWhile, index int) (more, told bool) {
	switch _, set := r.readSet(o.Cond); {
	case o.Below > 0 && index >= o.Below:
		return false, true
	case o.Cond == nil:
		return true, true
	case !set:
		return false, o.Guarded
	}
	return r.isTrue(o.Cond, nil), true
}

func (r *FlowRun) readSet(c *defgen.FlowCondition) (n int64, set bool) {
	if c == nil {
		return 0, false
	}
	n, set = r.read(c.Path).(int64)
	return n, set
}

// lapsed returns how a step is left that has waited for a condition.
func (r *FlowRun) lapsed(s *defgen.FlowStep, e *FlowEntry, code string) flowEnd {
	if of := s.When.Cond; of != nil && e.True != (code == "") {
		r.Wrong = fmt.Sprintf("step %s has ended with %q the %d. time, and whether its condition is true has to be %v", e.Label, code, e.Nth, e.True)
	}
	switch {
	case code == "":
		r.completed[s.Label] = true
		return flowEnd{}
	case s.When.OnTimeout == "":
		return flowEnd{failed: failureIn(s.Label, code)}
	}
	r.error = failureIn(s.Label, code)
	return flowEnd{next: s.When.OnTimeout}
}

// conditionOutcome returns how a step run that waits for a condition has ended.
// [followed.checkConditions] judges that.
func conditionOutcome(r *workflow.StepRun) (o FlowOutcome) {
	if r.Status != sm.StepCompleted {
		o.Code = workflow.FailureTimeout
	}
	return o
}

// checkConditions requires that a step that waits until a device is ready does so. It may continue
// only if the device was ready at a moment at which the engine may have looked, and lapse only at
// its deadline, if the device was not ready at such a moment.
func (f *followed) checkConditions(before, after *workflow.Execution) {
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		s := f.definition.Find(r.Label)
		if s == nil || s.When == nil || r.Wait == nil || i < len(before.StepRuns) && !before.StepRuns[i].Open() {
			continue
		}
		if long := r.Wait.Until.Sub(r.Wait.Since); long != s.When.Deadline {
			f.Failf(lawCondition, "%s waits %s at step %s, want %s", after.ID, long, r.Label, s.When.Deadline)
		}
		if r.Open() || r.Status == sm.StepCancelled || after.Cancellation != nil || after.Error != nil && after.Error.Step != r.Label {
			continue
		}
		if r.Status != sm.StepCompleted && r.EndedAt.Before(r.Wait.Until) {
			f.Failf(lawCondition, "step run %d of %s has ended %s at %s, and may wait until %s", r.Seq, after.ID, r.Status, r.EndedAt, r.Wait.Until)
		}
		if s.When.Ready == "" {
			continue
		}
		if is, isNot := f.readySince(s.When.Ready, f.KnownSince); r.Status == sm.StepCompleted && !is || r.Status != sm.StepCompleted && !isNot {
			f.Failf(lawCondition, "step run %d of %s, of step %s, has ended %s; since %s %s was ready %v, and was not %v", r.Seq, after.ID, r.Label, r.Status, f.KnownSince, s.When.Ready, is, isNot)
		}
	}
}

// readySince reports whether a device was ready at some moment since a time, and whether it was not
// ready at one.
func (o *Oracle) readySince(id string, since time.Time) (is, isNot bool) {
	all := o.writtenAt[id]
	for n, attributes := range o.versions[id] {
		if n+1 < len(all) && all[n+1].Before(since) {
			continue // it had been replaced by then
		}
		ready, _ := attributes["ready"].(bool)
		is, isNot = is || ready, isNot || !ready
	}
	return is, isNot
}

// checkUntil requires that a step that waits for a moment does so, and does not wait for a past
// one.
func (f *followed) checkUntil(r *workflow.StepRun, s *defgen.FlowStep) {
	switch {
	case !r.Wait.Until.Equal(s.Until):
		f.Failf(lawPause, "%s waits at step %s until %s, want %s", f.x.ID, r.Label, r.Wait.Until, s.Until)
	case r.Status == sm.StepCompleted && !f.resumed[r.Label] && r.EndedAt.Before(s.Until):
		f.Failf(lawPause, "%s has waited at step %s until %s, want %s", f.x.ID, r.Label, r.EndedAt, s.Until)
	case !r.EnteredAt.Before(s.Until) && r.EndedAt.After(r.EnteredAt):
		f.Failf(lawPause, "%s waits at step %s since %s for %s, which has passed", f.x.ID, r.Label, r.EnteredAt, s.Until)
	}
}

// failedLoop returns the loop with a condition whose next round cannot begin, which fails the
// execution; "" for none.
func (f *followed) failedLoop(run *FlowRun) string {
	if why := run.Failed; why != nil && (why.Code == workflow.FailureLoop || why.Code == workflow.FailureLimit) {
		return why.Step
	}
	return ""
}

// laterTime reports whether a round is later than the round with which a try begins in a loop with
// a condition: what was done in it is done again.
func (f *followed) laterTime(time, begin string) bool {
	begins := map[string]int{}
	for _, t := range strings.Split(begin, "/") {
		loop, n, _ := strings.Cut(t, ":")
		begins[loop], _ = strconv.Atoi(n)
	}
	for _, t := range strings.Split(time, "/") {
		loop, number, _ := strings.Cut(t, ":")
		label, _, _ := strings.Cut(loop, ".")
		n, _ := strconv.Atoi(number)
		if s := f.definition.Find(label); s != nil && s.While != nil && n > begins[loop] {
			return true
		}
	}
	return false
}

// HasFurther reports whether the definition of an execution was drawn with the further kinds of
// steps.
func (o *Oracle) HasFurther(id string) bool {
	x := o.executions[id]
	return x != nil && x.followed != nil && x.followed.definition.Further()
}
