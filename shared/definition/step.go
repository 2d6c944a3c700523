package definition

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// MaxJobTimeout is the longest timeout of one attempt. A Lambda function that works on jobs
// ends after 15 minutes.
const MaxJobTimeout = 14 * time.Minute

const maxAsserts = 20

var errNoSteps = fmt.Sprintf("a definition has 1 to %d steps", maxSteps)

var labelRE = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

// steps reads a list of steps that is nested depth levels deep.
func (r *reader) steps(into *[]spec.Step, depth int) yamldoc.Field {
	return yamldoc.List(r.Reader, into, maxSteps, func(s *spec.Step) yamldoc.Field {
		return yamldoc.Named("step", r.step(s, depth))
	}).WithSchema(yamldoc.Schema{"minItems": 1}).Then(r.Reader, func(n ast.Node, path string) {
		if len(*into) == 0 {
			r.Report(n, path, "required", "%s", errNoSteps)
		}
	})
}

func (r *reader) step(s *spec.Step, depth int) yamldoc.Field {
	return r.stepOn(s, depth, "").WithSchema(stepKinds())
}

// branchStep reads the only step of a branch in its short form. A block that it calls runs once, unless it
// says otherwise.
func (r *reader) branchStep(s *spec.Step, depth int) yamldoc.Field {
	return r.stepOn(s, depth, workflow.RunOnGlobal).WithSchema(globalKinds())
}

// stepOn reads a step whose block runs on runOn if the step does not say what on; empty if it must.
func (r *reader) stepOn(s *spec.Step, depth int, runOn string) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"label":             r.label(&s.Label).Required("a step needs label"),
		"metadata":          r.metadata(&s.Metadata),
		"functionBlock":     r.block(&s.FunctionBlock),
		"workflow":          r.nested(&s.Workflow, depth+1),
		"workflowReference": yamldoc.Optional(&s.Reference, r.workflowReference),
		"runOn":             r.id(&s.RunOn),
		"acquire":           r.acquires(&s.Acquire),
		"assertNotEmpty":    r.Bool(&s.AssertNotEmpty),
		"condition":         r.expr(&s.Condition),
		"assert":            r.asserts(&s.Assert),
		"parameters":        r.Raw(&s.Parameters, true),
		"rawParameters":     r.Raw(&s.RawParameters, true),
		"delay":             r.duration(&s.Delay, 0, maxWait),
		"failureTolerance":  yamldoc.Optional(&s.FailureTolerance, r.tolerance),
		"retry":             yamldoc.Optional(&s.Retry, r.retry),
		"pace":              r.rate(&s.Pace),
		"repeat":            yamldoc.Optional(&s.Repeat, r.repeat),
		"continueOnError":   r.Bool(&s.ContinueOnError),
		"timeout":           r.duration(&s.Timeout, time.Millisecond, MaxJobTimeout),
		"stepTimeout":       r.duration(&s.StepTimeout, time.Millisecond, maxWait),

		"insert":    r.insert(s),
		"schedule":  r.scheduleStep(s),
		"set":       r.set(&s.Set),
		"switch":    r.switchCases(&s.Switch, depth),
		"onFailure": r.onFailure(&s.OnFailure, depth),
		"next":      r.target(&s.Next),
		"onResume":  r.target(&s.OnResume),
		"outputKey": r.variablePath(&s.OutputKey),
		"input":     r.input(s),
		"requires":  r.requires(&s.Assert),

		"http":       r.httpStep(s),
		"idempotent": r.Bool(&s.Idempotent),

		"wait":     yamldoc.Optional(&s.Wait, r.wait),
		"callback": yamldoc.Optional(&s.Callback, r.waitInput),
		"parallel": yamldoc.Optional(&s.Parallel, func(p *spec.Parallel) yamldoc.Field { return r.parallel(p, depth) }),
		"loop":     yamldoc.Optional(&s.Loop, r.loop),
		"foreach":  yamldoc.Optional(&s.Foreach, r.foreach),
		"rollout":  r.rollout(s),

		"compensate": yamldoc.Optional(&s.Compensate, r.compensation),
	}).Finally(func(n ast.Node, path string) {
		if runOn != "" && !r.Has(path+".runOn") && (r.Has(path+".functionBlock") || r.Has(path+".http")) {
			s.RunOn = runOn
			r.AddPath(path+".runOn", n)
		}
		r.checkKind(n, path)
		r.finishHTTP(s, path)
		r.setBetween(s, n, path)
		if s.Foreach != nil && (s.FunctionBlock != "" || s.Reference != nil) {
			r.checkForeach(s, path)
		}
		if s.Callback != nil && s.FunctionBlock != "" {
			r.checkCallback(s, path)
		}
		if s.OnResume != "" && s.FunctionBlock != "" {
			r.checkOnResume(s, path)
		}
	})
}

