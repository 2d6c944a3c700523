package oracle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// The laws about what the engine does itself.
const (
	lawRows      = "a step inserts the row that its definition says, once"
	lawSchedules = "a step makes or removes the schedule that its definition says, once"
	lawStarts    = "a step starts one execution"
)

// engineStep is what a step run of a step that the engine does itself has to do. Refused is the code with
// which it fails; "" if it can be done.
type engineStep struct {
	Row      map[string]any
	Schedule *madeSchedule
	Refused  string
}

// madeSchedule is a schedule that a step makes or removes.
type madeSchedule struct {
	Name, Cron, Zone string
	Given            map[string]any
	Replace, Remove  bool
}

// engineSteps is what is known of such step runs of an execution, by Seq.
type engineSteps struct {
	want    map[int]*engineStep
	entered map[int]time.Time // when they were committed
	stored  map[int]bool      // the row is stored
	started map[int][]string  // the executions that were started
}

func newEngineSteps() engineSteps {
	return engineSteps{want: map[int]*engineStep{}, entered: map[int]time.Time{}, stored: map[int]bool{}, started: map[int][]string{}}
}

// scheduleState is what a schedule is from a time on.
type scheduleState struct {
	since time.Time
	by    string // the execution that has made it; "" if it is off
}

// scheduleHistory is what has become of a schedule that steps make.
type scheduleHistory struct {
	states []scheduleState
	last   map[string]int // the last step run of each execution that has changed it
}

// executeByEngine executes a step that inserts a row, or makes or removes a schedule.
func (r *FlowRun) executeByEngine(s *defgen.FlowStep) flowEnd {
	r.enter(s.Label)
	e := &r.Entered[len(r.Entered)-1]
	if e.EngineStep = (&engineStep{}); s.Row != nil {
		r.makeRow(s.Row, e.EngineStep)
	} else {
		r.makeSchedule(s.Schedule, e.EngineStep)
	}
	want, outcome := e.EngineStep.Refused, r.Outcome(*e)
	switch {
	case outcome.Pending:
		return flowEnd{failed: pending}
	case outcome.Stopped:
		return flowEnd{failed: closed}
	case outcome.Code != want && !(s.Schedule != nil && want == "" && outcome.Code == codeConflict):
		r.Wrong = fmt.Sprintf("step %s has ended with %q the %d. time, want %q", e.Label, outcome.Code, e.Nth, want)
	}
	if outcome.Code != "" {
		return flowEnd{failed: failureIn(s.Label, outcome.Code)}
	}
	r.completed[s.Label] = true
	return flowEnd{}
}

// codeConflict is the failure of a step whose schedule another execution has made.
const codeConflict = "CONFLICT"

// makeRow evaluates a row, and whether it fits its table: first whether it has all columns that are
// required, then whether each value has the type of its column.
func (r *FlowRun) makeRow(row defgen.FlowRow, a *engineStep) {
	a.Row = map[string]any{}
	for name, d := range row {
		value, told := r.data(d)
		if !told {
			a.Refused = "PARAMETERS"
			return
		}
		if value != nil {
			a.Row[name] = value
		}
	}
	for _, c := range defgen.TableColumns {
		value, given := a.Row[c.Name]
		fits := true
		switch value.(type) {
		case nil:
			if c.Required && !given {
				a.Refused = "MISSING_REQUIRED"
				return
			}
		case string:
			if fits = c.Type == "string" || c.Type == "datetime" || c.Type == "json"; c.Type == "datetime" {
				a.Row[c.Name] = "2030-01-31T07:00:00Z" // the only time that is drawn
			}
		case bool:
			fits = c.Type == "boolean" || c.Type == "json"
		case int64, float64:
			fits = c.Type == "number" || c.Type == "json"
		default:
			fits = c.Type == "json"
		}
		if !fits && a.Refused == "" {
			a.Refused = "TYPE_MISMATCH"
		}
	}
}

var scheduleName = regexp.MustCompile(`^[A-Za-z]`)

// makeSchedule evaluates a schedule, and whether it is one.
func (r *FlowRun) makeSchedule(o *defgen.FlowSchedule, a *engineStep) {
	m := &madeSchedule{Name: o.NameOf(r.value(o.Name.Value).(int64)), Cron: defgen.ScheduleCron(4), Zone: o.Zone, Replace: o.Replace, Remove: o.Remove}
	a.Schedule = m
	hour := int64(4)
	if o.Hour != nil {
		hour = r.value(*o.Hour).(int64)
		m.Cron = defgen.ScheduleCron(hour)
	}
	given, told := r.object(o.Given)
	if m.Given = given; len(o.Given) == 0 {
		m.Given = nil
	}
	switch {
	case !told:
		a.Refused = "PARAMETERS"
	case !scheduleName.MatchString(m.Name):
		a.Refused = "FORMAT"
	case !o.Remove && hour > 23:
		a.Refused = "CRON"
	}
}

