package definition

import (
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The patterns of the JSON Schema; what decides is the function beside each.
const (
	namePattern      = `^[A-Za-z][A-Za-z0-9_-]{0,63}$`
	idPattern        = `^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`
	versionPattern   = `^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){2}$`
	referencePattern = `^[A-Za-z][A-Za-z0-9_-]{0,63}/[A-Za-z][A-Za-z0-9_-]{0,63}(:(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){0,2})?$`
	durationPattern  = `^\s*\+?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+\s*$`
	somethingPattern = `\S`
	tokenPattern     = `^\s*\$\{[\s\S]*\}\s*$`
)

// checked reads a text and then checks it.
func (r *reader) checked(into *string, shape document.Shape, code, message string, ok func(string) bool) document.Field {
	return r.Text(into).With(shape).Then(r.Reader, func(n ast.Node, path string) {
		if !ok(*into) {
			r.Issue(n, path, code, "%s", message)
		}
	})
}

func (r *reader) name(into *string) document.Field {
	return r.checked(into, document.Shape{"pattern": namePattern}, "format",
		"want a letter, then letters, digits, - and _, at most 64", workflow.ValidName)
}

func (r *reader) id(into *string) document.Field {
	return r.checked(into, document.Shape{"pattern": idPattern}, "format",
		"want letters, digits and . _ : @ + -, at most 128", workflow.ValidID)
}

// entityType reads a type that entities have.
func (r *reader) entityType(into *string) document.Field {
	return r.id(into).Then(r.Reader, func(n ast.Node, path string) {
		if *into == workflow.RunOnGlobal {
			r.Issue(n, path, "reserved", "global is what steps without entities run on, and no type of entities")
		}
	})
}

// expr reads an expression; it is compiled when all labels are known.
func (r *reader) expr(into *string) document.Field {
	return r.checked(into, document.Shape{"pattern": somethingPattern}, "expression",
		"the expression is empty", func(s string) bool { return strings.TrimSpace(s) != "" })
}

func (r *reader) version(into *string) document.Field {
	return r.checked(into, document.Shape{"pattern": versionPattern}, "semver", "want a version such as 1.2.3", func(s string) bool {
		_, ok := workflow.ParseSemver(s)
		return ok
	})
}

func (r *reader) short(into *string) document.Field {
	return r.checked(into, document.Shape{"maxLength": maxText}, "limit",
		"at most 4096 characters", func(s string) bool { return len(s) <= maxText })
}

func (r *reader) reference(into *string) document.Field {
	return r.checked(into, document.Shape{"pattern": referencePattern}, "format",
		"want package/name or package/name:major[.minor[.patch]]", func(s string) bool {
			_, err := workflow.ParseRef(s)
			return err == nil
		})
}

func (r *reader) ids(into *[]string) document.Field {
	return document.List(r.Reader, into, maxIDs, r.id)
}

var percentRE = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,3})?)%$`)

// duration reads Go syntax, or a number of seconds.
func (r *reader) duration(into *workflow.Duration, low, high time.Duration) document.Field {
	shape := document.Shape{"anyOf": []document.Shape{
		{"type": "string", "pattern": durationPattern},
		{"type": "number", "minimum": low.Seconds(), "maximum": high.Seconds()},
	}}
	return document.Value(shape, func(n ast.Node, path string) {
		var d time.Duration
		if v, ok := document.NumberOf(n); ok {
			d = time.Duration(v * float64(time.Second))
		} else {
			var s string
			before := r.Count()
			if r.Text(&s).Read(n, path); r.Count() > before {
				return
			}
			var err error
			if d, err = time.ParseDuration(strings.TrimSpace(s)); err != nil {
				r.Issue(n, path, "duration", "want a duration such as 90s or 12m")
				return
			}
		}
		if d < low || d > high {
			r.Issue(n, path, "range", "want %s to %s", low, high)
			return
		}
		*into = workflow.Duration(d)
	})
}
