package definition

import (
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxWait is the longest that anything may be put off or go on.
const maxWait = 30 * 24 * time.Hour

func (r *reader) config(c *spec.Config) document.Field {
	return r.Object(document.Fields{
		"executionStrategy": r.Object(document.Fields{"parallel": r.Flag(&c.Parallel)}),
		"onLocked":          choice(r, &c.OnLocked, spec.OnLockedWait, spec.OnLockedFail, spec.OnLockedSkip),
		"lockMode":          choice(r, &c.LockMode, workflow.LockExclusive, workflow.LockShared),
		"rollback":          r.rollback(c),
		"maxInFlight":       r.Integer(&c.MaxInFlight, 1, maxInFlight),
		"failureTolerance":  r.tolerance(&c.FailureTolerance),
		"timeout":           r.duration(&c.Timeout, time.Millisecond, maxWait),
		"startWhen": document.Either(r.expr(&c.StartWhen), r.Object(document.Fields{
			"condition": r.expr(&c.StartWhen).Required("say what to wait for").Then(r.Reader, func(n ast.Node, path string) {
				r.Place(strings.TrimSuffix(path, ".condition"), n) // where compiling finds it
			}),
			"deadline": r.duration(&c.StartDeadline, time.Millisecond, maxWait),
		})),
		"notBefore": r.notBefore(&c.NotBefore),
	})
}

// choice reads one of a few, of which the first is the default: written out, it
// means the same as if it were not there.
func choice[S ~string](r *reader, into *S, standard S, others ...S) document.Field {
	return document.Choice(r.Reader, into, append([]S{standard}, others...)...).Then(r.Reader, func(ast.Node, string) {
		if *into == standard {
			*into = ""
		}
	})
}

// rollback reads auto, never, or an object with the mode and what a failed wave
// means for those that remain.
func (r *reader) rollback(c *spec.Config) document.Field {
	mode := choice(r, &c.Rollback, workflow.RollbackAuto, workflow.RollbackNever)
	var onFailure string
	return document.Either(mode, r.Object(document.Fields{
		"mode": mode,
		"onFailure": choice(r, &onFailure, "stop", "continue").Then(r.Reader, func(ast.Node, string) {
			c.RollbackContinue = onFailure == "continue"
		}),
	}))
}

// tolerance reads a count, or a percentage such as 10%.
func (r *reader) tolerance(t *spec.Tolerance) document.Field {
	count := r.Integer(&t.Count, 0, maxInFlight)
	shape := document.Shape{"anyOf": []document.Shape{
		{"type": "integer", "minimum": 0, "maximum": maxInFlight},
		{"type": "string", "pattern": percentRE.String()},
	}}
	return document.Value(shape, func(n ast.Node, path string) {
		s, ok := n.(*ast.StringNode)
		if _, number := document.NumberOf(n); !ok || number {
			count.Read(n, path)
			return
		}
		m := percentRE.FindStringSubmatch(s.Value)
		if m == nil {
			r.Issue(n, path, "format", "want a count, or a percentage such as 10%%")
			return
		}
		if t.Percent, _ = strconv.ParseFloat(m[1], 64); t.Percent > 100 {
			r.Issue(n, path, "range", "want 0%% to 100%%")
		}
	})
}

// notBefore reads a time, or a text with tokens that becomes one.
func (r *reader) notBefore(into *string) document.Field {
	return r.checked(into, document.Shape{"pattern": somethingPattern}, "format", "want a time such as 2030-01-31T08:00:00Z, or ${...}", func(s string) bool {
		_, err := time.Parse(time.RFC3339, s)
		return err == nil || strings.Contains(s, "${")
	})
}

func (r *reader) acquires(into *[]spec.Acquire) document.Field {
	return document.List(r.Reader, into, maxAcquire, func(a *spec.Acquire) document.Field {
		return document.Named("acquire", r.acquire(a))
	})
}

func (r *reader) acquire(a *spec.Acquire) document.Field {
	return r.Object(document.Fields{
		"type":   r.entityType(&a.Type).Required("name the entity type"),
		"ids":    document.Either(r.token(&a.IDsOf), r.ids(&a.IDs)),
		"groups": r.ids(&a.Groups),
		"query":  r.expr(&a.Query),
		"expand": document.Pointer(&a.Expand, func(e *spec.Expand) document.Field {
			return r.Object(document.Fields{
				"from": r.entityType(&e.From).Required("name the entity type to expand from"),
				"ids": r.expr(&e.IDs).Required("say which ids each of them names").Then(r.Reader, func(ast.Node, string) {
					e.IDs, _ = expr.Plain(e.IDs)
				}),
			})
		}),
		"block":         r.reference(&a.Block),
		"parameters":    r.Raw(&a.Parameters, true),
		"rawParameters": r.Raw(&a.RawParameters, true),
	}).Also(func(_ ast.Node, path string) {
		for _, name := range []string{"parameters", "rawParameters"} {
			if r.Given(path+"."+name) && !r.Given(path+".block") {
				r.At(path+"."+name, "conflict", "only a block has parameters")
			}
		}
	})
}

// token reads a text that is one ${...} as a whole, and keeps what is in it.
func (r *reader) token(into *string) document.Field {
	const message = "want a list of ids, or one text ${...} that gives it"
	return r.Text(into).With(document.Shape{"pattern": tokenPattern}).Then(r.Reader, func(n ast.Node, path string) {
		source, ok := expr.Plain(*into)
		*into = ""
		switch {
		case !ok:
			r.Issue(n, path, "format", message)
		case strings.TrimSpace(source) == "":
			r.Issue(n, path, "expression", "the expression is empty")
		default:
			*into = source
		}
	})
}
