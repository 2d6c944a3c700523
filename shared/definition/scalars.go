package definition

import (
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The patterns are for the JSON Schema. The reader checks values with functions.
const (
	namePattern      = `^[A-Za-z][A-Za-z0-9_-]{0,63}$`
	idPattern        = `^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`
	versionPattern   = `^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){2}$`
	referencePattern = `^[A-Za-z][A-Za-z0-9_-]{0,63}/[A-Za-z][A-Za-z0-9_-]{0,63}(:(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){0,2})?$`
	durationPattern  = `^\s*\+?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+\s*$`
	nonBlankPattern  = `\S`
	tokenPattern     = `^\s*\$\{[\s\S]*\}\s*$`
)

// checkedText reads a string and then checks it.
func (r *reader) checkedText(into *string, schema yamldoc.Schema, code, message string, ok func(string) bool) yamldoc.Field {
	return r.Text(into).WithSchema(schema).Then(r.Reader, func(n ast.Node, path string) {
		if !ok(*into) {
			r.Report(n, path, code, "%s", message)
		}
	})
}

func (r *reader) name(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": namePattern}, "format",
		"want a letter, then letters, digits, - and _, at most 64", workflow.ValidName)
}

func (r *reader) id(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": idPattern}, "format",
		"want letters, digits and . _ : @ + -, at most 128", workflow.ValidID)
}

// entityType reads the type of an entity.
func (r *reader) entityType(into *string) yamldoc.Field {
	return r.id(into).Then(r.Reader, func(n ast.Node, path string) {
		if *into == workflow.RunOnGlobal {
			r.Report(n, path, "reserved", "global is reserved for steps without entities; name an entity type")
		}
	})
}

// expr reads an expression. It is compiled once all labels are known.
func (r *reader) expr(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": nonBlankPattern}, "expression",
		"the expression is empty", func(s string) bool { return strings.TrimSpace(s) != "" })
}

func (r *reader) version(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": versionPattern}, "semver", "want a version such as 1.2.3", func(s string) bool {
		_, ok := workflow.ParseSemver(s)
		return ok
	})
}

func (r *reader) shortText(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"maxLength": maxTextLength}, "limit",
		"at most 4096 characters", func(s string) bool { return len(s) <= maxTextLength })
}

func (r *reader) reference(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": referencePattern}, "format",
		"want package/name or package/name:major[.minor[.patch]]", func(s string) bool {
			_, err := workflow.ParseRef(s)
			return err == nil
		})
}

// referenceOrToken reads a reference, or an expression that gives one.
func (r *reader) referenceOrToken(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"anyOf": []yamldoc.Schema{{"pattern": referencePattern}, {"pattern": tokenPattern}}}, "format",
		"want package/name or package/name:major[.minor[.patch]], or one ${...} with among", func(s string) bool {
			_, err := workflow.ParseRef(s)
			_, evaluated := expr.UnwrapToken(s)
			return err == nil || evaluated
		})
}

// block reads the reference to a block. The blocks of http steps are not called by name: a step
// describes its call in http.
func (r *reader) block(into *string) yamldoc.Field {
	return r.reference(into).Then(r.Reader, func(n ast.Node, path string) {
		if ref, err := workflow.ParseRef(*into); err == nil && workflow.BuiltinName(ref) {
			r.Report(n, path, "reserved", "this is a block of http steps: write a step with http")
		}
	})
}

func (r *reader) ids(into *[]string) yamldoc.Field {
	return yamldoc.List(r.Reader, into, maxIDs, r.id)
}

var percentRE = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,3})?)%$`)

// duration reads a duration in Go syntax or in seconds, from low to high.
func (r *reader) duration(into *workflow.Duration, low, high time.Duration) yamldoc.Field {
	schema := yamldoc.Schema{"anyOf": []yamldoc.Schema{
		{"type": "string", "pattern": durationPattern},
		{"type": "number", "minimum": low.Seconds(), "maximum": high.Seconds()},
	}}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		var d time.Duration
		if v, ok := yamldoc.NumberOf(n); ok {
			d = time.Duration(v * float64(time.Second))
		} else {
			var s string
			before := r.IssueCount()
			if r.Text(&s).Read(n, path); r.IssueCount() > before {
				return
			}
			var err error
			if d, err = time.ParseDuration(strings.TrimSpace(s)); err != nil {
				r.Report(n, path, "duration", "want a duration such as 90s or 12m")
				return
			}
		}
		if d < low || d > high {
			r.Report(n, path, "range", "want %s to %s", low, high)
			return
		}
		*into = workflow.Duration(d)
	})
}
