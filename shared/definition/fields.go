package definition

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Limits of a definition.
const (
	maxSteps    = 200
	maxLabels   = 50
	maxText     = 4096 // characters of a description
	maxAcquire  = 20
	maxIDs      = 10_000
	maxInFlight = 1_000_000
)

// definition reads the root object.
func (r *reader) definition(n ast.Node, d *workflow.Definition) {
	r.Object(n, "", map[string]document.Field{
		"package":        r.name(&d.Package),
		"name":           r.name(&d.Name),
		"version":        r.version(&d.Version),
		"description":    r.short(&d.Description),
		"labels":         r.labels(&d.Labels),
		"parameters":     r.schema(&d.Parameters),
		"seedEntity":     r.id(&d.SeedEntity),
		"acquire":        r.acquire(&d.Acquire),
		"assertNotEmpty": r.Flag(&d.AssertNotEmpty),
		"config":         r.config(&d.Config),
		"steps":          r.steps(&d.Steps),
		"cron":           document.Planned,
		"triggers":       document.Planned,
	})
	if !document.IsObject(n) {
		return
	}
	for _, name := range []string{"package", "name", "version"} {
		if !r.Given(name) {
			r.Issue(n, name, "required", "the field %s is required", name)
		}
	}
	if !r.Given("steps") {
		r.Issue(n, "steps", "required", "%s", errNoSteps)
	}
}

// checked reads a text and then checks it.
func (r *reader) checked(into *string, code, message string, ok func(string) bool) document.Field {
	return func(n ast.Node, path string) {
		before := r.Count()
		if r.Text(into)(n, path); r.Count() == before && !ok(*into) {
			r.Issue(n, path, code, "%s", message)
		}
	}
}

func (r *reader) name(into *string) document.Field {
	return r.checked(into, "format", "want a letter, then letters, digits, - and _, at most 64", workflow.ValidName)
}

func (r *reader) id(into *string) document.Field {
	return r.checked(into, "format", "want letters, digits and . _ : @ + -, at most 128", workflow.ValidID)
}

// expr reads an expression; it is compiled when all labels are known.
func (r *reader) expr(into *string) document.Field {
	return r.checked(into, "expression", "the expression is empty", func(s string) bool { return strings.TrimSpace(s) != "" })
}

func (r *reader) version(into *string) document.Field {
	return r.checked(into, "semver", "want a version such as 1.2.3", func(s string) bool {
		_, ok := workflow.ParseSemver(s)
		return ok
	})
}

func (r *reader) short(into *string) document.Field {
	return r.checked(into, "limit", "at most 4096 characters", func(s string) bool { return len(s) <= maxText })
}

func (r *reader) labels(into *map[string]string) document.Field {
	return func(n ast.Node, path string) {
		values, ok := r.Mapping(n, path)
		if !ok {
			return
		}
		if len(values) > maxLabels {
			r.Issue(n, path, "limit", "at most %d labels", maxLabels)
			return
		}
		*into = map[string]string{}
		for _, v := range values {
			var s string
			r.short(&s)(v.Value, document.Join(path, document.KeyOf(v)))
			(*into)[document.KeyOf(v)] = s
		}
	}
}

// schema reads a JSON Schema and compiles it, to see that it is one.
func (r *reader) schema(into *json.RawMessage) document.Field {
	return func(n ast.Node, path string) {
		if r.Raw(into, true)(n, path); len(*into) == 0 {
			return
		}
		if err := CheckSchema(*into); err != nil {
			r.Issue(n, path, "schema", "%v", err)
		}
	}
}

func (r *reader) acquire(into *[]workflow.Acquire) document.Field {
	return func(n ast.Node, path string) {
		r.List(n, path, maxAcquire, func(n ast.Node, path string) {
			var a workflow.Acquire
			r.Object(n, path, map[string]document.Field{
				"type":       r.id(&a.Type),
				"ids":        r.ids(&a.IDs),
				"groups":     r.ids(&a.Groups),
				"query":      r.expr(&a.Query),
				"block":      document.Planned,
				"expand":     document.Planned,
				"parameters": document.Planned,
			})
			if document.IsObject(n) && !r.Given(path+".type") {
				r.Issue(n, document.Join(path, "type"), "required", "name the entity type")
			}
			*into = append(*into, a)
		})
	}
}

