package definition

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// pipe reads a pipe.
func (r *reader) pipe(p *spec.Pipe) yamldoc.Field {
	return yamldoc.Named("pipe", r.Object(yamldoc.Fields{
		"step":   r.checkedText(&p.Step, yamldoc.Schema{"pattern": labelRE.String()}, "format", "want the label of a step", labelRE.MatchString).Required("name the step of whose jobs it makes rows"),
		"on":     choice(r, &p.On, spec.PipeOnSuccess, spec.PipeOnFailure, spec.PipeOnAny),
		"table":  r.name(&p.Table).Required("name the table"),
		"map":    r.pipeMap(&p.Map),
		"static": r.pipeStatic(&p.Static),
	}).Finally(func(n ast.Node, path string) {
		if !r.Has(path+".map") && !r.Has(path+".static") {
			r.Report(n, path, "required", "say which values a row has: map, static, or both")
		}
		for name := range p.Static {
			if _, twice := p.Map[name]; twice {
				r.ReportAt(yamldoc.JoinPath(path+".static", name), "duplicate", "%q is given in map too", name)
			}
		}
	}))
}

var columnRE = regexp.MustCompile(workflow.ColumnPattern)

// columns returns the schema and the checks of an object with values by column.
func (r *reader) columns(field yamldoc.Field, value yamldoc.Schema) yamldoc.Field {
	return field.WithSchema(yamldoc.Schema{"minProperties": 1, "maxProperties": workflow.MaxColumns, "propertyNames": yamldoc.Schema{"pattern": workflow.ColumnPattern}, "additionalProperties": value}).
		Then(r.Reader, func(n ast.Node, path string) {
			values, _ := r.Mapping(n, path)
			if len(values) == 0 || len(values) > workflow.MaxColumns {
				r.Report(n, path, "limit", "want 1 to %d columns", workflow.MaxColumns)
			}
			for _, v := range values {
				if name := yamldoc.KeyOf(v); !columnRE.MatchString(name) {
					r.Report(v, yamldoc.JoinPath(path, name), "format", "%q is not the name of a column: want a letter or _, then letters, digits and _, at most 64", name)
				}
			}
		})
}

// pipeMap reads expressions by column.
func (r *reader) pipeMap(into *map[string]string) yamldoc.Field {
	return r.columns(yamldoc.Value(yamldoc.Schema{"type": "object"}, func(n ast.Node, path string) {
		values, ok := r.Mapping(n, path)
		if !ok {
			return
		}
		*into = map[string]string{}
		for _, v := range values {
			var source string
			r.expr(&source).Read(v.Value, yamldoc.JoinPath(path, yamldoc.KeyOf(v)))
			source, _ = expr.UnwrapToken(source)
			(*into)[yamldoc.KeyOf(v)] = source
		}
	}), yamldoc.Schema{"type": "string", "pattern": nonBlankPattern})
}

// pipeStatic reads values by column.
func (r *reader) pipeStatic(into *map[string]json.RawMessage) yamldoc.Field {
	var raw json.RawMessage
	return r.columns(r.Raw(&raw, true).Then(r.Reader, func(n ast.Node, path string) {
		_ = json.Unmarshal(raw, into) // it was read as an object
		if len(raw) > workflow.MaxRowBytes {
			r.Report(n, path, "limit", "a row holds at most %d bytes", workflow.MaxRowBytes)
		}
	}), yamldoc.Schema{})
}

// checkPipes checks that the steps of pipes have jobs.
func (r *reader) checkPipes(d *spec.Definition) {
	steps := d.FlatSteps()
	labels := make([]string, len(steps))
	for i, s := range steps {
		labels[i] = s.Label
	}
	for i, p := range d.Pipes {
		at := fmt.Sprintf("pipes[%d].step", i)
		switch n := slices.Index(labels, p.Step); {
		case p.Step == "":
		case n < 0:
			r.ReportAt(at, "reference", "there is no step %q%s", p.Step, workflow.DidYouMean(p.Step, labels))
		case steps[n].FunctionBlock == "":
			r.ReportAt(at, "reference", "step %q calls no block: rows are made of jobs", p.Step)
		}
	}
}
