package program

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// wait is what a step waits for.
type wait struct {
	until     *expr.Template
	when      *expr.Program
	answer    *expr.Template // of onTimeout
	onTimeout *Target
	onReject  *Target
	signal    *expr.Program // the condition of a signal

	title, show *expr.Template
	who         []*expr.Template // the actors of who, then those of each escalation
	parameters  []*expr.Template // of the executions that escalations start, nil for none
}

// eachWaitExpression yields the tokens and the conditions of what a step waits for, each with the path of its
// value in the step.
func eachWaitExpression(s *spec.Step, eachToken tokenVisitor, token, condition func(path, source string)) {
	w := s.Waits()
	if w == nil {
		return
	}
	tokens := func(path string, raw json.RawMessage) {
		eachToken(raw, func(source string) { token(path, source) })
	}
	if w.When != "" {
		condition(".wait.when", w.When)
	}
	tokens(".wait.until", textTemplate(w.Until))
	if w.Signal != nil {
		if w.Signal.When != "" {
			condition(".wait.signal.when", w.Signal.When)
		}
		if w.Signal.OnTimeout != nil {
			tokens(".wait.signal.onTimeout.answer", w.Signal.OnTimeout.Answer)
		}
	}
	ask := w.Asks()
	if ask == nil {
		return
	}
	path := askPath(s)
	tokens(path+".title", textTemplate(ask.Title))
	tokens(path+".show", ask.Show)
	if ask.Who != nil {
		tokens(path+".who.actors", actorsTemplate(ask.Who.Actors))
	}
	for i, e := range ask.Escalate {
		at := path + ".escalate[" + strconv.Itoa(i) + "]"
		tokens(at+".actors", actorsTemplate(e.Actors))
		if e.Start != nil {
			tokens(at+".start.parameters", e.Start.Parameters)
		}
	}
	if ask.OnTimeout != nil {
		tokens(path+".onTimeout.answer", ask.OnTimeout.Answer)
	}
}

// askPath returns the path of a step's question to people, within the step.
func askPath(s *spec.Step) string {
	switch {
	case s.Callback != nil:
		return ".callback"
	case s.Wait.Approval != nil:
		return ".wait.approval"
	}
	return ".wait.input"
}

// actorsTemplate returns a list of names as the JSON of a template.
func actorsTemplate(actors []string) json.RawMessage {
	raw, _ := workflow.EncodeJSON(append([]string{}, actors...)) //nolint:errchkjson // strings
	return raw
}

// textTemplate returns a text that may contain tokens, as the JSON of a template; nil for an empty
// one.
func textTemplate(text string) json.RawMessage {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	raw, _ := workflow.EncodeJSON(text) //nolint:errchkjson // a string
	return raw
}

// compileWait compiles what step i waits for.
func (c *compiler) compileWait(i int) {
	w, into, path := c.flat[i].Waits(), &c.steps[i].wait, c.positions[i].path+".wait"
	if w == nil {
		return
	}
	if w.Until != "" {
		into.until = c.compileTemplate(i, textTemplate(w.Until), path+".until")
	}
	into.when = c.compileInventoryCondition(i, w.When, path+".when")
	if o := w.OnTimeout; o != nil {
		into.onTimeout = c.compileTarget(i, o.Next, path+".onTimeout.next")
	}
	if w.Signal != nil {
		into.signal = c.compileSignalCondition(i, w.Signal.When, path+".signal.when")
		c.compileOnTimeout(i, w.Signal.OnTimeout, path+".signal.onTimeout")
	}
	if ask := w.Asks(); ask != nil {
		c.compileAsk(i, ask, c.positions[i].path+askPath(c.flat[i]))
	}
	if w.Approval != nil && w.Approval.OnReject != nil {
		into.onReject = c.compileTarget(i, w.Approval.OnReject.Next, path+".approval.onReject.next")
	}
}

// compileAsk compiles the question of step i to people.
func (c *compiler) compileAsk(i int, ask *spec.Ask, path string) {
	into := &c.steps[i].wait
	if ask.Title != "" {
		into.title = c.compileTemplate(i, textTemplate(ask.Title), path+".title")
	}
	if len(ask.Show) > 0 {
		into.show = c.compileTemplate(i, ask.Show, path+".show")
	}
	var actors []string
	if ask.Who != nil {
		actors = ask.Who.Actors
	}
	into.who = append(into.who, c.compileTemplate(i, actorsTemplate(actors), path+".who.actors"))
	for n, e := range ask.Escalate {
		at := path + ".escalate[" + strconv.Itoa(n) + "]"
		into.who = append(into.who, c.compileTemplate(i, actorsTemplate(e.Actors), at+".actors"))
		var parameters *expr.Template
		if e.Start != nil {
			parameters = c.compileTemplate(i, e.Start.Parameters, at+".start.parameters")
		}
		into.parameters = append(into.parameters, parameters)
	}
	c.compileOnTimeout(i, ask.OnTimeout, path+".onTimeout")
}

