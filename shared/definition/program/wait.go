package program

import (
	"encoding/json"
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
	onTimeout *Target
}

// eachWaitExpression yields the expressions of a wait, each with the path of its value in
// the step. w may be nil.
func eachWaitExpression(w *spec.Wait, yield func(path, source string)) {
	if w == nil {
		return
	}
	tokens := func(path string, raw json.RawMessage) {
		expr.EachToken(raw, func(source string) { yield(path, source) })
	}
	if w.When != "" {
		yield(".wait.when", w.When)
	}
	tokens(".wait.until", textTemplate(w.Until))
}

// textTemplate is a text that may hold tokens, as the JSON of a template; nil for an empty
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
	w, into, path := c.flat[i].Wait, &c.steps[i].wait, c.positions[i].path+".wait"
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
}

// compileInventoryCondition compiles a condition of step i that may also read now and, with
// entity(type, id), the inventory.
func (c *compiler) compileInventoryCondition(i int, source, path string) *expr.Program {
	if blank(source) {
		return nil
	}
	if c.inventory == nil {
		var err error
		if c.inventory, err = c.language.WithInventory(); err != nil {
			c.reportError(path, err)
			return nil
		}
	}
	p, err := c.inventory.CompileCondition(source)
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	c.checkReferences(i, path, p.References(), false)
	c.steps[i].refs.Merge(p.References())
	return p
}

// WaitUntil is the time until which a step waits; zero if it does not wait for a time that it
// names.
func (c *Compiled) WaitUntil(step int, s expr.Scope) (time.Time, error) {
	if c.steps[step].wait.until == nil {
		return time.Time{}, nil
	}
	return evalTime("until", c.steps[step].wait.until, s)
}

// WaitCondition reports whether what a step waits for is so at a time. lookupEntity reads an
// entity's attributes from the inventory.
func (c *Compiled) WaitCondition(step int, s expr.Scope, now time.Time, lookupEntity func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	s.Variables, s.LookupEntity = map[string]any{"now": now.UTC()}, lookupEntity
	return evalCondition(c.steps[step].wait.when, s)
}

// OnTimeout is where an execution goes on when the deadline of a step has passed; nil if the
// definition does not say.
func (c *Compiled) OnTimeout(step int) *Target { return c.steps[step].wait.onTimeout }