// outcomeOfEngineStep returns how such a step run has ended.
func outcomeOfEngineStep(r *workflow.StepRun) (o FlowOutcome) {
	why := r.Failure
	if why == nil {
		why = r.Counts.Failure
	}
	switch {
	case r.Status == sm.StepCompleted:
	case why != nil:
		o.Code = why.Code
	default:
		o.Stopped = true // its execution has ended
	}
	return o
}

// followEngineSteps notes what step runs have to do when they are entered, and requires that they have
// done it when they end.
func (f *followed) followEngineSteps(run *FlowRun, before, after *workflow.Execution) {
	for i := range run.Entered {
		e := &run.Entered[i]
		if r := f.find(e.Label, e.Nth); e.EngineStep != nil && r != nil && f.engineSteps.want[r.Seq] == nil {
			f.engineSteps.want[r.Seq] = e.EngineStep
		}
	}
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		want := f.engineSteps.want[r.Seq]
		if i >= len(before.StepRuns) {
			f.engineSteps.entered[r.Seq] = f.Now
		}
		if want == nil || r.Open() || i < len(before.StepRuns) && !before.StepRuns[i].Open() {
			continue
		}
		switch done, o := r.Status == sm.StepCompleted, outcomeOfEngineStep(r); {
		case want.Schedule == nil && (done && !f.engineSteps.stored[r.Seq] || o.Code != "" && f.engineSteps.stored[r.Seq]):
			f.Failf(lawRows, "step run %d of %s, of step %s, has ended %s; its row is there: %v", r.Seq, after.ID, r.Label, r.Status, f.engineSteps.stored[r.Seq])
		case want.Schedule != nil && done && !f.hasMade(r, want.Schedule):
			f.Failf(lawSchedules, "step run %d of %s, of step %s, has ended %s, and schedule %+v is not as it says", r.Seq, after.ID, r.Label, r.Status, *want.Schedule)
		case want.Schedule != nil && o.Code == codeConflict && !f.conflicts(r, want.Schedule):
			f.Failf(lawSchedules, "step run %d of %s, of step %s, has failed with %s, and no other execution has made schedule %+v", r.Seq, after.ID, r.Label, o.Code, *want.Schedule)
		}
	}
}

// hasMade reports whether a step run, or a later one of its execution, has made or removed its
// schedule. One that was off need not be removed.
func (f *followed) hasMade(r *workflow.StepRun, m *madeSchedule) bool {
	h := f.scheduleOf(m.Name)
	if h.last[f.x.ID] >= r.Seq || f.restored {
		return true
	}
	return m.Remove && h.ever(f.engineSteps.entered[r.Seq], func(by string) bool { return by == "" })
}

// conflicts reports whether another execution had made the schedule of a step run that does not
// replace it.
func (f *followed) conflicts(r *workflow.StepRun, m *madeSchedule) bool {
	other := f.scheduleOf(m.Name).ever(f.engineSteps.entered[r.Seq], func(by string) bool { return by != "" && by != f.x.ID })
	return f.restored || other && !m.Replace
}

// ever reports whether a schedule was so at some moment since a time.
func (h *scheduleHistory) ever(since time.Time, so func(by string) bool) bool {
	for i, s := range h.states {
		if i+1 < len(h.states) && h.states[i+1].since.Before(since) {
			continue // it was another one by then
		}
		if so(s.by) {
			return true
		}
	}
	return false
}

func (o *Oracle) scheduleOf(name string) *scheduleHistory {
	if o.schedules == nil {
		o.schedules = map[string]*scheduleHistory{}
	}
	if o.schedules[name] == nil {
		o.schedules[name] = &scheduleHistory{states: []scheduleState{{}}, last: map[string]int{}}
	}
	return o.schedules[name]
}

// RowWritten is called when a row is stored that was not there.
func (o *Oracle) RowWritten(_ string, row workflow.Row) {
	x := o.executions[row.Execution]
	if x == nil || x.forgotten {
		return
	}
	var seq int
	_, _ = fmt.Sscanf(strings.TrimPrefix(row.ID, row.Execution+"."), "%d.", &seq)
	r := x.x.StepRunBySeq(seq)
	if r == nil || x.followed == nil || r.Label != row.Step || !r.EnteredAt.Equal(row.At) {
		o.Failf(lawRows, "%s has inserted row %+v, and has no such step run", row.Execution, row)
		return
	}
	f := x.followed
	if s := f.definition.Find(r.Label); s == nil || s.Row == nil || f.engineSteps.stored[seq] {
		o.Failf(lawRows, "step run %d of %s, of step %s, inserts row %s, and has inserted one before: %v", seq, x.x.ID, r.Label, row.Values, f.engineSteps.stored[seq])
	}
	f.engineSteps.stored[seq] = true
	want := f.engineSteps.want[seq]
	if want == nil {
		return // it is not judged any more
	}
	if text, _ := json.Marshal(want.Row); want.Refused != "" || !reflect.DeepEqual(decode(row.Values), decode(text)) {
		o.Failf(lawRows, "step run %d of %s, of step %s, has inserted %s, want %s, refused with %q", seq, x.x.ID, r.Label, row.Values, text, want.Refused)
	}
}

