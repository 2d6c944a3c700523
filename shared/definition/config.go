package definition

import (
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// MaxTimeout is the longest timeout of an execution.
const MaxTimeout = time.Duration(maxWait)

// MaxRunSteps is the largest limit of the step runs of an execution.
const MaxRunSteps = 9999

// maxWait is the longest delay, deadline and timeout of a step or an execution.
const maxWait = 30 * 24 * time.Hour

func (r *reader) config(c *spec.Config) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"executionStrategy": r.Object(yamldoc.Fields{"parallel": r.Bool(&c.Parallel)}),
		"onLocked":          choice(r, &c.OnLocked, spec.OnLockedWait, spec.OnLockedFail, spec.OnLockedSkip),
		"lockMode":          choice(r, &c.LockMode, workflow.LockExclusive, workflow.LockShared),
		"rollback":          r.rollback(c),
		"maxInFlight":       r.Integer(&c.MaxInFlight, 1, maxInFlight),
		"failureTolerance":  yamldoc.Optional(&c.FailureTolerance, r.tolerance),
		"onEntityFailure":   choice(r, &c.OnEntityFailure, spec.OnEntityFailureUndo, spec.OnEntityFailureLeave),
		"timeout":           r.duration(&c.Timeout, time.Millisecond, maxWait),
		"startWhen": yamldoc.ScalarOr(r.expr(&c.StartWhen), r.Object(yamldoc.Fields{
			"condition": r.expr(&c.StartWhen).Required("say what to wait for").Then(r.Reader, func(n ast.Node, path string) {
				r.AddPath(strings.TrimSuffix(path, ".condition"), n) // where the compiler reports errors
			}),
			"deadline": r.duration(&c.StartDeadline, time.Millisecond, maxWait),
		})),
		"notBefore": r.notBefore(&c.NotBefore),
		"region":    r.region(&c.Region),
		"limits": r.Object(yamldoc.Fields{
			"steps": r.Integer(&c.Limits.Steps, 1, MaxRunSteps),
			"wall":  r.duration(&c.Limits.Wall, time.Second, maxWait),
		}),
		"concurrency": yamldoc.Optional(&c.Concurrency, func(l *spec.Concurrency) yamldoc.Field {
			return r.Object(yamldoc.Fields{
				"limit":   r.Integer(&l.Limit, 1, workflow.MaxConcurrency).Required("say how many executions may be live at the same time"),
				"key":     r.limitKey(&l.Key),
				"onLimit": choice(r, &l.OnLimit, spec.OnLimitWait, spec.OnLimitFail),
			})
		}),
		"rate": yamldoc.Optional(&c.Rate, func(l *spec.StartRate) yamldoc.Field {
			return yamldoc.ScalarOr(r.rate(&l.Limit), r.Object(yamldoc.Fields{
				"limit":   r.rate(&l.Limit).Required("say how often executions may begin, such as 60/1m"),
				"key":     r.limitKey(&l.Key),
				"onLimit": choice(r, &l.OnLimit, spec.OnLimitWait, spec.OnLimitFail),
			}))
		}),
	})
}

// region reads the region of executions.
func (r *reader) region(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": topology.RegionPattern, "maxLength": topology.MaxRegion}, "format", "want "+topology.RegionNames, topology.ValidRegion)
}

// limitKey reads the key of a limit. Executions with the same key share the limit.
func (r *reader) limitKey(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": nonBlankPattern}, "format", "want text with ${...}, such as ${parameters.customer}",
		func(s string) bool { return strings.Contains(s, "${") })
}

// choice reads one of several values. The default means the same as no value.
func choice[S ~string](r *reader, into *S, defaultValue S, others ...S) yamldoc.Field {
	return yamldoc.Enum(r.Reader, into, append([]S{defaultValue}, others...)...).Then(r.Reader, func(ast.Node, string) {
		if *into == defaultValue {
			*into = ""
		}
	})
}

// rollback reads auto, never, or an object with the mode and with what happens to the remaining
// waves after one has failed.
func (r *reader) rollback(c *spec.Config) yamldoc.Field {
	mode := choice(r, &c.Rollback, workflow.RollbackAuto, workflow.RollbackNever)
	var onFailure string
	return yamldoc.ScalarOr(mode, r.Object(yamldoc.Fields{
		"mode": mode,
		"onFailure": choice(r, &onFailure, "stop", "continue").Then(r.Reader, func(ast.Node, string) {
			c.RollbackContinue = onFailure == "continue"
		}),
	}))
}

