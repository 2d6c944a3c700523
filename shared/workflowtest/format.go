package workflowtest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// file is the content of a test file.
type file struct {
	definition  string   // path of the definition under test, relative to the file's directory
	definitions []string // paths of the definitions that it refers to
	blockFiles  []string // paths of lists of blocks, as `lockstep blocks register` takes them
	blocks      []block
	entities    []entity
	endpoints   map[string]string
	secrets     map[string]string
	tests       []test
}

// block is a function block, and what its jobs return unless an answer says otherwise.
type block struct {
	workflow.Block
	name   string
	result json.RawMessage
}

type entity struct {
	workflow.Entity
	key string // type/id
}

// test is one execution, and what is expected of it.
type test struct {
	name       string
	parameters json.RawMessage
	entities   workflow.Selector
	actor      string
	roles      []string
	key        string
	rollback   string
	at         string
	stopAfter  workflow.Duration
	answers    []answer
	events     []event
	expect     expect
}

// answer is what a call of a block does.
type answer struct {
	step, block, entity, operation string
	attempt, call                  int
	parameters                     json.RawMessage // that the call must have, among others

	result    json.RawMessage
	set       json.RawMessage // attributes of the entity
	updates   json.RawMessage // of other entities
	next      string
	breaks    bool
	wait      json.RawMessage
	acquired  []string // type/id
	fail      string
	message   string
	details   json.RawMessage
	retryable bool
	panics    string
	crash     bool
	timeout   bool
}

// event is something that somebody does.
type event struct {
	after    workflow.Duration
	by       string
	roles    []string
	answer   json.RawMessage
	step     string
	callback json.RawMessage
	signal   string
	data     json.RawMessage
	cancel   bool
	resume   bool
	entity   string
	set      json.RawMessage
	refused  string
}

// expect is what is expected of an execution; what it leaves out is not checked.
type expect struct {
	status, state, outcome, cause, failure, refused, waiting string

	within     workflow.Duration
	output     json.RawMessage
	results    json.RawMessage
	entities   json.RawMessage
	attributes json.RawMessage
	steps      []string
	jobs       []string
	rollbacks  []string
	locked     []string
	followUps  []followUp

	given map[string]bool // the given fields: an empty list expects nothing
}

const maxItems = 10_000

// reader reads test files.
type reader struct{ *yamldoc.Reader }

func (r reader) texts(into *[]string) yamldoc.Field {
	return yamldoc.List(r.Reader, into, maxItems, r.Text)
}

func (r reader) integer(into *int) yamldoc.Field { return r.Integer(into, 1, 1_000_000) }

// duration reads a duration such as 90s, or a number of seconds.
func (r reader) duration(into *workflow.Duration) yamldoc.Field {
	schema := yamldoc.Schema{"type": []string{"string", "number"}}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		if v, ok := yamldoc.NumberOf(n); ok && v >= 0 {
			*into = workflow.Duration(v * float64(time.Second))
			return
		}
		var s string
		before := r.IssueCount()
		if r.Text(&s).Read(n, path); r.IssueCount() > before {
			return
		}
		d, err := time.ParseDuration(strings.TrimSpace(s))
		if err != nil || d < 0 {
			r.Report(n, path, "duration", "want a duration such as 90s or 12h")
		}
		*into = workflow.Duration(d)
	})
}

// textMap reads an object of texts.
func (r reader) textMap(into *map[string]string) yamldoc.Field {
	schema := yamldoc.Schema{"type": "object", "additionalProperties": yamldoc.Schema{"type": "string"}}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		values, _ := r.Mapping(n, path)
		*into = map[string]string{}
		for _, v := range values {
			var s string
			r.Text(&s).Read(v.Value, yamldoc.JoinPath(path, yamldoc.KeyOf(v)))
			(*into)[yamldoc.KeyOf(v)] = s
		}
	})
}

// key reads the name of an entity, type/id.
func (r reader) key(into *string) yamldoc.Field {
	return r.Text(into).Then(r.Reader, func(n ast.Node, path string) {
		if _, ok := parseKey(*into); !ok {
			r.Report(n, path, "format", "want TYPE/ID, such as device/sw-1")
		}
	})
}

func parseKey(text string) (workflow.EntityKey, bool) {
	kind, id, ok := strings.Cut(text, "/")
	return workflow.EntityKey{Type: kind, ID: id}, ok && workflow.ValidID(kind) && workflow.ValidID(id)
}

func (r reader) raw(into *json.RawMessage) yamldoc.Field { return r.Raw(into, false) }

func (r reader) object(into *json.RawMessage) yamldoc.Field { return r.Raw(into, true) }