// ScheduleWritten is called on every write of a schedule.
func (o *Oracle) ScheduleWritten(before, after spec.Schedule) {
	_, name := spec.SplitScheduleName(after.Name)
	if name == "" || after.MadeBy == nil {
		return // it is that of a definition
	}
	by, h := *after.MadeBy, o.scheduleOf(name)
	last := h.last[by.Execution]
	h.last[by.Execution] = max(last, by.StepRun)
	now := scheduleState{since: o.Now, by: by.Execution}
	if after.Off() {
		now.by = ""
	}
	held := h.states[len(h.states)-1].by
	h.states = append(h.states, now)
	x := o.executions[by.Execution]
	if x == nil || x.forgotten {
		return
	}
	r := x.x.StepRunBySeq(by.StepRun)
	if r == nil || x.followed == nil || last >= by.StepRun {
		o.Failf(lawSchedules, "step run %d of %s changes schedule %s, and step run %d has changed it before", by.StepRun, by.Execution, name, last)
		return
	}
	f := x.followed
	want := f.engineSteps.want[by.StepRun]
	switch {
	case want == nil: // it is not judged any more
	case want.Schedule == nil || want.Refused != "" || !want.Schedule.is(&after):
		o.Failf(lawSchedules, "step run %d of %s, of step %s, makes schedule %+v, cron %+v, want %+v", by.StepRun, by.Execution, r.Label, after, after.Cron, want.Schedule)
	case held != "" && held != by.Execution && !o.restored && !want.Schedule.Replace:
		o.Failf(lawSchedules, "step run %d of %s changes schedule %s, which %s has made", by.StepRun, by.Execution, name, held)
	}
}

// is reports whether a schedule is what a step says.
func (m *madeSchedule) is(s *spec.Schedule) bool {
	if m.Remove {
		return s.Name == "p/"+defgen.Started+"@"+m.Name && s.Off() && s.NextAt.IsZero()
	}
	if s.Off() || s.Name != "p/"+defgen.Started+"@"+m.Name || s.Cron.Schedule != m.Cron || s.Cron.Zone != m.Zone || s.Workflow.String() != "p/"+defgen.Started+":1.0.0" {
		return false
	}
	zone, err := time.LoadLocation(m.Zone)
	if err != nil {
		return false
	}
	at := s.NextAt.In(zone)
	given, _ := json.Marshal(m.Given)
	return fmt.Sprintf("30 %d %d %d *", at.Hour(), at.Day(), at.Month()) == m.Cron && at.Minute() == 30 && (m.Given == nil && len(s.Cron.Parameters) == 0 || reflect.DeepEqual(decode(s.Cron.Parameters), decode(given)))
}

// starting notes that a step run of an execution with choices has started another one.
func (f *followed) starting(child *workflow.Execution) {
	seq := child.Parent.StepRunSeq
	r := f.x.StepRunBySeq(seq)
	if r == nil || f.forgotten {
		return
	}
	if s := f.definition.Find(r.Label); s == nil || !s.Starts {
		return
	}
	if f.engineSteps.started[seq] = append(f.engineSteps.started[seq], child.ID); len(f.engineSteps.started[seq]) > 1 {
		f.Failf(lawStarts, "step run %d of %s, of step %s, has started %v", seq, f.x.ID, r.Label, f.engineSteps.started[seq])
	}
}

// checkStarted requires that a step that starts an execution and does not wait for it ends well only
// when that one exists.
func (f *followed) checkStarted(before, after *workflow.Execution) {
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		if r.Child == nil || r.Child.Mode != workflow.ModeFireAndForget || r.Status != sm.StepCompleted || i < len(before.StepRuns) && !before.StepRuns[i].Open() {
			continue
		}
		if len(f.engineSteps.started[r.Seq]) == 0 {
			f.Failf(lawStarts, "step run %d of %s, of step %s, has ended well, and has started nothing", r.Seq, after.ID, r.Label)
		}
	}
}

// CheckStarted is called at the end: what a step has started and does not wait for has begun.
func (o *Oracle) CheckStarted() {
	for _, x := range o.executions {
		if x.followed == nil || x.forgotten {
			continue
		}
		for seq, ids := range x.followed.engineSteps.started {
			r := x.x.StepRunBySeq(seq)
			if r.Child.Mode == workflow.ModeFireAndForget && r.Status == sm.StepCompleted && NeverBegan(o.executions[ids[0]].x) {
				o.Failf(lawStarts, "step run %d of %s, of step %s, has ended well, and %s, which it has started, has not begun", seq, x.x.ID, r.Label, ids[0])
			}
		}
	}
}

// HasExtra reports whether the definition of an execution was drawn by [defgen.DrawExtra].
func (o *Oracle) HasExtra(id string) bool {
	x := o.executions[id]
	return x != nil && x.followed != nil && x.followed.definition.HasExtra()
}

// IsStepping reports whether an execution of such a definition was started in step mode.
func (o *Oracle) IsStepping(id string) bool {
	return o.HasExtra(id) && o.executions[id].request.Stepping
}
