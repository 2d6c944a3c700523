package definition

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Limits of the fields that decide where an execution continues.
const (
	maxCases    = 50
	maxRequires = 20
	maxBranches = 20
)

const variablePathPattern = `^[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,14}$`

// set reads an object whose keys are paths of variables.
func (r *reader) set(into *json.RawMessage) yamldoc.Field {
	return r.Raw(into, true).WithSchema(yamldoc.Schema{"minProperties": 1, "propertyNames": yamldoc.Schema{"pattern": variablePathPattern}}).
		Then(r.Reader, func(n ast.Node, path string) {
			var values map[string]json.RawMessage
			_ = json.Unmarshal(*into, &values) // it was read as an object
			if len(values) == 0 {
				r.Report(n, path, "required", "name what to set")
			}
			for name := range values {
				if !spec.ValidVariablePath(name) {
					r.ReportAt(yamldoc.JoinPath(path, name), "format", "%q is not the path of a variable: want names with dots between them, such as order.total, at most %d", name, spec.MaxPathDepth)
				}
			}
		})
}

func (r *reader) variablePath(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": variablePathPattern}, "format",
		"want the path of a variable, such as order.total", spec.ValidVariablePath)
}

// target reads the label of a step, or end. Whether there is such a step is checked once all labels
// are known.
func (r *reader) target(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": labelRE.String()}, "format", "want the label of a step, or end", labelRE.MatchString)
}

// caseFields returns the fields that all cases have.
func (r *reader) caseFields(c *spec.Case, depth int) yamldoc.Fields {
	return yamldoc.Fields{
		"when":  r.when(&c.When),
		"next":  r.target(&c.Next),
		"steps": r.caseSteps(&c.Steps, depth),
	}
}

func (r *reader) caseSteps(into *[]spec.Step, depth int) yamldoc.Field {
	return r.steps(into, depth+1).Before(func(n ast.Node, path string) bool {
		if depth+1 > maxNesting {
			r.Report(n, path, "depth", "steps are nested at most %d deep", maxNesting)
		}
		return depth+1 <= maxNesting
	})
}

// switchCases reads the cases of a switch. The default is written {default: LABEL}, {default: end},
// or {default: true, steps: [...]}.
func (r *reader) switchCases(into *[]spec.Case, depth int) yamldoc.Field {
	return yamldoc.List(r.Reader, into, maxCases, func(c *spec.Case) yamldoc.Field {
		fields := r.caseFields(c, depth)
		fields["default"] = r.defaultCase(c)
		return r.Object(fields).Finally(func(n ast.Node, path string) {
			hasWhen, hasDefault := r.Has(path+".when"), r.Has(path+".default")
			switch {
			case !hasWhen && !hasDefault:
				r.Report(n, path+".when", "required", "a case needs when or default")
			case hasWhen && hasDefault:
				r.ReportAt(path+".default", "conflict", "a case has when or default, not both")
			}
			r.requireWay(n, path, c)
		})
	}).WithSchema(yamldoc.Schema{"minItems": 1}).Then(r.Reader, func(n ast.Node, path string) {
		if len(*into) == 0 {
			r.Report(n, path, "required", "a switch has 1 to %d cases", maxCases)
		}
		for i := range *into {
			if at := fmt.Sprintf("%s[%d].default", path, i); i < len(*into)-1 && r.Has(at) {
				r.ReportAt(at, "order", "the default is the last case: no case after it is ever taken")
			}
		}
	})
}

// defaultCase reads the default of a switch: a target, or true.
func (r *reader) defaultCase(c *spec.Case) yamldoc.Field {
	schema := yamldoc.Schema{"anyOf": []yamldoc.Schema{{"const": true}, {"type": "string", "pattern": labelRE.String()}}}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		if b, ok := n.(*ast.BoolNode); ok && b.Value {
			return
		}
		r.target(&c.Next).Read(n, path)
		if next := strings.TrimSuffix(path, "default") + "next"; r.Has(next) {
			r.ReportAt(next, "conflict", "the default names the step already")
		}
	})
}

// requireWay checks that a case says where to continue.
func (r *reader) requireWay(n ast.Node, path string, c *spec.Case) {
	if c.Next == "" && len(c.Steps) == 0 && !r.Has(path+".steps") && !r.Has(path+".default") {
		r.Report(n, path+".next", "required", "say how to go on: next, steps, or both")
	}
}

