package defgen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
)

// FlowWhile is the condition of a loop: fewer than Below rounds are over (if not 0) and Cond holds
// (if not nil). Guarded means that Cond is false while its variable is not set.
type FlowWhile struct {
	Below   int
	Cond    *FlowCondition
	Guarded bool
	Max     int  // the most rounds; 0 for no limit
	Stop    bool // the loop ends OK at Max
}

// FlowWhen is a condition that a step waits for: on variables, or that a device is ready.
type FlowWhen struct {
	Cond      *FlowCondition
	Ready     string // the device
	Deadline  time.Duration
	OnTimeout string // step; "" if the step fails then
}

// What a block may return as the next step, besides the label of a step.
const (
	AnswerNothing = ""
	AnswerBreak   = "BREAK"
	AnswerUnknown = "nowhere" // which is no step
)

// FlowInput are parameters in one of the forms of input: key and path have one path; keys has
// several; template has Value as v, or the value at a path; static is [FlowInput.Static]; and full
// is everything.
type FlowInput struct {
	Form  string
	Paths []string
	Value FlowValue
}

// Static returns the parameters of the form static.
func (*FlowInput) Static() map[string]any { return map[string]any{"v": "${vars.a}", "n": 7.0} }

// flowKnown is a step that has been drawn, with its branch.
type flowKnown struct{ label, branch string }

// DrawFurther draws a definition with the kinds of steps that [DrawFlow] does not draw: loops with
// a condition, waits for a moment and for a condition, steps that require others, blocks that
// choose the next step, parameters in all forms of input, and branches with steps on entities.
func DrawFurther(draw func(below int) int, waits, splits bool) *Flow {
	f := &Flow{draw: draw, further: true, changes: true, pure: draw(2) == 0, waits: waits, splits: splits}
	var first []FlowStep
	if draw(3) > 0 { // all variables are set from the beginning
		s := FlowStep{Label: f.label()}
		for _, path := range flowPaths {
			s.Set = append(s.Set, FlowSet{Path: path, Value: FlowValue{Add: draw(4)}})
		}
		first = append(first, s)
	}
	f.Steps = append(first, f.list(0, 3+draw(3), nil, false)...)
	return f
}

// Further reports whether the definition was drawn by [DrawFurther].
func (f *Flow) Further() bool { return f.further }

// Page returns the definition that escalations start: it calls a block once.
func Page() *Definition {
	return &Definition{Steps: []*Step{{Label: "s0", Body: &Block{Name: "pure"}}}}
}

// drawFurther draws a step of one of these kinds, and reports whether it did.
func (f *Flow) drawFurther(s *FlowStep, depth int, targets []string, handles bool) bool {
	switch kind := f.draw(10); {
	case kind < 2 && depth < 2:
		f.repeated(s, depth, targets, handles)
	case kind == 2:
		f.when(s, targets)
	case kind == 3:
		s.Until = sim.StartTime.Add([]time.Duration{-time.Hour, 20 * time.Second, time.Minute, 3 * time.Minute}[f.draw(4)])
	case kind == 4:
		f.answering(s, targets)
	case kind == 5:
		f.input(s)
	default:
		return false
	}
	return true
}

// repeated draws a loop with a condition.
func (f *Flow) repeated(s *FlowStep, depth int, targets []string, handles bool) {
	o := &FlowWhile{Stop: f.draw(2) == 0}
	if f.draw(2) == 0 {
		o.Below = f.draw(5)
	}
	if o.Below == 0 || f.draw(2) == 0 {
		o.Cond, o.Guarded = f.condition(false), f.draw(5) > 0
		o.Cond.Written = false
	}
	if o.Below == 0 || f.draw(2) == 0 {
		o.Max = 1 + f.draw(3)
	}
	loops, indexed := f.loops, f.indexed
	f.loops, f.indexed = loops+1, true
	s.Loops, s.While, s.Inner = true, o, f.list(depth+1, 1+f.draw(2), targets, handles)
	if c := o.Cond; c != nil && f.draw(2) == 0 { // the last step changes what the condition reads
		s.Inner = append(s.Inner, FlowStep{Label: f.label(), Set: []FlowSet{{Path: f.own(c.Path), Value: FlowValue{OfItem: true, OfIndex: true, Add: f.draw(3)}}}})
	}
	f.loops, f.indexed = loops, indexed
}

func (f *Flow) when(s *FlowStep, targets []string) {
	o := &FlowWhen{Deadline: []time.Duration{8 * time.Second, 40 * time.Second, 150 * time.Second}[f.draw(3)]}
	if f.draw(3) == 0 {
		o.Cond = f.condition(false)
		o.Cond.Written = false
	} else {
		o.Ready = fmt.Sprintf("d%03d", f.draw(3))
	}
	if f.draw(3) == 0 {
		o.OnTimeout = f.target(targets)
	}
	s.When = o
}

