package defgen

import (
	"fmt"
	"strings"
	"time"
)

// FlowAsk is what a step waits for: people, or a signal.
type FlowAsk struct {
	Signal     string // its name; "" if people are asked
	ByWhen     bool   // a condition, not a schema, decides which signals fit
	Need       int    // how many people have to approve; 0 if the question is for a number
	Role       string // who may answer; "" for everybody
	NotStarter bool   // but not the person who started the execution
	Least      int    // the smallest number that fits
	Deadline   time.Duration
	Default    *int   // the number that counts at the deadline
	OnTimeout  string // step; "" if the step fails then
	OnReject   string // step; "" if the step fails then
	Remind     []time.Duration
	Escalate   []FlowEscalation
}

// FlowEscalation is who may answer, too, after a while, and whether an execution is started then.
type FlowEscalation struct {
	After  time.Duration
	Actor  string // "" for none
	Role   string // "" for none
	Starts bool   // one of Escalated
}

// Escalated is the name of the definition that an escalation starts, with its level as parameter n.
const Escalated = "e0"

// Fits reports whether a number fits what the step waits for.
func (a *FlowAsk) Fits(n int) bool { return a.Need > 0 || n >= a.Least }

// FlowSignals are the names of signals.
var FlowSignals = []string{"ping", "pong"}

// Role is the role of the people who may answer.
const Role = "cab"

// ask draws a step that waits for people or for a signal.
func (f *Flow) ask(s *FlowStep, targets []string) {
	a := &FlowAsk{Least: f.draw(4), Deadline: []time.Duration{8 * time.Second, 40 * time.Second, 150 * time.Second}[f.draw(3)]}
	switch f.draw(3) {
	case 0:
		a.Signal, a.ByWhen = FlowSignals[f.draw(len(FlowSignals))], f.draw(2) == 0
	case 1:
		a.Need = 1 + f.draw(3)
	}
	if a.Signal == "" {
		if f.draw(2) == 0 {
			a.Role = Role
		}
		a.NotStarter = f.draw(4) == 0
	}
	switch f.draw(4) {
	case 0:
		a.OnTimeout = f.target(targets)
	case 1:
		if n := a.Least + f.draw(3); a.Need == 0 {
			a.Default = &n
		}
	}
	if a.Need > 0 && f.draw(2) == 0 {
		a.OnReject = f.target(targets)
	}
	if a.Need == 0 && f.draw(2) == 0 {
		s.OutputKey = f.own([]string{"r", "m.r"}[f.draw(2)])
	}
	if s.Ask = a; f.further && a.Signal == "" {
		f.escalate(a)
	}
}

// escalate lets a question be asked again, and others answer it, after a while.
func (f *Flow) escalate(a *FlowAsk) {
	for _, after := range []time.Duration{3 * time.Second, 20 * time.Second, 100 * time.Second} {
		if after < a.Deadline && f.draw(3) == 0 {
			a.Remind = append(a.Remind, after)
		}
	}
	for _, after := range []time.Duration{5 * time.Second, 25 * time.Second, 70 * time.Second} {
		if after >= a.Deadline || f.draw(2) == 0 {
			continue
		}
		e := FlowEscalation{After: after, Starts: f.draw(2) == 0}
		switch f.draw(3) {
		case 0:
			e.Actor = "eve"
		case 1:
			e.Role = "staff"
		}
		a.Escalate = append(a.Escalate, e)
	}
}