// kinds are the fields of which a step has exactly one, each with the fields that it needs and
// those that it must not have.
var kinds = []struct {
	name  string
	needs []string
	never []string
}{
	{name: "functionBlock", needs: []string{"runOn"}, never: []string{"loop", "rollout"}},
	{name: "http", needs: []string{"runOn"}, never: slices.Concat(parameterFields, []string{"loop", "rollout", "onResume"})},
	{name: "workflow", never: slices.Concat(blockFields, parameterFields, []string{"outputKey", "foreach", "compensate"})},
	{name: "workflowReference", never: slices.Concat(blockFields, []string{"loop", "rollout"})},
	{name: "set", never: slices.Concat(blockFields, parameterFields, []string{"compensate", "acquire", "onFailure", "continueOnError", "stepTimeout", "outputKey", "repeat"}, manyFields)},
	{name: "insert", never: slices.Concat(blockFields, parameterFields, []string{"compensate", "acquire", "outputKey", "repeat"}, manyFields)},
	{name: "schedule", never: slices.Concat(blockFields, parameterFields, []string{"compensate", "acquire", "outputKey", "repeat"}, manyFields)},
	{name: "switch", never: slices.Concat(blockFields, parameterFields, []string{"compensate", "acquire", "stepTimeout", "outputKey", "repeat"}, manyFields)},
	{name: "wait", never: slices.Concat(blockFields, parameterFields, []string{"compensate", "acquire", "stepTimeout", "repeat"}, manyFields)},
	{name: "parallel", never: slices.Concat(blockFields, parameterFields, []string{"compensate", "acquire"}, manyFields)},
}

var (
	blockFields     = []string{"runOn", "retry", "pace", "timeout", "failureTolerance", "callback", "onResume"} // of a step that calls a block
	parameterFields = []string{"parameters", "rawParameters", "input"}
	manyFields      = []string{"loop", "foreach", "rollout"} // of a step of which something is executed several times
)

// Steps are read far more often than the schema is written.
var (
	stepKinds   = sync.OnceValue(func() yamldoc.Schema { return kindSchema(true) })
	globalKinds = sync.OnceValue(func() yamldoc.Schema { return kindSchema(false) })
)

// kindSchema is the JSON Schema of kinds, with or without what they need.
func kindSchema(needs bool) yamldoc.Schema {
	var forms []yamldoc.Schema
	for _, k := range kinds {
		var never []yamldoc.Schema
		for _, other := range kinds {
			if other.name != k.name {
				never = append(never, yamldoc.Schema{"required": []string{other.name}})
			}
		}
		for _, name := range k.never {
			never = append(never, yamldoc.Schema{"required": []string{name}})
		}
		required := []string{k.name}
		if needs {
			required = append(required, k.needs...)
		}
		forms = append(forms, yamldoc.Schema{
			"required": required,
			"not":      yamldoc.Schema{"anyOf": never},
		})
	}
	return yamldoc.Schema{
		"oneOf": forms,
		"allOf": []yamldoc.Schema{{
			"if": yamldoc.Schema{"required": []string{"foreach"}},
			"then": yamldoc.Schema{"properties": yamldoc.Schema{
				"runOn": yamldoc.Schema{"const": workflow.RunOnItem},
				"workflowReference": yamldoc.Schema{
					"required": []string{"mode"}, "properties": yamldoc.Schema{"mode": yamldoc.Schema{"enum": []workflow.ReferenceMode{workflow.ModeDispatch, workflow.ModeFireAndForget}}},
				},
			}},
		}, {
			"if": yamldoc.Schema{"required": []string{"callback"}},
			"then": yamldoc.Schema{
				"properties": yamldoc.Schema{"runOn": yamldoc.Schema{"const": workflow.RunOnGlobal}},
				"not":        yamldoc.Schema{"anyOf": requires(withoutCallback...)},
			},
		}, {
			"if": yamldoc.Schema{"required": []string{"onResume"}},
			"then": yamldoc.Schema{
				"properties": yamldoc.Schema{"runOn": yamldoc.Schema{"const": workflow.RunOnGlobal}},
				"not":        yamldoc.Schema{"anyOf": requires(withoutOnResume...)},
			},
		}, {
			"if": yamldoc.Schema{"required": []string{"compensate", "workflowReference"}},
			"then": yamldoc.Schema{
				"properties": yamldoc.Schema{
					"compensate":        yamldoc.Schema{"required": []string{"workflow"}},
					"workflowReference": yamldoc.Schema{"required": []string{"mode"}, "properties": yamldoc.Schema{"mode": yamldoc.Schema{"const": workflow.ModeDispatch}}},
				},
				"not": yamldoc.Schema{"required": []string{"foreach"}},
			},
			"else": yamldoc.Schema{"properties": yamldoc.Schema{"compensate": yamldoc.Schema{"required": []string{"functionBlock"}}}},
		}},
	}
}