// compileOnTimeout compiles how step i continues at its deadline. o may be nil.
func (c *compiler) compileOnTimeout(i int, o *spec.OnTimeout, path string) {
	if o == nil {
		return
	}
	c.steps[i].wait.onTimeout = c.compileTarget(i, o.Next, path+".next")
	if len(o.Answer) > 0 {
		c.steps[i].wait.answer = c.compileTemplate(i, o.Answer, path+".answer")
	}
}

// compileInventoryCondition compiles a condition of step i that may also read now and, with
// entity(type, id), the inventory.
func (c *compiler) compileInventoryCondition(i int, source, path string) *expr.Program {
	return c.compileConditionIn(c.language.WithInventory, i, source, path)
}

// compileSignalCondition compiles a condition of step i that may also read data.
func (c *compiler) compileSignalCondition(i int, source, path string) *expr.Program {
	return c.compileConditionIn(c.language.WithData, i, source, path)
}

func (c *compiler) compileConditionIn(language func() (*expr.Language, error), i int, source, path string) *expr.Program {
	if blank(source) {
		return nil
	}
	l, err := language()
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	return c.compileExpr(i, source, path, l.CompileCondition, false)
}

// WaitUntil returns the time until which a step waits; zero if it does not wait for a given time.
func (c *Compiled) WaitUntil(step int, s expr.Scope) (time.Time, error) {
	if c.steps[step].wait.until == nil {
		return time.Time{}, nil
	}
	return evalTime("until", c.steps[step].wait.until, s)
}

// WaitCondition reports whether the condition that a step waits for holds at a time. lookupEntity
// reads an entity's attributes from the inventory.
func (c *Compiled) WaitCondition(step int, s expr.Scope, now time.Time, lookupEntity func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	s.Variables, s.LookupEntity = map[string]any{"now": now.UTC()}, lookupEntity
	return evalCondition(c.steps[step].wait.when, s)
}

// SignalFits reports whether the data of a signal fit what a step waits for.
func (c *Compiled) SignalFits(step int, s expr.Scope, data json.RawMessage) (bool, error) {
	s.Variables = map[string]any{"data": expr.ValueOf(data)}
	return evalCondition(c.steps[step].wait.signal, s)
}

// Question evaluates the question of a step to people; nil if it has none.
func (c *Compiled) Question(step int, w *spec.Wait, s expr.Scope) (*workflow.Question, error) {
	ask, compiled := w.Asks(), &c.steps[step].wait
	if ask == nil {
		return nil, nil
	}
	q := &workflow.Question{Schema: w.Schema(), Who: w.Who()}
	if compiled.title != nil {
		title, err := evalText(compiled.title, s)
		if err != nil {
			return nil, fmt.Errorf("title: %w", err)
		}
		q.Title = title
	}
	var err error
	if compiled.show != nil {
		if q.Show, err = compiled.show.Eval(s); err != nil {
			return nil, fmt.Errorf("show: %w", err)
		}
	}
	if q.Who.Actors, err = evalActors(compiled.who[0], s); err != nil {
		return nil, fmt.Errorf("who.actors: %w", err)
	}
	for i, e := range ask.Escalate {
		level := workflow.Escalation{Roles: e.Roles}
		if level.Actors, err = evalActors(compiled.who[i+1], s); err != nil {
			return nil, fmt.Errorf("escalate[%d].actors: %w", i, err)
		}
		if e.Start != nil {
			level.Workflow = e.Start.Workflow
			if level.Parameters, err = compiled.parameters[i].Eval(s); err != nil {
				return nil, fmt.Errorf("escalate[%d].start.parameters: %w", i, err)
			}
		}
		q.Escalate = append(q.Escalate, level)
	}
	return q, nil
}

// evalText evaluates a template that results in a text. Any other value is shown as its JSON.
func evalText(t *expr.Template, s expr.Scope) (string, error) {
	raw, err := t.Eval(s)
	if err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return text, nil
}

func evalActors(t *expr.Template, s expr.Scope) ([]string, error) {
	raw, err := t.Eval(s)
	if err != nil {
		return nil, err
	}
	var actors []string
	if err := json.Unmarshal(raw, &actors); err != nil {
		return nil, fmt.Errorf("want names, not %s", workflow.Truncate(string(raw), 64))
	}
	return actors, nil
}

// TimeoutAnswer returns the answer to assume when the deadline of a step has passed; nil if the
// definition has none.
func (c *Compiled) TimeoutAnswer(step int, s expr.Scope) (json.RawMessage, error) {
	if c.steps[step].wait.answer == nil {
		return nil, nil
	}
	return c.steps[step].wait.answer.Eval(s)
}

// OnTimeout returns where an execution continues when the deadline of a step has passed; nil if the
// definition does not say.
func (c *Compiled) OnTimeout(step int) *Target { return c.steps[step].wait.onTimeout }

// OnReject returns where an execution continues when somebody has rejected what a step asks for;
// nil if the definition does not say.
func (c *Compiled) OnReject(step int) *Target { return c.steps[step].wait.onReject }
