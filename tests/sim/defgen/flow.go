package defgen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Flow is a definition that sets variables, chooses cases, handles failures, jumps, loops and
// waits. It is a tree that can be followed without compiling anything.
type Flow struct {
	Steps     []FlowStep
	Tolerated int // how many entities may fail

	config  string // further fields of config, each followed by ", "
	rolls   bool   // some steps are rollouts or have foreach
	further bool   // some steps are of the kinds of DrawFurther
	indexed bool   // the innermost loop around the steps being drawn has a condition, and so no item
	changes bool   // the steps being drawn are in no branch, or in one that may change entities
	open    []string
	known   []flowKnown
	inWave  bool // the steps being drawn are in a rollout
	pure    bool // all blocks are pure
	waits   bool // some steps wait for people and signals
	splits  bool // some steps have branches
	fails   bool // few steps handle their failures
	extra   bool // drawn by DrawExtra
	added   int  // how many steps it has added
	draw    func(below int) int
	labels  int
	loops   int    // around the steps being drawn
	branch  string // that contains the steps being drawn, "" for none
}

// FlowStep is one step: it calls a Block, sets variables, is a switch, waits, asks, or contains
// steps.
type FlowStep struct {
	Label     string
	Block     string // name in package p
	OnDevices bool
	Value     FlowValue  // the parameter v of the block
	OutputKey string     // of a global block: its result is {n: ...}
	Set       []FlowSet  // unordered: all values are evaluated first
	Switch    []FlowCase // the last one may lack a condition
	Inner     []FlowStep
	Loops     bool       // over Items: Inner is executed for each
	Items     []int      // numbers
	While     *FlowWhile // of a loop without Items
	Wait      time.Duration
	Until     time.Time // the moment that it waits for
	When      *FlowWhen
	Ask       *FlowAsk      // what it waits for, other than a time
	Callback  bool          // Ask is about what its block has sent
	Asks      time.Duration // how long its block asks to wait before it is called again; 0 if it does not ask
	Parallel  *FlowParallel
	Rollout   *FlowRollout // Inner is executed for each wave
	Each      *FlowEach    // the block is called for each item
	OnResume  string       // with Asks, the step that follows the wait; "" for the same one again
	Requires  []string     // the steps that must have completed
	Answers   []string     // what the block may return as the next step
	Starts    bool         // it starts an execution of Started
	Forget    bool         // with Starts: it does not wait for it
	Row       FlowRow      // that it inserts
	Schedule  *FlowSchedule
	Delay     time.Duration
	Input     *FlowInput // the form of the parameters, other than Value

	OnFailure       []FlowCase
	ContinueOnError bool
	Next            string // "" for none
}

// FlowCase is one case of a switch or of onFailure.
type FlowCase struct {
	When  *FlowCondition // nil: always
	Steps []FlowStep
	Next  string
}

// FlowSet is one variable that a step sets.
type FlowSet struct {
	Path  string
	Value FlowValue
	Data  *FlowData // instead of Value
}

// FlowValue is a number: the variable at a path plus Add if the variable is set, and Else if it is
// not. Without a path it is Add.
type FlowValue struct {
	Path      string // "" for none
	OfResult  bool   // the variable is a result; its n is meant
	Add, Else int
	ErrorCode bool // instead of a number, the code of the last failure that was handled
	OfItem    bool // the item of the loop around the step, plus Add
	OfIndex   bool // with OfItem, if the loop has a condition: the index
}

// FlowCondition compares the variable at a path with a number, or it compares the code or the step
// of the failure. If the variable is not set, the condition cannot be evaluated. With Written it
// has the form with an operator, which is false then.
type FlowCondition struct {
	Path    string
	Op      string // gt, lt or eq
	Than    int
	Written bool
	Code    string // of the failure
	Step    string // that has failed
}

var flowPaths = []string{"a", "b", "m.x", "m.y"}

// FlowCodes are the codes with which blocks fail.
var FlowCodes = []string{"E1", "E2", "E3"}