func (r reader) file(f *file) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"definition":  r.Text(&f.definition).Required("say which definition is played: its path, from the folder of this file"),
		"definitions": r.texts(&f.definitions),
		"blockFiles":  r.texts(&f.blockFiles),
		"blocks":      yamldoc.List(r.Reader, &f.blocks, maxItems, r.block),
		"entities":    yamldoc.List(r.Reader, &f.entities, maxItems, r.entity),
		"endpoints":   r.textMap(&f.endpoints),
		"secrets":     r.textMap(&f.secrets),
		"tests":       yamldoc.List(r.Reader, &f.tests, maxItems, r.test).Required("say what is played: a list of tests"),
	})
}

func (r reader) block(b *block) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"name":            r.Text(&b.name).Required("say which block it is: PACKAGE/NAME or PACKAGE/NAME:VERSION"),
		"runOn":           r.Text(&b.RunOn),
		"pure":            r.Bool(&b.Pure),
		"idempotent":      r.Bool(&b.Idempotent),
		"reversible":      r.Bool(&b.Reversible),
		"undoHarmless":    r.Bool(&b.UndoHarmless),
		"timeout":         r.duration(&b.Timeout),
		"parameterSchema": r.object(&b.ParameterSchema),
		"resultSchema":    r.object(&b.ResultSchema),
		"result":          r.raw(&b.result),
	})
}

func (r reader) entity(e *entity) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"entity":     r.key(&e.key).Required("say which entity it is: TYPE/ID"),
		"groups":     r.texts(&e.Groups),
		"attributes": r.object(&e.Attributes),
	})
}

func (r reader) test(t *test) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"name":       r.Text(&t.name).Required("give the test a name"),
		"parameters": r.object(&t.parameters),
		"start": r.Object(yamldoc.Fields{
			"type": r.Text(&t.entities.Type), "ids": r.texts(&t.entities.IDs), "groups": r.texts(&t.entities.Groups), "query": r.Text(&t.entities.Query),
		}),
		"actor":     r.Text(&t.actor),
		"roles":     r.texts(&t.roles),
		"key":       r.Text(&t.key),
		"rollback":  yamldoc.Enum(r.Reader, &t.rollback, "auto", "never"),
		"at":        r.time(&t.at),
		"stopAfter": r.duration(&t.stopAfter),
		"answers":   yamldoc.List(r.Reader, &t.answers, maxItems, r.answer),
		"events":    yamldoc.List(r.Reader, &t.events, maxItems, r.event),
		"expect":    r.expect(&t.expect).Required("say what is expected"),
	}).Finally(func(n ast.Node, path string) {
		if t.expect.refused != "" && (len(t.expect.given) > 1 || t.answers != nil || t.events != nil) {
			r.Report(n, yamldoc.JoinPath(path, "expect.refused"), "conflict", "a start that is refused makes no execution: no other expectation, answer or event goes with it")
		}
	})
}

func (r reader) time(into *string) yamldoc.Field {
	return r.Text(into).Then(r.Reader, func(n ast.Node, path string) {
		at, err := time.Parse(time.RFC3339, *into)
		if err != nil {
			r.Report(n, path, "time", "want a time such as 2030-01-31T08:00:00Z")
		} else if at.Year() < 2000 || at.Year() > 2200 {
			r.Report(n, path, "time", "want a time from 2000 to 2200")
		}
	})
}

func (r reader) answer(a *answer) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"step": r.Text(&a.step), "block": r.Text(&a.block), "entity": r.key(&a.entity), "operation": yamldoc.Enum(r.Reader, &a.operation, "execute", "rollback", "acquire"),
		"attempt": r.integer(&a.attempt), "call": r.integer(&a.call), "parameters": r.object(&a.parameters),
		"result": r.raw(&a.result), "set": r.object(&a.set), "updates": r.updates(&a.updates), "next": r.Text(&a.next), "break": r.Bool(&a.breaks), "wait": r.wait(&a.wait),
		"acquired": yamldoc.List(r.Reader, &a.acquired, maxItems, r.key),
		"fail":     r.Text(&a.fail), "message": r.Text(&a.message), "details": r.raw(&a.details), "retryable": r.Bool(&a.retryable),
		"panic": r.Text(&a.panics), "crash": r.Bool(&a.crash), "timeout": r.Bool(&a.timeout),
	}).Finally(func(n ast.Node, path string) {
		ends := 0
		for _, end := range []bool{a.fail != "", a.panics != "", a.crash, a.timeout} {
			if end {
				ends++
			}
		}
		succeeds := a.result != nil || a.set != nil || a.updates != nil || a.next != "" || a.breaks || a.wait != nil || a.acquired != nil
		if ends > 1 || ends == 1 && succeeds {
			r.Report(n, path, "conflict", "a call has one end: it succeeds, or it has one of fail, panic, crash and timeout")
		}
		if a.fail == "" && (a.message != "" || a.details != nil || a.retryable) {
			r.Report(n, path, "conflict", "message, details and retryable belong to fail")
		}
	})
}