// onFailure reads a label, or a list of cases. A case without when handles every failure.
func (r *reader) onFailure(into *[]spec.Case, depth int) yamldoc.Field {
	var label string
	short := r.target(&label).Then(r.Reader, func(n ast.Node, path string) {
		*into = []spec.Case{{Next: label}}
		r.AddPath(path+"[0].next", n) // where the compiler reports errors
	})
	return yamldoc.ScalarOr(short, yamldoc.List(r.Reader, into, maxCases, func(c *spec.Case) yamldoc.Field {
		return r.Object(r.caseFields(c, depth)).Finally(func(n ast.Node, path string) { r.requireWay(n, path, c) })
	})).Then(r.Reader, func(n ast.Node, path string) {
		for i := range *into {
			if i < len(*into)-1 && (*into)[i].When == "" {
				r.Report(n, fmt.Sprintf("%s[%d]", path, i), "order", "this case handles every failure: no case after it is ever taken")
			}
		}
	})
}

// parallel reads concurrent branches.
func (r *reader) parallel(p *spec.Parallel, depth int) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"branches": yamldoc.List(r.Reader, &p.Branches, maxBranches, func(b *spec.Branch) yamldoc.Field { return r.branch(b, depth) }).
			WithSchema(yamldoc.Schema{"minItems": 1}).Required("name the branches"),
		"merge": r.Object(yamldoc.Fields{
			"strategy":   yamldoc.Enum(r.Reader, &p.Merge.Strategy, spec.MergeShallow, spec.MergeDeep, spec.MergeReplace, spec.MergeAppend),
			"onConflict": yamldoc.Enum(r.Reader, &p.Merge.OnConflict, spec.PreferNew, spec.PreferExisting, spec.ConflictFails),
		}),
		"allowPartial": r.Bool(&p.AllowPartial),
		"minimum":      r.Integer(&p.Minimum, 1, maxBranches),
	}).Finally(func(n ast.Node, path string) {
		if len(p.Branches) == 0 && r.Has(path+".branches") {
			r.ReportAt(path+".branches", "required", "1 to %d branches", maxBranches)
		}
		if p.Minimum > 0 && !p.AllowPartial {
			r.ReportAt(path+".minimum", "conflict", "minimum needs allowPartial")
		}
		if p.Minimum > len(p.Branches) {
			r.ReportAt(path+".minimum", "range", "there are only %d branches", len(p.Branches))
		}
		first := map[string]int{}
		for i := range p.Branches {
			if other, taken := first[p.Branches[i].Label]; taken {
				r.ReportAt(fmt.Sprintf("%s.branches[%d].label", path, i), "duplicate", "the label %q is taken by branch %d", p.Branches[i].Label, other+1)
			}
			first[p.Branches[i].Label] = i
		}
	})
}

// branch reads a branch: its steps, or a single step, whose label it takes.
func (r *reader) branch(b *spec.Branch, depth int) yamldoc.Field {
	steps := r.Object(yamldoc.Fields{
		"label":  r.label(&b.Label).Required("a branch needs label"),
		"steps":  r.caseSteps(&b.Steps, depth),
		"result": r.Raw(&b.Result, false),
	})
	var step spec.Step
	one := yamldoc.Named("branchStep", r.branchStep(&step, depth+1)).Then(r.Reader, func(n ast.Node, path string) {
		b.Label, b.Steps = step.Label, []spec.Step{step}
		r.AddPath(path+".steps", n)
		r.IndexAs(n, path+".steps[0]") // where the compiler reports errors
	})
	return yamldoc.Either(func(n ast.Node) bool { return yamldoc.HasKey(n, "steps") }, steps, one)
}

// requires reads the labels of steps that must have completed. It is short for an assertion for
// each.
func (r *reader) requires(into *[]string) yamldoc.Field {
	var labels []string
	return yamldoc.List(r.Reader, &labels, maxRequires, r.label).Then(r.Reader, func(n ast.Node, path string) {
		for _, label := range labels {
			if !labelRE.MatchString(label) {
				continue // reported when it was read
			}
			r.AddPath(strings.TrimSuffix(path, "requires")+"assert["+strconv.Itoa(len(*into))+"]", n)
			*into = append(*into, fmt.Sprintf("steps.%s.status == \"COMPLETED\"", label))
		}
	})
}