// DrawFlow draws a definition. With waits, steps may wait for people and signals; with splits, they
// may have branches.
func DrawFlow(draw func(below int) int, waits, splits bool) *Flow {
	f := &Flow{draw: draw, pure: draw(2) == 0, waits: waits, splits: splits}
	f.Steps = f.list(0, 3+draw(3), nil, false)
	return f
}

func (f *Flow) label() string {
	f.labels++
	return fmt.Sprintf("s%d", f.labels)
}

// list draws a list of steps. around are the labels in surrounding lists to which a step may jump;
// handles means that the steps handle a failure.
func (f *Flow) list(depth, n int, around []string, handles bool) []FlowStep {
	steps := make([]FlowStep, n)
	for i := range steps {
		steps[i].Label = f.label()
	}
	for i := range steps {
		targets := slices.Clone(around)
		if f.branch == "" && !f.inWave {
			targets = append(targets, "end") // a branch, or a wave, ends behind its last step
		}
		for _, later := range steps[i+1:] {
			targets = append(targets, later.Label, later.Label)
		}
		f.step(&steps[i], depth, targets, handles)
	}
	if depth < 2 && f.draw(4) == 0 {
		return f.goBack(steps)
	}
	return steps
}

// goBack turns steps into a loop: a variable counts, and a switch jumps back to the first step.
func (f *Flow) goBack(steps []FlowStep) []FlowStep {
	counter := "k" + f.label()
	count := FlowStep{Label: f.label(), Set: []FlowSet{{Path: counter, Value: FlowValue{Path: counter, Add: 1, Else: 0}}}}
	again := FlowStep{Label: f.label(), Switch: []FlowCase{
		{When: &FlowCondition{Path: counter, Op: "lt", Than: 1 + f.draw(2)}, Next: count.Label}, {},
	}}
	if f.branch != "" || f.inWave || f.draw(2) == 0 {
		again.Switch[1].Steps = []FlowStep{{Label: f.label(), Set: []FlowSet{{Path: f.own("b"), Value: FlowValue{Path: counter, Add: 10}}}}}
	} else {
		again.Switch[1].Next = "end"
	}
	return append(append([]FlowStep{count}, steps...), again)
}

func (f *Flow) step(s *FlowStep, depth int, targets []string, handles bool) {
	kinds := 14
	if f.waits {
		kinds += 5
	}
	if f.splits {
		kinds += 4
	}
	kind, known := f.draw(kinds), len(f.known)
	rolled := f.rolls && f.rollOut(s, depth, targets) || f.further && f.drawFurther(s, depth, targets, handles)
	inner := func() []FlowStep { return f.list(depth+1, 1+f.draw(2), targets, handles) }
	switch {
	case rolled:
	case kind < 2:
		for _, path := range f.some(flowPaths, 1+f.draw(2)) {
			s.Set = append(s.Set, FlowSet{Path: f.own(path), Value: f.value(false)})
		}
		if handles && f.draw(2) == 0 {
			s.Set = append(s.Set, FlowSet{Path: f.own("why"), Value: f.value(true)})
		}
	case kind < 4 && depth < 2:
		for range 1 + f.draw(2) {
			s.Switch = append(s.Switch, f.flowCase(f.condition(false), inner, targets))
		}
		if f.draw(4) > 0 {
			s.Switch = append(s.Switch, f.flowCase(nil, inner, targets))
		}
	case kind < 5 && depth < 2:
		s.Inner = inner()
	case kind < 7 && depth < 2:
		s.Loops = true
		for range f.draw(4) {
			s.Items = append(s.Items, f.draw(5))
		}
		loops, indexed := f.loops, f.indexed
		f.loops, f.indexed = loops+1, false
		s.Inner = inner()
		f.loops, f.indexed = loops, indexed
	case kind == 7:
		s.Wait = []time.Duration{3 * time.Second, 20 * time.Second, 70 * time.Second}[f.draw(3)]
	case kind >= 19 && depth < 2 && !f.inWave:
		f.parallel(s, depth, handles)
	case kind >= 14:
		f.ask(s, targets)
	default:
		s.Block, s.OnDevices, s.Value = "pure", f.draw(3) == 0 && (f.branch == "" || f.further), f.value(handles && f.draw(2) == 0)
		if !f.pure && f.draw(2) == 0 && (f.branch == "" || !s.OnDevices || f.changes) {
			s.Block = "again"
		}
		if s.OnDevices && f.rolls {
			s.Block = f.deviceBlock()
		}
		if !s.OnDevices && f.draw(3) == 0 {
			s.OutputKey = f.own([]string{"r", "m.r"}[f.draw(2)])
		}
		if f.branch != "" && !f.inWave {
			f.inBranch(s)
		}
	}
	if f.draw(5) == 0 {
		s.Next = f.target(targets)
	}
	if f.further {
		f.require(s, f.known[:known])
	}
	if len(s.Set) > 0 || s.Wait > 0 || !s.Until.IsZero() || depth > 2 || s.Rollout != nil {
		return
	}
	if f.fails && f.draw(4) > 0 {
		return
	}
	switch kind := f.draw(8); {
	case kind == 0:
		s.ContinueOnError = true
	case kind < 4:
		handling := func() []FlowStep { return f.list(depth+1, 1+f.draw(2), targets, true) }
		for range f.draw(2) {
			s.OnFailure = append(s.OnFailure, f.flowCase(f.condition(true), handling, targets))
		}
		s.OnFailure = append(s.OnFailure, f.flowCase(nil, handling, targets))
		if f.draw(3) == 0 {
			s.OnFailure[len(s.OnFailure)-1].When = f.condition(true)
		}
		if f.draw(4) == 0 { // try the step again, with a counter
			counter := "k" + f.label()
			again := FlowCase{When: &FlowCondition{Path: counter, Op: "lt", Than: 1 + f.draw(2), Written: true}, Next: s.Label}
			again.Steps = []FlowStep{{Label: f.label(), Set: []FlowSet{{Path: counter, Value: FlowValue{Path: counter, Add: 1}}}}}
			first := FlowCase{When: &FlowCondition{Path: counter, Op: "none"}, Next: s.Label}
			first.Steps = []FlowStep{{Label: f.label(), Set: []FlowSet{{Path: counter, Value: FlowValue{Add: 1}}}}}
			s.OnFailure = append([]FlowCase{first, again}, s.OnFailure...)
		}
	}
}