// tolerance reads a count, or a percentage such as 10%.
func (r *reader) tolerance(t *spec.Tolerance) yamldoc.Field {
	return r.countOrPercent(&t.Count, &t.Percent, 0, func(n ast.Node, path string) {
		if t.Percent > 100 {
			r.Report(n, path, "range", "want 0%% to 100%%")
		}
	})
}

// countOrPercent reads a count, no smaller than least, or a percentage such as 10%. check checks the
// range of the percentage.
func (r *reader) countOrPercent(count *int, percent *float64, least int, check func(ast.Node, string)) yamldoc.Field {
	number := r.Integer(count, least, maxInFlight)
	schema := yamldoc.Schema{"anyOf": []yamldoc.Schema{
		{"type": "integer", "minimum": least, "maximum": maxInFlight},
		{"type": "string", "pattern": percentRE.String()},
	}}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		text, ok := n.(*ast.StringNode)
		if _, isNumber := yamldoc.NumberOf(n); !ok || isNumber {
			number.Read(n, path)
			return
		}
		m := percentRE.FindStringSubmatch(text.Value)
		if m == nil {
			r.Report(n, path, "format", "want a count, or a percentage such as 10%%")
			return
		}
		*percent, _ = strconv.ParseFloat(m[1], 64)
		check(n, path)
	})
}

// notBefore reads a time, or a string with tokens that results in one.
func (r *reader) notBefore(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": nonBlankPattern}, "format", "want a time such as 2030-01-31T08:00:00Z, or ${...}", func(s string) bool {
		_, err := time.Parse(time.RFC3339, s)
		return err == nil || strings.Contains(s, "${")
	})
}

func (r *reader) acquires(into *[]spec.Acquire) yamldoc.Field {
	return yamldoc.List(r.Reader, into, maxAcquire, func(a *spec.Acquire) yamldoc.Field {
		return yamldoc.Named("acquire", r.acquire(a))
	})
}

func (r *reader) acquire(a *spec.Acquire) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"type":   r.entityType(&a.Type).Required("name the entity type"),
		"ids":    yamldoc.ScalarOr(r.token(&a.IDsExpr), r.ids(&a.IDs)),
		"groups": r.ids(&a.Groups),
		"query":  r.expr(&a.Query),
		"expand": yamldoc.Optional(&a.Expand, func(e *spec.Expand) yamldoc.Field {
			return r.Object(yamldoc.Fields{
				"from": r.entityType(&e.From).Required("name the entity type to expand from"),
				"ids": r.expr(&e.IDsExpr).Required("say which ids each of them names").Then(r.Reader, func(ast.Node, string) {
					e.IDsExpr, _ = expr.UnwrapToken(e.IDsExpr)
				}),
			})
		}),
		"block":         r.block(&a.Block),
		"parameters":    r.Raw(&a.Parameters, true),
		"rawParameters": r.Raw(&a.RawParameters, true),
	}).Finally(func(_ ast.Node, path string) {
		for _, name := range []string{"parameters", "rawParameters"} {
			if r.Has(path+"."+name) && !r.Has(path+".block") {
				r.ReportAt(path+"."+name, "conflict", "only a block has parameters")
			}
		}
	})
}

// token reads a string that is a single ${...} and keeps the expression in it.
func (r *reader) token(into *string) yamldoc.Field {
	return r.tokenOf(into, "want a list of ids, or one ${...} that returns it")
}

func (r *reader) tokenOf(into *string, message string) yamldoc.Field {
	return r.Text(into).WithSchema(yamldoc.Schema{"pattern": tokenPattern}).Then(r.Reader, func(n ast.Node, path string) {
		source, ok := expr.UnwrapToken(*into)
		*into = ""
		switch {
		case !ok:
			r.Report(n, path, "format", "%s", message)
		case strings.TrimSpace(source) == "":
			r.Report(n, path, "expression", "the expression is empty")
		default:
			*into = source
		}
	})
}
