package definition

import (
	"fmt"
	"regexp"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// MaxJobTimeout is the longest time-out of one attempt: a worker function lives
// at most 15 minutes.
const MaxJobTimeout = 14 * time.Minute

const maxAsserts = 20

var errNoSteps = fmt.Sprintf("a definition has 1 to %d steps", maxSteps)

var labelRE = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

// steps is a list of steps at a depth of nesting.
func (r *reader) steps(into *[]spec.Step, depth int) document.Field {
	return document.List(r.Reader, into, maxSteps, func(s *spec.Step) document.Field {
		return document.Named("step", r.step(s, depth))
	}).With(document.Shape{"minItems": 1}).Then(r.Reader, func(n ast.Node, path string) {
		if len(*into) == 0 {
			r.Issue(n, path, "required", "%s", errNoSteps)
		}
	})
}

func (r *reader) step(s *spec.Step, depth int) document.Field {
	return r.Object(document.Fields{
		"label":             r.label(&s.Label).Required("a step needs label"),
		"functionBlock":     r.reference(&s.FunctionBlock),
		"workflow":          r.nested(&s.Workflow, depth+1),
		"workflowReference": document.Pointer(&s.Reference, r.workflowReference),
		"runOn":             r.id(&s.RunOn),
		"acquire":           r.acquires(&s.Acquire),
		"assertNotEmpty":    r.Flag(&s.AssertNotEmpty),
		"condition":         r.expr(&s.Condition),
		"assert":            r.asserts(&s.Assert),
		"parameters":        r.Raw(&s.Parameters, true),
		"rawParameters":     r.Raw(&s.RawParameters, true),
		"delay":             r.duration(&s.Delay, 0, maxWait),
		"retry":             document.Pointer(&s.Retry, r.retry),
		"repeat":            document.Pointer(&s.Repeat, r.repeat),
		"continueOnError":   r.Flag(&s.ContinueOnError),
		"timeout":           r.duration(&s.Timeout, time.Millisecond, MaxJobTimeout),
		"stepTimeout":       r.duration(&s.StepTimeout, time.Millisecond, maxWait),

		"wait": document.Planned, "switch": document.Planned, "loop": document.Planned, "set": document.Planned,
		"onFailure": document.Planned, "next": document.Planned, "outputKey": document.Planned,
	}).Also(r.kind).With(kindShape)
}

// kinds are the fields of which a step has exactly one, with the fields that go
// with it alone. The kinds of which a step cannot be yet have been reported.
var kinds = []struct {
	name  string
	needs []string
	never []string
}{
	{"functionBlock", []string{"runOn"}, nil},
	{"workflow", nil, []string{"runOn", "parameters", "rawParameters", "retry", "timeout"}},
	{"workflowReference", nil, []string{"runOn", "retry", "timeout"}},
	{"wait", nil, nil}, {"switch", nil, nil}, {"loop", nil, nil}, {"set", nil, nil},
}

// kindShape is the same for the JSON Schema.
var kindShape = func() document.Shape {
	var forms []document.Shape
	for _, k := range kinds[:3] {
		var never []document.Shape
		for _, other := range kinds[:3] {
			if other.name != k.name {
				never = append(never, document.Shape{"required": []string{other.name}})
			}
		}
		for _, name := range k.never {
			never = append(never, document.Shape{"required": []string{name}})
		}
		forms = append(forms, document.Shape{
			"required": append([]string{k.name}, k.needs...),
			"not":      document.Shape{"anyOf": never},
		})
	}
	return document.Shape{"oneOf": forms}
}()

// kind checks that a step is one thing, and has only what goes with it.
func (r *reader) kind(n ast.Node, path string) {
	kind := ""
	for _, k := range kinds {
		if !r.Given(path + "." + k.name) {
			continue
		}
		if kind != "" {
			r.At(path+"."+k.name, "conflict", "a step is one thing: it has %s already", kind)
			continue
		}
		kind = k.name
		for _, name := range k.needs {
			if !r.Given(path + "." + name) {
				r.Issue(n, path+"."+name, "required", "a step with %s needs %s", kind, name)
			}
		}
		for _, name := range k.never {
			if r.Given(path + "." + name) {
				r.At(path+"."+name, "conflict", "a step with %s has no %s", kind, name)
			}
		}
	}
	if kind == "" {
		r.Issue(n, path+".functionBlock", "required", "a step needs functionBlock, workflow or workflowReference")
	}
	if r.Given(path+".assertNotEmpty") && !r.Given(path+".acquire") {
		r.At(path+".assertNotEmpty", "conflict", "this is about what the step acquires, and it acquires nothing")
	}
}

func (r *reader) nested(into **spec.Nested, depth int) document.Field {
	return document.Pointer(into, func(w *spec.Nested) document.Field {
		return document.Named("workflow", r.Object(document.Fields{
			"steps": r.steps(&w.Steps, depth).Required("an embedded workflow needs steps"),
		}))
	}).Before(func(n ast.Node, path string) bool {
		if depth > maxNesting {
			r.Issue(n, path, "depth", "workflows are embedded at most %d deep", maxNesting)
		}
		return depth <= maxNesting
	})
}

func (r *reader) workflowReference(f *spec.Reference) document.Field {
	f.Mode = workflow.ModeEmbed
	return r.Object(document.Fields{
		"workflow":            r.reference(&f.Workflow).Required("name the workflow"),
		"mode":                document.Choice(r.Reader, &f.Mode, workflow.ModeEmbed, workflow.ModeDispatch, workflow.ModeFireAndForget),
		"executeOnParameters": r.Raw(&f.On, true).Then(r.Reader, r.selectorNames).With(selectorShape),
	}).Also(func(_ ast.Node, path string) {
		if at := path + ".executeOnParameters"; f.Mode == workflow.ModeEmbed && r.Given(at) {
			r.At(at, "conflict", "an embedded workflow runs on the entities of the run it is in")
		}
	})
}

func (r *reader) label(into *string) document.Field {
	const message = "want a lower-case letter, then letters, digits and _, at most 64"
	return r.checked(into, document.Shape{"pattern": labelRE.String()}, "format", message, labelRE.MatchString).Then(r.Reader, func(n ast.Node, path string) {
		if expr.Reserved(*into) {
			r.Issue(n, path, "reserved", "%q means something else in expressions", *into)
		}
	})
}

// asserts reads one expression or a list of them.
func (r *reader) asserts(into *[]string) document.Field {
	var one string
	single := r.expr(&one).Then(r.Reader, func(n ast.Node, path string) {
		*into = append(*into, one)
		r.Place(path+"[0]", n) // where compiling finds it
	})
	return document.Either(single, document.List(r.Reader, into, maxAsserts, r.expr))
}

func (r *reader) retry(t *workflow.Retry) document.Field {
	t.Backoff = 1
	return r.Object(document.Fields{
		"maxRetries": r.Integer(&t.MaxRetries, 0, workflow.MaxRetries).Required("say how often to retry"),
		"delay":      r.duration(&t.Delay, 0, 24*time.Hour),
		"backoff":    r.Number(&t.Backoff, 1, 100),
		"maxDelay":   r.duration(&t.MaxDelay, 0, 24*time.Hour),
		"jitter":     r.Number(&t.Jitter, 0, 1),
		"when":       r.expr(&t.When),
	})
}

// maxVisits is the largest repeat.count: step runs have four digits in a fence.
const maxVisits = 1000

func (r *reader) repeat(p *spec.Repeat) document.Field {
	return r.Object(document.Fields{
		"count": r.Integer(&p.Count, 1, maxVisits),
		"while": r.expr(&p.While),
		"delay": r.duration(&p.Delay, 0, maxWait),
	}).Also(func(n ast.Node, path string) {
		if !r.Given(path+".count") && !r.Given(path+".while") {
			r.Issue(n, path, "required", "say how often or how long to repeat: count, while, or both")
		}
	}).With(document.Shape{"anyOf": []document.Shape{{"required": []string{"count"}}, {"required": []string{"while"}}}})
}