// checkKind checks that a step has exactly one kind, and only the fields of that kind.
func (r *reader) checkKind(n ast.Node, path string) {
	kind := ""
	for _, k := range kinds {
		if !r.Has(path + "." + k.name) {
			continue
		}
		if kind != "" {
			r.ReportAt(path+"."+k.name, "conflict", "a step has one kind only: it already has %s", kind)
			continue
		}
		kind = k.name
		for _, name := range k.needs {
			if !r.Has(path + "." + name) {
				r.Report(n, path+"."+name, "required", "a step with %s needs %s", kind, name)
			}
		}
		for _, name := range k.never {
			if name == "foreach" && r.Has(path+".foreach") && kind == "workflow" {
				r.ReportAt(path+".foreach", "conflict", "foreach calls a block or starts an execution for each item: use loop for steps one time after the other, or workflowReference with mode dispatch")
				continue
			}
			if r.Has(path + "." + name) {
				r.ReportAt(path+"."+name, "conflict", "a step with %s has no %s", kind, name)
			}
		}
	}
	if kind == "" {
		r.Report(n, path+".functionBlock", "required", "a step needs functionBlock, http, workflow, workflowReference, set, insert, schedule, switch, parallel or wait")
	}
	if r.Has(path + ".input") {
		for _, name := range []string{"parameters", "rawParameters"} {
			if r.Has(path + "." + name) {
				r.ReportAt(path+"."+name, "conflict", "a step has parameters or input, not both")
			}
		}
	}
	if r.Has(path+".loop") && r.Has(path+".repeat") {
		r.ReportAt(path+".repeat", "conflict", "a step has loop or repeat, not both")
	}
	if r.Has(path + ".rollout") {
		for _, name := range []string{"loop", "repeat", "onFailure", "continueOnError"} {
			if r.Has(path + "." + name) {
				r.ReportAt(path+"."+name, "conflict", "a step with rollout has no %s", name)
			}
		}
	}
	if r.Has(path+".onFailure") && r.Has(path+".continueOnError") {
		r.ReportAt(path+".continueOnError", "conflict", "a step has onFailure or continueOnError, not both")
	}
	if r.Has(path+".assertNotEmpty") && !r.Has(path+".acquire") {
		r.ReportAt(path+".assertNotEmpty", "conflict", "assertNotEmpty needs acquire, and the step has none")
	}
}

func (r *reader) nested(into **spec.EmbeddedWorkflow, depth int) yamldoc.Field {
	return yamldoc.Optional(into, func(w *spec.EmbeddedWorkflow) yamldoc.Field {
		return yamldoc.Named("workflow", r.Object(yamldoc.Fields{
			"steps": r.steps(&w.Steps, depth).Required("an embedded workflow needs steps"),
		}))
	}).Before(func(n ast.Node, path string) bool {
		if depth > maxNesting {
			r.Report(n, path, "depth", "workflows are embedded at most %d deep", maxNesting)
		}
		return depth <= maxNesting
	})
}

func (r *reader) workflowReference(f *spec.Reference) yamldoc.Field {
	f.Mode = workflow.ModeEmbed
	return r.Object(yamldoc.Fields{
		"workflow":            r.referenceOrToken(&f.Workflow).Required("name the workflow"),
		"among":               yamldoc.List(r.Reader, &f.Among, maxAmong, r.reference),
		"mode":                yamldoc.Enum(r.Reader, &f.Mode, workflow.ModeEmbed, workflow.ModeDispatch, workflow.ModeFireAndForget),
		"executeOnParameters": r.Raw(&f.ExecuteOnParameters, true).Then(r.Reader, r.checkSelectorFields).WithSchema(selectorSchema),
		"onParentClose":       yamldoc.Enum(r.Reader, &f.OnParentClose, workflow.OnParentCloseCancel, workflow.OnParentCloseAbandon),
		"region":              r.region(&f.Region),
	}).Finally(func(_ ast.Node, path string) {
		if at := path + ".executeOnParameters"; f.Mode == workflow.ModeEmbed && r.Has(at) {
			r.ReportAt(at, "conflict", "an embedded workflow uses the entities of its execution")
		}
		if at := path + ".region"; f.Mode == workflow.ModeEmbed && r.Has(at) {
			r.ReportAt(at, "conflict", "an embedded workflow is executed in the region of its execution")
		}
		if at := path + ".onParentClose"; f.Mode != workflow.ModeDispatch && r.Has(at) {
			r.ReportAt(at, "conflict", "only the step of a workflow in mode dispatch waits for the execution that it starts")
		}
		r.checkAmong(f, path)
	})
}