func (f *Flow) flowCase(when *FlowCondition, inner func() []FlowStep, targets []string) FlowCase {
	c := FlowCase{When: when}
	if f.draw(2) == 0 {
		c.Next = f.target(targets)
	}
	if c.Next == "" || f.draw(2) == 0 {
		c.Steps = inner()
	}
	return c
}

// target returns one of the steps to which a step may jump, "" if there is none.
func (f *Flow) target(targets []string) string {
	if len(targets) == 0 {
		return ""
	}
	return targets[f.draw(len(targets))]
}

func (f *Flow) value(ofError bool) FlowValue {
	v := FlowValue{Add: f.draw(4), Else: f.draw(3)}
	switch {
	case ofError:
		return FlowValue{ErrorCode: true}
	case f.loops > 0 && f.draw(2) == 0:
		return FlowValue{OfItem: true, OfIndex: f.indexed, Add: v.Add}
	case f.draw(3) == 0:
		v.Path, v.OfResult = []string{"r", "m.r"}[f.draw(2)], true
	case f.draw(4) > 0:
		v.Path = flowPaths[f.draw(len(flowPaths))]
	}
	if f.branch != "" && v.Path != "" && f.draw(2) == 0 {
		v.Path = f.own(v.Path)
	}
	return v
}

func (f *Flow) condition(ofFailure bool) *FlowCondition {
	if ofFailure && f.draw(3) > 0 {
		if f.draw(3) == 0 {
			return &FlowCondition{Step: fmt.Sprintf("s%d", 1+f.draw(f.labels))}
		}
		if f.waits && f.draw(3) == 0 {
			return &FlowCondition{Code: []string{"TIMEOUT", "REJECTED"}[f.draw(2)]}
		}
		return &FlowCondition{Code: FlowCodes[f.draw(len(FlowCodes))]}
	}
	return &FlowCondition{ // also in a branch, about a variable set before it
		Path: flowPaths[f.draw(len(flowPaths))], Op: []string{"gt", "lt", "eq"}[f.draw(3)], Than: f.draw(5), Written: f.draw(2) == 0,
	}
}

