package definition

import (
	"regexp"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxJobTimeout is the longest time-out of one attempt: a worker function lives
// at most 15 minutes.
const MaxJobTimeout = 14 * time.Minute

const maxAsserts = 20

var labelRE = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

func (r *reader) steps(into *[]workflow.Step) field {
	return func(n ast.Node, path string) {
		if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
			r.issue(n, path, "required", "%s", errNoSteps)
			return
		}
		labels := map[string]bool{}
		r.list(n, path, maxSteps, func(n ast.Node, path string) {
			s := r.step(n, path)
			if s.Label != "" && labels[s.Label] {
				r.at(path+".label", "duplicate", "the label %q is taken by an earlier step", s.Label)
			}
			labels[s.Label] = true
			*into = append(*into, s)
		})
	}
}

func (r *reader) step(n ast.Node, path string) (s workflow.Step) {
	before := len(r.issues)
	r.object(n, path, map[string]field{
		"label":         r.label(&s.Label),
		"functionBlock": r.reference(&s.FunctionBlock),
		"runOn":         r.id(&s.RunOn),
		"condition":     r.text(&s.Condition),
		"assert":        r.asserts(&s.Assert),
		"parameters":    r.raw(&s.Parameters, true),
		"rawParameters": r.raw(&s.RawParameters, true),
		"retry":         r.retry(&s.Retry),
		"timeout":       r.duration(&s.Timeout, time.Millisecond, MaxJobTimeout),

		"stepTimeout": r.planned, "workflow": r.planned, "workflowReference": r.planned, "wait": r.planned,
		"switch": r.planned, "loop": r.planned, "set": r.planned, "repeat": r.planned, "delay": r.planned,
		"continueOnError": r.planned, "onFailure": r.planned, "next": r.planned, "outputKey": r.planned,
		"acquire": r.planned, "assertNotEmpty": r.planned,
	})
	if len(r.issues) > before {
		return s
	}
	for name, missing := range map[string]bool{"label": s.Label == "", "functionBlock": s.FunctionBlock == "", "runOn": s.RunOn == ""} {
		if missing {
			r.issue(n, path+"."+name, "required", "a step needs %s", name)
		}
	}
	return s
}

func (r *reader) label(into *string) field {
	read := r.checked(into, "format", "want a lower-case letter, then letters, digits and _, at most 64", labelRE.MatchString)
	return func(n ast.Node, path string) {
		if read(n, path); expr.Reserved(*into) {
			r.issue(n, path, "reserved", "%q means something else in expressions", *into)
		}
	}
}

func (r *reader) reference(into *string) field {
	return r.checked(into, "format", "want package/name or package/name:major[.minor[.patch]]", func(s string) bool {
		_, err := workflow.ParseRef(s)
		return err == nil
	})
}

// asserts reads one expression or a list of them.
func (r *reader) asserts(into *[]string) field {
	return func(n ast.Node, path string) {
		one := func(n ast.Node, path string) {
			var s string
			r.text(&s)(n, path)
			*into = append(*into, s)
		}
		if _, scalar := n.(ast.ScalarNode); scalar {
			one(n, path)
			r.places[path+"[0]"] = n
			return
		}
		r.list(n, path, maxAsserts, one)
	}
}

func (r *reader) retry(into **workflow.Retry) field {
	return func(n ast.Node, path string) {
		t := &workflow.Retry{Backoff: 1}
		r.object(n, path, map[string]field{
			"maxRetries": r.integer(&t.MaxRetries, 0, workflow.MaxRetries),
			"delay":      r.duration(&t.Delay, 0, 24*time.Hour),
			"backoff":    r.number(&t.Backoff, 1, 100),
			"maxDelay":   r.duration(&t.MaxDelay, 0, 24*time.Hour),
			"jitter":     r.number(&t.Jitter, 0, 1),
			"when":       r.planned,
		})
		if _, given := r.places[path+".maxRetries"]; !given {
			r.issue(n, path+".maxRetries", "required", "say how often to retry")
		}
		*into = t
	}
}
