package definition

import (
	"fmt"
	"regexp"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxJobTimeout is the longest time-out of one attempt: a worker function lives
// at most 15 minutes.
const MaxJobTimeout = 14 * time.Minute

const maxAsserts = 20

var errNoSteps = fmt.Sprintf("a definition has 1 to %d steps", maxSteps)

var labelRE = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

func (r *reader) steps(into *[]workflow.Step) document.Field {
	return func(n ast.Node, path string) {
		if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
			r.Issue(n, path, "required", "%s", errNoSteps)
			return
		}
		labels := map[string]bool{}
		r.List(n, path, maxSteps, func(n ast.Node, path string) {
			s := r.step(n, path)
			if s.Label != "" && labels[s.Label] {
				r.At(path+".label", "duplicate", "the label %q is taken by an earlier step", s.Label)
			}
			labels[s.Label] = true
			*into = append(*into, s)
		})
	}
}

func (r *reader) step(n ast.Node, path string) (s workflow.Step) {
	r.Object(n, path, map[string]document.Field{
		"label":         r.label(&s.Label),
		"functionBlock": r.reference(&s.FunctionBlock),
		"runOn":         r.id(&s.RunOn),
		"condition":     r.expr(&s.Condition),
		"assert":        r.asserts(&s.Assert),
		"parameters":    r.Raw(&s.Parameters, true),
		"rawParameters": r.Raw(&s.RawParameters, true),
		"retry":         r.retry(&s.Retry),
		"timeout":       r.duration(&s.Timeout, time.Millisecond, MaxJobTimeout),

		"stepTimeout": document.Planned, "workflow": document.Planned, "workflowReference": document.Planned, "wait": document.Planned,
		"switch": document.Planned, "loop": document.Planned, "set": document.Planned, "repeat": document.Planned, "delay": document.Planned,
		"continueOnError": document.Planned, "onFailure": document.Planned, "next": document.Planned, "outputKey": document.Planned,
		"acquire": document.Planned, "assertNotEmpty": document.Planned,
	})
	if !document.IsObject(n) {
		return s
	}
	for _, name := range []string{"label", "functionBlock", "runOn"} {
		if !r.Given(path+"."+name) && (name == "label" || !other(r, path)) {
			r.Issue(n, path+"."+name, "required", "a step needs %s", name)
		}
	}
	return s
}

// other reports whether a step is of a kind that is not supported yet, which has
// been said; such a step calls no block.
func other(r *reader, path string) bool {
	for _, kind := range []string{"workflow", "workflowReference", "wait", "switch", "loop", "set"} {
		if r.Given(path + "." + kind) {
			return true
		}
	}
	return false
}

func (r *reader) label(into *string) document.Field {
	read := r.checked(into, "format", "want a lower-case letter, then letters, digits and _, at most 64", labelRE.MatchString)
	return func(n ast.Node, path string) {
		if read(n, path); expr.Reserved(*into) {
			r.Issue(n, path, "reserved", "%q means something else in expressions", *into)
		}
	}
}

func (r *reader) reference(into *string) document.Field {
	return r.checked(into, "format", "want package/name or package/name:major[.minor[.patch]]", func(s string) bool {
		_, err := workflow.ParseRef(s)
		return err == nil
	})
}

// asserts reads one expression or a list of them.
func (r *reader) asserts(into *[]string) document.Field {
	return func(n ast.Node, path string) {
		one := func(n ast.Node, path string) {
			var s string
			r.expr(&s)(n, path)
			*into = append(*into, s)
		}
		if _, scalar := n.(ast.ScalarNode); scalar {
			one(n, path)
			r.Place(path+"[0]", n) // where compiling finds it
			return
		}
		r.List(n, path, maxAsserts, one)
	}
}

func (r *reader) retry(into **workflow.Retry) document.Field {
	return func(n ast.Node, path string) {
		t := &workflow.Retry{Backoff: 1}
		r.Object(n, path, map[string]document.Field{
			"maxRetries": r.Integer(&t.MaxRetries, 0, workflow.MaxRetries),
			"delay":      r.duration(&t.Delay, 0, 24*time.Hour),
			"backoff":    r.Number(&t.Backoff, 1, 100),
			"maxDelay":   r.duration(&t.MaxDelay, 0, 24*time.Hour),
			"jitter":     r.Number(&t.Jitter, 0, 1),
			"when":       document.Planned,
		})
		if document.IsObject(n) && !r.Given(path+".maxRetries") {
			r.Issue(n, path+".maxRetries", "required", "say how often to retry")
		}
		*into = t
	}
}