// updates reads what a block changes of other entities.
func (r reader) updates(into *json.RawMessage) yamldoc.Field {
	return r.strict(into, yamldoc.Schema{"type": "array"}, func() any { return &[]workflow.Update{} })
}

// wait reads what a block asks to wait for.
func (r reader) wait(into *json.RawMessage) yamldoc.Field {
	return r.strict(into, yamldoc.Schema{"type": "object"}, func() any { return &workflow.AskedWait{} })
}

// strict reads a value into a type of package workflow that must know every field.
func (r reader) strict(into *json.RawMessage, schema yamldoc.Schema, as func() any) yamldoc.Field {
	return r.raw(into).WithSchema(schema).Then(r.Reader, func(n ast.Node, path string) {
		d := json.NewDecoder(bytes.NewReader(*into))
		d.DisallowUnknownFields()
		if err := d.Decode(as()); err != nil {
			r.Report(n, path, "type", "%s", strings.TrimPrefix(err.Error(), "json: "))
		}
	})
}

// kinds returns the kinds of an event, by the field that sets each.
func (e *event) kinds() (all []string) {
	for _, k := range []struct {
		name string
		is   bool
	}{{"answer", e.answer != nil}, {"callback", e.callback != nil}, {"signal", e.signal != ""}, {"cancel", e.cancel}, {"resume", e.resume}, {"entity", e.entity != ""}} {
		if k.is {
			all = append(all, k.name)
		}
	}
	return all
}

func (r reader) event(e *event) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"after": r.duration(&e.after), "by": r.Text(&e.by), "roles": r.texts(&e.roles), "refused": r.Text(&e.refused),
		"step": r.Text(&e.step), "answer": r.raw(&e.answer), "callback": r.raw(&e.callback),
		"signal": r.Text(&e.signal), "data": r.raw(&e.data), "cancel": r.Bool(&e.cancel), "resume": r.Bool(&e.resume),
		"entity": r.key(&e.entity), "set": r.object(&e.set),
	}).Finally(func(n ast.Node, path string) {
		if kinds := e.kinds(); len(kinds) != 1 {
			r.Report(n, path, "conflict", "an event is exactly one of answer, callback, signal, cancel, resume and entity")
		} else if (kinds[0] == "answer" || kinds[0] == "callback") && e.step == "" {
			r.Report(n, yamldoc.JoinPath(path, "step"), "required", "say which step is answered")
		} else if kinds[0] == "entity" && e.set == nil {
			r.Report(n, yamldoc.JoinPath(path, "set"), "required", "say which attributes of the entity are set")
		}
	})
}

func (r reader) expect(e *expect) yamldoc.Field {
	e.given = map[string]bool{}
	fields := yamldoc.Fields{
		"status": r.Text(&e.status), "state": r.Text(&e.state), "outcome": r.Text(&e.outcome), "cause": r.Text(&e.cause), "error": r.Text(&e.failure),
		"refused": r.Text(&e.refused), "waiting": r.Text(&e.waiting), "within": r.duration(&e.within),
		"output": r.raw(&e.output), "results": r.object(&e.results), "entities": r.object(&e.entities), "attributes": r.object(&e.attributes),
		"steps": r.texts(&e.steps), "jobs": r.texts(&e.jobs), "rollbacks": r.texts(&e.rollbacks), "locked": r.texts(&e.locked),
		"followUps": yamldoc.List(r.Reader, &e.followUps, maxItems, r.followUp),
	}
	for name, field := range fields {
		fields[name] = field.Then(r.Reader, func(ast.Node, string) { e.given[name] = true })
	}
	return r.Object(fields)
}

// Schema returns the JSON Schema of test files, for editors.
func Schema() ([]byte, error) {
	r := reader{&yamldoc.Reader{}}
	document := yamldoc.SchemaOf(r.file(&file{}).WithSchema(yamldoc.Schema{"$id": "urn:lockstep:test", "title": "Tests of a Lockstep workflow definition"}))
	raw, err := workflow.EncodeJSON(document)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// parse reads a test file.
func parse(source []byte) (*file, error) {
	doc, root := yamldoc.Parse(source)
	r, f := reader{doc}, &file{}
	if root != nil {
		r.file(f).Read(root, "")
	}
	if err := workflow.Invalid("the test file is not valid", r.Issues()); err != nil {
		return nil, err
	}
	return f, nil
}