func (f *Flow) some(all []string, n int) []string {
	from := f.draw(len(all))
	var some []string
	for i := range n {
		some = append(some, all[(from+i)%len(all)])
	}
	return some
}

// WaitOf returns how long the step with a label waits.
func (f *Flow) WaitOf(label string) time.Duration {
	if s := f.Find(label); s != nil {
		return s.Wait
	}
	return 0
}

// YAML returns the definition without its name. Its output is all variables.
func (f *Flow) YAML() string {
	text := "steps: " + flowList(f.Steps) + "\noutput: {vars: \"${vars}\"}\n"
	if f.rolls {
		text = fmt.Sprintf("config: {%sfailureTolerance: %d}\n", f.config, f.Tolerated) + text
	}
	return text
}

func flowList(steps []FlowStep) string {
	var all []string
	for i := range steps {
		all = append(all, steps[i].yaml())
	}
	return "[" + strings.Join(all, ",\n  ") + "]"
}

func (s *FlowStep) yaml() string {
	fields := []string{"label: " + s.Label}
	add := func(format string, args ...any) { fields = append(fields, fmt.Sprintf(format, args...)) }
	switch {
	case len(s.Set) > 0:
		var values []string
		for _, set := range s.Set {
			if set.Data != nil {
				values = append(values, set.Path+": "+set.Data.yaml())
				continue
			}
			values = append(values, fmt.Sprintf("%s: '${%s}'", set.Path, set.Value.expr()))
		}
		add("set: {%s}", strings.Join(values, ", "))
	case len(s.Switch) > 0:
		add("switch: %s", flowCases(s.Switch, true))
	case s.While != nil:
		add("%s, workflow: {steps: %s}", s.While.yaml(), flowList(s.Inner))
	case s.Loops:
		add("loop: {over: '${%s}'}, workflow: {steps: %s}", strings.ReplaceAll(fmt.Sprint(s.Items), " ", ", "), flowList(s.Inner))
	case s.Rollout != nil:
		add("%s, workflow: {steps: %s}", s.Rollout.yaml(), flowList(s.Inner))
	case len(s.Inner) > 0:
		add("workflow: {steps: %s}", flowList(s.Inner))
	case s.Parallel != nil:
		add("%s", s.Parallel.yaml())
	case s.Wait > 0:
		add("wait: {for: %s}", s.Wait)
	case !s.Until.IsZero():
		add("wait: {until: %q}", s.Until.Format(time.RFC3339))
	case s.When != nil:
		add("%s", s.When.yaml())
	case s.Callback:
		add("functionBlock: p/%s:1, runOn: global, parameters: {v: '${%s}', token: '${callback.token}'}, callback: {%s", s.Block, s.Value.expr(), strings.TrimPrefix(s.Ask.yaml(), "input: {"))
	case s.Ask != nil:
		add("wait: {%s}", s.Ask.yaml())
	case s.Starts:
		mode := "dispatch"
		if s.Forget {
			mode = "fireAndForget"
		}
		add("workflowReference: {workflow: p/%s:1, mode: %s}", Started, mode)
	case s.Row != nil:
		add("%s", s.Row.yaml())
	case s.Schedule != nil:
		add("%s", s.Schedule.yaml())
	case s.Each != nil:
		add("functionBlock: p/%s:1, %s", s.Block, s.Each.yaml(s.Value))
	default:
		on := "global"
		if s.OnDevices {
			on = "device"
		}
		given := fmt.Sprintf("parameters: {v: '${%s}'}", s.Value.expr())
		if s.Input != nil {
			given = s.Input.yaml()
		}
		add("functionBlock: p/%s:1, runOn: %s, %s", s.Block, on, given)
	}
	if len(s.Requires) > 0 {
		add("requires: [%s]", strings.Join(s.Requires, ", "))
	}
	if s.OutputKey != "" {
		add("outputKey: %s", s.OutputKey)
	}
	if len(s.OnFailure) > 0 {
		add("onFailure: %s", flowCases(s.OnFailure, false))
	}
	if s.ContinueOnError {
		add("continueOnError: true")
	}
	if s.Delay > 0 {
		add("delay: %s", s.Delay)
	}
	if s.OnResume != "" {
		add("onResume: %s", s.OnResume)
	}
	if s.Next != "" {
		add("next: %s", s.Next)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func flowCases(cases []FlowCase, ofSwitch bool) string {
	var all []string
	for _, c := range cases {
		var fields []string
		switch {
		case c.When != nil:
			fields = append(fields, "when: "+c.When.yaml())
		case ofSwitch && c.Next != "" && len(c.Steps) == 0:
			all = append(all, "{default: "+c.Next+"}")
			continue
		case ofSwitch:
			fields = append(fields, "default: true")
		}
		if len(c.Steps) > 0 {
			fields = append(fields, "steps: "+flowList(c.Steps))
		}
		if c.Next != "" {
			fields = append(fields, "next: "+c.Next)
		}
		all = append(all, "{"+strings.Join(fields, ", ")+"}")
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// hasPath returns an expression that is true if the variable at a path is set.
func hasPath(path string) string {
	var tests []string
	at := "vars"
	for _, name := range strings.Split(path, ".") {
		at += "." + name
		tests = append(tests, "has("+at+")")
	}
	return strings.Join(tests, " && ")
}

func (v FlowValue) expr() string {
	switch {
	case v.ErrorCode:
		return "error.code"
	case v.OfIndex:
		return fmt.Sprintf("index + %d", v.Add)
	case v.OfItem:
		return fmt.Sprintf("item + %d", v.Add)
	case v.Path == "":
		return fmt.Sprint(v.Add)
	}
	read := "vars." + v.Path
	if v.OfResult {
		read += ".n"
	}
	return fmt.Sprintf("(%s) ? %s + %d : %d", hasPath(v.Path), read, v.Add, v.Else)
}

// text returns a condition on a variable as an expression.
func (c *FlowCondition) text() string {
	return fmt.Sprintf("vars.%s %s %d", c.Path, map[string]string{"gt": ">", "lt": "<", "eq": "=="}[c.Op], c.Than)
}

func (c *FlowCondition) yaml() string {
	switch {
	case c.Code != "":
		return fmt.Sprintf("'error.code == %q'", c.Code)
	case c.Step != "":
		return fmt.Sprintf("'error.step == %q'", c.Step)
	case c.Op == "none":
		return fmt.Sprintf("{path: %s, op: notExists}", c.Path)
	case c.Written:
		return fmt.Sprintf("{path: %s, op: %s, value: %d}", c.Path, c.Op, c.Than)
	}
	return "'" + c.text() + "'"
}

// Around returns the labels of the steps that are open while a step is executed, outermost first.
func Around(steps []FlowStep, label string) []string {
	around, _ := aroundIn(steps, label)
	return around
}

func aroundIn(steps []FlowStep, label string) (around []string, found bool) {
	for i := range steps {
		s := &steps[i]
		if s.Label == label {
			return nil, true
		}
		within := [][]FlowStep{s.Inner}
		for _, c := range s.Switch {
			within = append(within, c.Steps)
		}
		if s.Rollout != nil && s.Rollout.Between != nil {
			within = append(within, []FlowStep{*s.Rollout.Between})
		}
		if s.Parallel != nil {
			for _, b := range s.Parallel.Branches {
				within = append(within, b.Steps)
			}
		}
		for _, list := range within {
			if inner, found := aroundIn(list, label); found {
				return append([]string{s.Label}, inner...), true
			}
		}
		for _, c := range s.OnFailure { // the steps of these cases belong to no failed step
			if inner, found := aroundIn(c.Steps, label); found {
				return inner, true
			}
		}
	}
	return nil, false
}

// OutermostParallel returns the label of the outermost step with branches that contains a step, ""
// for none.
func OutermostParallel(steps []FlowStep, label string) (outermost string) {
	eachStep(steps, func(s *FlowStep) {
		if s.Parallel == nil || outermost != "" {
			return
		}
		for _, b := range s.Parallel.Branches {
			eachStep(b.Steps, func(inner *FlowStep) {
				if inner.Label == label {
					outermost = s.Label
				}
			})
		}
	})
	return outermost
}
