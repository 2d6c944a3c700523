package definition

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

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
	before := len(r.issues)
	r.object(n, "", map[string]field{
		"package":        r.name(&d.Package),
		"name":           r.name(&d.Name),
		"version":        r.version(&d.Version),
		"description":    r.short(&d.Description),
		"labels":         r.labels(&d.Labels),
		"parameters":     r.schema(&d.Parameters),
		"seedEntity":     r.id(&d.SeedEntity),
		"acquire":        r.acquire(&d.Acquire),
		"assertNotEmpty": r.flag(&d.AssertNotEmpty),
		"config":         r.config(&d.Config),
		"steps":          r.steps(&d.Steps),
		"cron":           r.planned,
		"triggers":       r.planned,
	})
	if _, ok := n.(*ast.MappingNode); !ok && len(r.issues) > before {
		return
	}
	for name, missing := range map[string]bool{"package": d.Package == "", "name": d.Name == "", "version": d.Version == ""} {
		if _, given := r.places[name]; missing && !given {
			r.issue(n, name, "required", "the field %s is required", name)
		}
	}
	if _, given := r.places["steps"]; !given {
		r.issue(n, "steps", "required", "%s", errNoSteps)
	}
}

// checked reads a text and then checks it.
func (r *reader) checked(into *string, code, message string, ok func(string) bool) field {
	return func(n ast.Node, path string) {
		before := len(r.issues)
		if r.text(into)(n, path); len(r.issues) == before && !ok(*into) {
			r.issue(n, path, code, "%s", message)
		}
	}
}

func (r *reader) name(into *string) field {
	return r.checked(into, "format", "want a letter, then letters, digits, - and _, at most 64", workflow.ValidName)
}

func (r *reader) id(into *string) field {
	return r.checked(into, "format", "want letters, digits and . _ : @ + -, at most 128", workflow.ValidID)
}

func (r *reader) version(into *string) field {
	return r.checked(into, "semver", "want a version such as 1.2.3", func(s string) bool {
		_, ok := workflow.ParseSemver(s)
		return ok
	})
}

func (r *reader) short(into *string) field {
	return r.checked(into, "limit", "at most 4096 characters", func(s string) bool { return len(s) <= maxText })
}

func (r *reader) labels(into *map[string]string) field {
	return func(n ast.Node, path string) {
		values, ok := r.mapping(n, path)
		if !ok {
			return
		}
		if len(values) > maxLabels {
			r.issue(n, path, "limit", "at most %d labels", maxLabels)
			return
		}
		*into = map[string]string{}
		for _, v := range values {
			var s string
			r.short(&s)(v.Value, join(path, keyOf(v)))
			(*into)[keyOf(v)] = s
		}
	}
}

// schema reads a JSON Schema and compiles it, to see that it is one.
func (r *reader) schema(into *json.RawMessage) field {
	return func(n ast.Node, path string) {
		if r.raw(into, true)(n, path); len(*into) == 0 {
			return
		}
		if err := CheckSchema(*into); err != nil {
			r.issue(n, path, "schema", "%v", err)
		}
	}
}

func (r *reader) acquire(into *[]workflow.Acquire) field {
	return func(n ast.Node, path string) {
		r.list(n, path, maxAcquire, func(n ast.Node, path string) {
			var a workflow.Acquire
			r.object(n, path, map[string]field{
				"type":       r.id(&a.Type),
				"ids":        r.ids(&a.IDs),
				"groups":     r.ids(&a.Groups),
				"query":      r.text(&a.Query),
				"block":      r.planned,
				"expand":     r.planned,
				"parameters": r.planned,
			})
			if _, given := r.places[join(path, "type")]; !given {
				r.issue(n, join(path, "type"), "required", "name the entity type")
			}
			*into = append(*into, a)
		})
	}
}

func (r *reader) ids(into *[]string) field {
	return func(n ast.Node, path string) {
		r.list(n, path, maxIDs, func(n ast.Node, path string) {
			var s string
			r.id(&s)(n, path)
			*into = append(*into, s)
		})
	}
}

func (r *reader) config(c *workflow.Config) field {
	return func(n ast.Node, path string) {
		r.object(n, path, map[string]field{
			"executionStrategy": func(n ast.Node, path string) {
				r.object(n, path, map[string]field{"parallel": func(n ast.Node, path string) {
					if r.flag(&c.Parallel)(n, path); c.Parallel {
						r.planned(n, path)
					}
				}})
			},
			"onLocked": func(n ast.Node, path string) {
				choice(r, &c.OnLocked, workflow.OnLockedWait, workflow.OnLockedFail, workflow.OnLockedSkip)(n, path)
				if c.OnLocked == workflow.OnLockedSkip {
					r.planned(n, path)
				}
			},
			"lockMode": func(n ast.Node, path string) {
				choice(r, &c.LockMode, "exclusive", "shared")(n, path)
				if c.LockMode == "shared" {
					r.planned(n, path)
				}
			},
			"rollback":         r.rollback(c),
			"maxInFlight":      r.integer(&c.MaxInFlight, 1, maxInFlight),
			"failureTolerance": r.tolerance(&c.FailureTolerance),
			"timeout":          r.planned,
			"startWhen":        r.planned,
			"notBefore":        r.planned,
		})
	}
}

// rollback reads auto, never, or an object with the mode and what a failed wave
// means for those that remain.
func (r *reader) rollback(c *workflow.Config) field {
	mode := choice(r, &c.Rollback, workflow.RollbackAuto, workflow.RollbackNever)
	return func(n ast.Node, path string) {
		if _, scalar := n.(ast.ScalarNode); scalar {
			mode(n, path)
			return
		}
		var onFailure string
		r.object(n, path, map[string]field{
			"mode": mode,
			"onFailure": func(n ast.Node, path string) {
				if choice(r, &onFailure, "stop", "continue")(n, path); onFailure == "continue" {
					r.planned(n, path)
				}
			},
		})
	}
}

var percentRE = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,3})?)%$`)

// tolerance reads a count, or a percentage such as 10%.
func (r *reader) tolerance(t *workflow.Tolerance) field {
	return func(n ast.Node, path string) {
		if s, ok := n.(*ast.StringNode); ok {
			m := percentRE.FindStringSubmatch(s.Value)
			if m == nil {
				r.issue(n, path, "format", "want a count, or a percentage such as 10%%")
				return
			}
			if t.Percent, _ = strconv.ParseFloat(m[1], 64); t.Percent > 100 {
				r.issue(n, path, "range", "want 0%% to 100%%")
			}
			return
		}
		r.integer(&t.Count, 0, maxInFlight)(n, path)
	}
}

// duration reads Go syntax, or a whole number of seconds.
func (r *reader) duration(into *workflow.Duration, low, high time.Duration) field {
	return func(n ast.Node, path string) {
		var d time.Duration
		if v, ok := numberOf(n); ok {
			d = time.Duration(v * float64(time.Second))
		} else {
			var s string
			before := len(r.issues)
			if r.text(&s)(n, path); len(r.issues) > before {
				return
			}
			var err error
			if d, err = time.ParseDuration(strings.TrimSpace(s)); err != nil {
				r.issue(n, path, "duration", "want a duration such as 90s or 12m")
				return
			}
		}
		if d < low || d > high {
			r.issue(n, path, "range", "want %s to %s", low, high)
			return
		}
		*into = workflow.Duration(d)
	}
}