// maxAmong is how many workflows a step may name of which it starts one.
const maxAmong = 20

// checkAmong checks that a step that evaluates which workflow it starts lists those that it may start.
func (r *reader) checkAmong(f *spec.Reference, path string) {
	_, evaluated := expr.UnwrapToken(f.Workflow)
	switch at := path + ".among"; {
	case evaluated && len(f.Among) == 0:
		r.ReportAt(path+".workflow", "required", "say with among which workflows it may be")
	case !evaluated && r.Has(at):
		r.ReportAt(at, "conflict", "the step starts the one workflow that it names")
	case evaluated && f.Mode == workflow.ModeEmbed:
		r.ReportAt(path+".workflow", "conflict", "which steps an execution has is known when it starts: want mode dispatch or fireAndForget")
	}
}

func (r *reader) label(into *string) yamldoc.Field {
	const message = "want a lower-case letter, then letters, digits and _, at most 64"
	return r.checkedText(into, yamldoc.Schema{"pattern": labelRE.String()}, "format", message, labelRE.MatchString).Then(r.Reader, func(n ast.Node, path string) {
		if expr.IsReserved(*into) {
			r.Report(n, path, "reserved", "%q means something else in expressions", *into)
		}
	})
}

// asserts reads one expression or a list of them.
func (r *reader) asserts(into *[]string) yamldoc.Field {
	var one string
	single := r.expr(&one).Then(r.Reader, func(n ast.Node, path string) {
		*into = append(*into, one)
		r.AddPath(path+"[0]", n) // where the compiler reports errors
	})
	return yamldoc.ScalarOr(single, yamldoc.List(r.Reader, into, maxAsserts, r.expr))
}

func (r *reader) retry(t *workflow.Retry) yamldoc.Field {
	t.Backoff = 1
	return r.Object(yamldoc.Fields{
		"maxRetries": r.Integer(&t.MaxRetries, 0, workflow.MaxRetries).Required("say how often to retry"),
		"delay":      r.duration(&t.Delay, 0, 24*time.Hour),
		"backoff":    r.Number(&t.Backoff, 1, 100),
		"maxDelay":   r.duration(&t.MaxDelay, 0, 24*time.Hour),
		"jitter":     r.Number(&t.Jitter, 0, 1),
		"on":         yamldoc.List(r.Reader, &t.On, maxRetryCodes, r.failureCode),
		"when":       r.expr(&t.When),
		"fresh":      r.Bool(&t.Fresh),
	}).Finally(func(_ ast.Node, path string) {
		if r.Has(path+".on") && r.Has(path+".when") {
			r.ReportAt(path+".when", "conflict", "a retry has on or when, not both")
		}
	}).WithSchema(yamldoc.Schema{"not": yamldoc.Schema{"required": []string{"on", "when"}}})
}

// maxRetryCodes bounds the codes that retry.on lists.
const maxRetryCodes = 20

// failureCode reads the code of a failure, as blocks return it.
func (r *reader) failureCode(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"minLength": 1, "maxLength": workflow.MaxFailureCode}, "limit",
		fmt.Sprintf("want the code of a failure, 1 to %d characters", workflow.MaxFailureCode), func(s string) bool { return s != "" && len(s) <= workflow.MaxFailureCode })
}

// maxRepeats is the largest repeat.count.
const maxRepeats = 1000

func (r *reader) repeat(p *spec.Repeat) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"count": r.Integer(&p.Count, 1, maxRepeats),
		"while": r.expr(&p.While),
		"delay": r.duration(&p.Delay, 0, maxWait),
	}).Finally(func(n ast.Node, path string) {
		if !r.Has(path+".count") && !r.Has(path+".while") {
			r.Report(n, path, "required", "say how often or how long to repeat: count, while, or both")
		}
	}).WithSchema(yamldoc.Schema{"anyOf": []yamldoc.Schema{{"required": []string{"count"}}, {"required": []string{"while"}}}})
}