func (e *FlowEscalation) yaml(level int) string {
	fields := []string{"after: " + e.After.String()}
	if e.Actor != "" {
		fields = append(fields, "actors: ["+e.Actor+"]")
	}
	if e.Role != "" {
		fields = append(fields, "roles: ["+e.Role+"]")
	}
	if e.Starts {
		fields = append(fields, fmt.Sprintf(`start: {workflow: "p/%s:1", parameters: {n: %d}}`, Escalated, level))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (a *FlowAsk) yaml() string {
	var fields []string
	add := func(format string, args ...any) { fields = append(fields, fmt.Sprintf(format, args...)) }
	schema := fmt.Sprintf("schema: {type: object, required: [n], properties: {n: {type: integer, minimum: %d}}}", a.Least)
	kind := "input"
	switch {
	case a.Signal != "" && a.ByWhen:
		kind = "signal"
		add("name: %s, when: data.n >= %d", a.Signal, a.Least)
	case a.Signal != "":
		kind = "signal"
		add("name: %s, %s", a.Signal, schema)
	case a.Need > 0:
		kind = "approval"
		add("title: Go on?, need: %d", a.Need)
	default:
		add("title: How many?, %s", schema)
	}
	var who []string
	if a.Role != "" {
		who = append(who, "roles: ["+a.Role+"]")
	}
	if a.NotStarter {
		who = append(who, "notStarter: true")
	}
	if len(who) > 0 {
		add("who: {%s}", strings.Join(who, ", "))
	}
	add("deadline: %s", a.Deadline)
	if len(a.Remind) > 0 {
		add("remind: %s", strings.ReplaceAll(fmt.Sprint(a.Remind), " ", ", "))
	}
	var levels []string
	for i := range a.Escalate {
		levels = append(levels, a.Escalate[i].yaml(i+1))
	}
	if len(levels) > 0 {
		add("escalate: [%s]", strings.Join(levels, ", "))
	}
	switch {
	case a.OnTimeout != "":
		add("onTimeout: {next: %s}", a.OnTimeout)
	case a.Default != nil:
		add("onTimeout: {answer: {n: %d}}", *a.Default)
	}
	if a.OnReject != "" {
		add("onReject: {next: %s}", a.OnReject)
	}
	return kind + ": {" + strings.Join(fields, ", ") + "}"
}

// Find returns the step with a label, nil if there is none.
func (f *Flow) Find(label string) (found *FlowStep) {
	f.each(func(s *FlowStep) {
		if s.Label == label {
			found = s
		}
	})
	return found
}

// GoesOn reports whether a failure of the step with the label is passed over: by the step itself, or by one around it.
func (f *Flow) GoesOn(label string) (on bool) {
	f.each(func(s *FlowStep) { on = on || s.ContinueOnError && s.Contains(label) })
	return on
}

// OnDevices reports whether a step is executed on devices, other than a step that handles a failure.
func (f *Flow) OnDevices() (on bool) {
	handles := map[*FlowStep]bool{}
	f.each(func(s *FlowStep) {
		for _, c := range s.OnFailure {
			eachStep(c.Steps, func(h *FlowStep) { handles[h] = true })
		}
	})
	f.each(func(s *FlowStep) { on = on || s.OnDevices && !handles[s] })
	return on
}

// IsContainer reports whether the step does nothing itself but to execute steps in it, one after the other.
func (s *FlowStep) IsContainer() bool { return len(s.Switch)+len(s.Inner) > 0 }

// Surrounds reports whether the step ends only after the steps with the label, which are among its cases, its
// branches or the steps that it repeats. What handles its failure is not: that begins when it has ended.
func (s *FlowStep) Surrounds(label string) (found bool) {
	inside := *s
	inside.Label, inside.OnFailure = "", nil
	eachStep([]FlowStep{inside}, func(o *FlowStep) { found = found || o.Label == label })
	return found
}

// Asks lists the steps that wait for people or signals.
func (f *Flow) Asks() (all []*FlowStep) {
	f.each(func(s *FlowStep) {
		if s.Ask != nil {
			all = append(all, s)
		}
	})
	return all
}

// each calls do for each step, including nested ones.
func (f *Flow) each(do func(*FlowStep)) { eachStep(f.Steps, do) }

func eachStep(steps []FlowStep, do func(*FlowStep)) {
	for i := range steps {
		s := &steps[i]
		do(s)
		eachStep(s.Inner, do)
		if s.Rollout != nil && s.Rollout.Between != nil {
			do(s.Rollout.Between)
		}
		if s.Parallel != nil {
			for k := range s.Parallel.Branches {
				eachStep(s.Parallel.Branches[k].Steps, do)
			}
		}
		for _, c := range s.Switch {
			eachStep(c.Steps, do)
		}
		for _, c := range s.OnFailure {
			eachStep(c.Steps, do)
		}
	}
}