func (o *FlowWhile) yaml() string {
	var tests []string
	if o.Below > 0 {
		tests = append(tests, fmt.Sprintf("index < %d", o.Below))
	}
	if o.Cond != nil {
		if o.Guarded {
			tests = append(tests, hasPath(o.Cond.Path))
		}
		tests = append(tests, o.Cond.text())
	}
	fields := fmt.Sprintf("while: '%s'", strings.Join(tests, " && "))
	if o.Max > 0 {
		fields += fmt.Sprintf(", max: %d", o.Max)
	}
	if o.Stop && o.Max > 0 {
		fields += ", onMax: stop"
	}
	return "loop: {" + fields + "}"
}

func (o *FlowWhen) yaml() string {
	text := ""
	if o.Cond != nil {
		text = o.Cond.text()
	} else {
		text = fmt.Sprintf("entity(%q, %q).ready == true", "device", o.Ready)
	}
	fields := fmt.Sprintf("when: '%s', deadline: %s", text, o.Deadline)
	if o.OnTimeout != "" {
		fields += fmt.Sprintf(", onTimeout: {next: %s}", o.OnTimeout)
	}
	return "wait: {" + fields + "}"
}

// answering draws a step whose block chooses the next step.
func (f *Flow) answering(s *FlowStep, targets []string) {
	s.Block, s.Value = "pure", f.value(false)
	if !f.pure && f.draw(2) == 0 {
		s.Block = "again"
	}
	if f.draw(2) == 0 {
		s.OutputKey = f.own("r")
	}
	s.Answers = []string{AnswerNothing}
	for range 1 + f.draw(2) {
		s.Answers = append(s.Answers, f.target(targets))
	}
	if f.loops > 0 {
		s.Answers = append(s.Answers, AnswerBreak)
	}
	if f.draw(3) == 0 {
		s.Answers = append(s.Answers, AnswerUnknown)
	}
}

// input draws a step with parameters in one of the forms of input.
func (f *Flow) input(s *FlowStep) {
	s.Block = "pure"
	if !f.pure && f.draw(2) == 0 {
		s.Block = "again"
	}
	names := []string{"m", "m", "a", "n", "r", "g"}
	paths := []string{"m", "m", "m", "m.r", "r", "g", "g.0", "m.x"}
	o := &FlowInput{Form: []string{"key", "keys", "path", "template", "full", "static"}[f.draw(6)]}
	switch o.Form {
	case "key":
		o.Paths = []string{names[f.draw(len(names))]}
	case "keys":
		for _, name := range f.some(names[1:], 1+f.draw(3)) {
			o.Paths = append(o.Paths, name)
		}
	case "path":
		o.Paths = []string{paths[f.draw(len(paths))]}
	case "template":
		if o.Value = f.value(false); f.draw(2) == 0 {
			o.Paths = []string{paths[f.draw(6)]}
		}
	}
	s.Input = o
}

// require lets a step require some of the steps before it, and remembers the step.
func (f *Flow) require(s *FlowStep, before []flowKnown) {
	var visible []string
	for _, k := range before {
		if k.branch == "" || slices.Contains(f.open, k.branch) {
			visible = append(visible, k.label)
		}
	}
	if f.draw(9) == 0 && len(visible) > 0 && !s.OnDevices {
		for _, label := range f.some(visible, min(len(visible), 1+f.draw(2))) {
			s.Requires = append(s.Requires, label)
		}
	}
	if len(s.Inner) == 0 && len(s.Switch) == 0 && s.Parallel == nil && !s.OnDevices {
		f.known = append(f.known, flowKnown{s.Label, f.branch})
	}
}

func (o *FlowInput) yaml() string {
	switch o.Form {
	case "key", "path":
		return fmt.Sprintf("input: {%s: %s}", o.Form, o.Paths[0])
	case "keys":
		return fmt.Sprintf("input: {keys: [%s]}", strings.Join(o.Paths, ", "))
	case "template":
		if len(o.Paths) > 0 {
			return fmt.Sprintf("input: {template: '${context.%s}'}", o.Paths[0])
		}
		return fmt.Sprintf("input: {template: {v: '${%s}'}}", o.Value.expr())
	case "full":
		return "input: {full: true}"
	}
	return "input: {static: {v: '${vars.a}', n: 7}}"
}

// Whens returns the devices that steps wait for until they are ready.
func (f *Flow) Whens() (devices []string) {
	f.each(func(s *FlowStep) {
		if s.When != nil && s.When.Ready != "" {
			devices = append(devices, s.When.Ready)
		}
	})
	return devices
}