func (r *reader) ids(into *[]string) document.Field {
	return func(n ast.Node, path string) {
		r.List(n, path, maxIDs, func(n ast.Node, path string) {
			var s string
			r.id(&s)(n, path)
			*into = append(*into, s)
		})
	}
}

func (r *reader) config(c *workflow.Config) document.Field {
	return func(n ast.Node, path string) {
		r.Object(n, path, map[string]document.Field{
			"executionStrategy": func(n ast.Node, path string) {
				r.Object(n, path, map[string]document.Field{"parallel": func(n ast.Node, path string) {
					if r.Flag(&c.Parallel)(n, path); c.Parallel {
						r.NotYet(n, path)
					}
				}})
			},
			"onLocked": func(n ast.Node, path string) {
				document.Choice(r.Reader, &c.OnLocked, workflow.OnLockedWait, workflow.OnLockedFail, workflow.OnLockedSkip)(n, path)
				switch c.OnLocked {
				case workflow.OnLockedSkip:
					r.NotYet(n, path)
				case workflow.OnLockedWait:
					c.OnLocked = "" // the default, written out
				}
			},
			"lockMode": func(n ast.Node, path string) {
				document.Choice(r.Reader, &c.LockMode, "exclusive", "shared")(n, path)
				if c.LockMode == "shared" {
					r.NotYet(n, path)
				}
				c.LockMode = "" // exclusive is the default
			},
			"rollback":         r.rollback(c),
			"maxInFlight":      r.Integer(&c.MaxInFlight, 1, maxInFlight),
			"failureTolerance": r.tolerance(&c.FailureTolerance),
			"timeout":          document.Planned,
			"startWhen":        document.Planned,
			"notBefore":        document.Planned,
		})
	}
}

// rollback reads auto, never, or an object with the mode and what a failed wave
// means for those that remain.
func (r *reader) rollback(c *workflow.Config) document.Field {
	mode := func(n ast.Node, path string) {
		if document.Choice(r.Reader, &c.Rollback, workflow.RollbackAuto, workflow.RollbackNever)(n, path); c.Rollback == workflow.RollbackAuto {
			c.Rollback = "" // the default, written out
		}
	}
	return func(n ast.Node, path string) {
		if _, scalar := n.(ast.ScalarNode); scalar {
			mode(n, path)
			return
		}
		var onFailure string
		r.Object(n, path, map[string]document.Field{
			"mode": mode,
			"onFailure": func(n ast.Node, path string) {
				if document.Choice(r.Reader, &onFailure, "stop", "continue")(n, path); onFailure == "continue" {
					r.NotYet(n, path)
				}
			},
		})
	}
}

var percentRE = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,3})?)%$`)

// tolerance reads a count, or a percentage such as 10%.
func (r *reader) tolerance(t *workflow.Tolerance) document.Field {
	return func(n ast.Node, path string) {
		if s, ok := n.(*ast.StringNode); ok {
			m := percentRE.FindStringSubmatch(s.Value)
			if m == nil {
				r.Issue(n, path, "format", "want a count, or a percentage such as 10%%")
				return
			}
			if t.Percent, _ = strconv.ParseFloat(m[1], 64); t.Percent > 100 {
				r.Issue(n, path, "range", "want 0%% to 100%%")
			}
			return
		}
		r.Integer(&t.Count, 0, maxInFlight)(n, path)
	}
}

// duration reads Go syntax, or a whole number of seconds.
func (r *reader) duration(into *workflow.Duration, low, high time.Duration) document.Field {
	return func(n ast.Node, path string) {
		var d time.Duration
		if v, ok := document.NumberOf(n); ok {
			d = time.Duration(v * float64(time.Second))
		} else {
			var s string
			before := r.Count()
			if r.Text(&s)(n, path); r.Count() > before {
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
	}
}