// input reads the parameters in one of six forms, each of which is short for a template of
// parameters.
func (r *reader) input(s *spec.Step) yamldoc.Field {
	var in struct {
		key, path        string
		keys             []string
		template, static json.RawMessage
		full             bool
	}
	forms := []string{"key", "keys", "path", "template", "full", "static"}
	var oneForm []yamldoc.Schema
	for _, f := range forms {
		oneForm = append(oneForm, yamldoc.Schema{"required": []string{f}})
	}
	return r.Object(yamldoc.Fields{
		"key":      r.variableName(&in.key),
		"keys":     yamldoc.List(r.Reader, &in.keys, maxIDs, r.variableName),
		"path":     r.contextPath(&in.path),
		"template": r.Raw(&in.template, false).WithSchema(yamldoc.Schema{"type": []string{"object", "string"}}),
		"full":     r.Bool(&in.full),
		"static":   r.Raw(&in.static, true),
	}).Finally(func(n ast.Node, path string) {
		given := ""
		for _, f := range forms {
			if !r.Has(path + "." + f) {
				continue
			}
			if given != "" {
				r.ReportAt(path+"."+f, "conflict", "input has one form only: it already has %s", given)
				return
			}
			given = f
		}
		if given == "" {
			r.Report(n, path, "required", "say what the parameters are: key, keys, path, template, full or static")
			return
		}
		s.FromInput = true
		switch given {
		case "key":
			s.Parameters = contextToken(in.key)
		case "path":
			s.Parameters = contextToken(in.path)
		case "full":
			if !in.full {
				r.ReportAt(path+".full", "enum", "want true")
			}
			s.Parameters = json.RawMessage(`"${context}"`)
		case "keys":
			values := map[string]json.RawMessage{}
			for _, key := range in.keys {
				values[key] = contextToken(key)
			}
			s.Parameters, _ = workflow.EncodeJSON(values) //nolint:errchkjson // a map of JSON
		case "template":
			if s.Parameters = in.template; len(in.template) > 0 && in.template[0] != '{' && !isToken(in.template) {
				r.ReportAt(path+".template", "type", "want an object, or one token whose value is one")
			}
		case "static":
			s.RawParameters = in.static
		}
	}).WithSchema(yamldoc.Schema{"oneOf": oneForm})
}

// isToken reports whether a JSON value is a string that is one token.
func isToken(raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return false
	}
	_, token := expr.UnwrapToken(text)
	return token
}

func (r *reader) variableName(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": variableNameRE.String()}, "format", "want the name of a variable or a parameter", variableNameRE.MatchString)
}

func (r *reader) contextPath(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": contextPathRE.String()}, "format",
		"want names and positions with dots between them, such as order.lines.0.sku", contextPathRE.MatchString)
}

// checkFlowNames refuses labels and names of items that hide a variable of expressions or a
// placeholder. Definitions published before these existed may have them.
func (r *reader) checkFlowNames(d *spec.Definition) {
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		if expr.Hides(s.Label) || s.Label == spec.NextEnd {
			r.ReportAt(paths[i]+".label", "reserved", "%q means something else in definitions", s.Label)
		}
		for _, name := range s.ItemNames() {
			if !expr.Hides(name) || expr.IsFlowName(name) { // the latter are reported when they are read
				continue
			}
			at := paths[i] + ".loop.as"
			if s.Foreach != nil {
				at = paths[i] + ".foreach.as"
			}
			r.ReportAt(at, "reserved", "%q means something else in definitions", name)
		}
	}
}

// checkStepTimeouts refuses a stepTimeout on steps that are executed within the execution, because
// nothing would end them. Definitions published earlier may have one.
func (r *reader) checkStepTimeouts(d *spec.Definition) {
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		embedded := s.Workflow != nil || s.Reference != nil && s.Reference.Mode == workflow.ModeEmbed
		if embedded && r.Has(paths[i]+".stepTimeout") {
			r.ReportAt(paths[i]+".stepTimeout", "conflict", "a step with an embedded workflow has no stepTimeout: give it to the steps in it, or dispatch the workflow")
		}
	}
}

// contextToken returns the token that reads a path of the context. A number is a position in a
// list.
func contextToken(path string) json.RawMessage {
	raw, _ := workflow.EncodeJSON("${" + contextExpr(path) + "}") //nolint:errchkjson // a string
	return raw
}
