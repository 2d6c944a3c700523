package program

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// trigger is what a trigger makes of a call, or of an event.
type trigger struct {
	schema                                    json.RawMessage
	takesEvents                               bool
	parameters, selector, idempotencyKey, key *expr.Template
}

// eachTriggerExpression calls visit with the expressions of a trigger and their paths in it.
func eachTriggerExpression(t *spec.Trigger, visit func(path, source string)) {
	expr.EachToken(t.Parameters, func(source string) { visit(".parameters", source) })
	expr.EachToken(t.ExecuteOnParameters, func(source string) { visit(".executeOnParameters", source) })
	for _, text := range []struct{ path, value string }{{".idempotencyKey", t.IdempotencyKey}, {".key", t.Key}} {
		parts, _ := expr.Split(text.value)
		for _, p := range parts {
			if p.Token {
				visit(text.path, p.Text)
			}
		}
	}
}

// compileTriggers compiles what triggers make of a call.
func (c *compiler) compileTriggers() {
	c.triggers = map[string]*trigger{}
	for i, t := range c.definition.Triggers.All() {
		path, language := c.definition.Triggers.Path(i), expr.CallLanguage
		if t.TakesEvents() {
			language = expr.EventLanguage
		}
		l, err := language()
		if err != nil {
			c.reportError(path, err)
			continue
		}
		c.triggers[t.Name] = &trigger{
			schema: t.Schema, takesEvents: t.TakesEvents(),
			parameters: c.compileCallTemplate(l, t.Parameters, path+".parameters"), selector: c.compileCallTemplate(l, t.ExecuteOnParameters, path+".executeOnParameters"),
			idempotencyKey: c.compileCallText(l, t.IdempotencyKey, path+".idempotencyKey"), key: c.compileCallText(l, t.Key, path+".key"),
		}
	}
}

// compileCallText compiles a text with tokens over a call; nil if there is none.
func (c *compiler) compileCallText(l *expr.Language, text, path string) *expr.Template {
	if blank(text) {
		return nil
	}
	raw, err := workflow.EncodeJSON(text)
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	return c.compileCallTemplate(l, raw, path)
}

// compileCallTemplate compiles the tokens of a value over a call; nil if there is none.
func (c *compiler) compileCallTemplate(l *expr.Language, raw json.RawMessage, path string) *expr.Template {
	if len(raw) == 0 {
		return nil
	}
	t, problems := l.CompileTemplate(path, raw)
	for _, p := range problems {
		c.reportError(p.Path, p.Err)
	}
	return t
}

// Call is a call of a trigger, or an event that it accepts. Header names are in lower case.
type Call struct {
	Body           json.RawMessage // or the event
	Headers, Query map[string]string
}

// Triggered is what a trigger makes of a call.
type Triggered struct {
	Parameters     json.RawMessage
	Selector       *workflow.Selector
	IdempotencyKey string // "" if the trigger defines none
	Key            string
}

// maxCallKey bounds the text from which an idempotency key is made.
const maxCallKey = 1024

// Triggered evaluates what a trigger makes of a call. A call that does not fit is CodeInvalid.
func (c *Compiled) Triggered(name string, call Call) (made Triggered, err error) {
	t := c.triggers[name]
	if t == nil {
		return made, workflow.Errorf(workflow.CodeInternal, "the definition has no trigger %q", name)
	}
	if len(t.schema) > 0 {
		if issues := schema.Validate(t.schema, call.Body, "body"); len(issues) > 0 {
			return made, workflow.Invalid("the body does not fit the schema of the trigger", issues)
		}
	}
	variables, absent := map[string]any{"body": expr.ValueOf(call.Body), "headers": textMap(call.Headers), "query": textMap(call.Query)}, "body"
	if t.takesEvents {
		variables = map[string]any{"event": expr.ValueOf(call.Body)}
		if call.Body, err = eventDetail(call.Body); err != nil {
			return made, err
		}
		absent = "event.detail"
	}
	s := expr.Scope{Variables: variables}
	fail := func(path string, err error) error {
		return workflow.Invalid("the trigger cannot make an execution of this call", []workflow.Issue{{Path: path, Code: "expression", Message: err.Error()}})
	}
	if made.Parameters = json.RawMessage("{}"); t.parameters != nil {
		if made.Parameters, err = t.parameters.Eval(s); err != nil {
			return made, fail("parameters", err)
		}
	} else if body := bytes.TrimSpace(call.Body); len(body) > 0 && body[0] == '{' {
		made.Parameters = body
	} else if len(body) > 0 && string(body) != "null" {
		return made, workflow.Invalid(absent+" is the parameters of the execution", []workflow.Issue{{Path: absent, Code: "type", Message: "want an object, or nothing"}})
	}
	if t.selector != nil {
		raw, err := t.selector.Eval(s)
		if err != nil {
			return made, fail("executeOnParameters", err)
		}
		if made.Selector, err = decodeSelector(raw); err != nil {
			return made, fail("executeOnParameters", err)
		}
	}
	if made.IdempotencyKey, err = evalCallText(t.idempotencyKey, s); err != nil {
		return made, fail("idempotencyKey", err)
	}
	if made.Key, err = evalCallText(t.key, s); err != nil {
		return made, fail("key", err)
	}
	return made, nil
}

// eventDetail returns the detail of an event; null if it has none.
func eventDetail(event json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(event, &fields); err != nil || fields == nil {
		return nil, workflow.Invalid("this is no event", []workflow.Issue{{Path: "event", Code: "type", Message: "want an object"}})
	}
	if detail := fields["detail"]; len(detail) > 0 {
		return detail, nil
	}
	return json.RawMessage("null"), nil
}

// evalCallText evaluates a text. A number keeps its notation.
func evalCallText(t *expr.Template, s expr.Scope) (string, error) {
	if t == nil {
		return "", nil
	}
	raw, err := t.Eval(s)
	if err != nil {
		return "", err
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	if text == "" || len(text) > maxCallKey {
		return "", fmt.Errorf("want a text of 1 to %d bytes, or a number", maxCallKey)
	}
	return text, nil
}

func textMap(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}
