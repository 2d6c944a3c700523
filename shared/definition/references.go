package definition

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// references checks what needs the whole definition: that expressions compile
// and read only what can be there.
func (r *reader) references(d *workflow.Definition) {
	r.compile(d)
	for i := range d.Steps {
		r.twice(&d.Steps[i], i)
	}
}

// reads checks what an expression of step i reads: only earlier steps have
// results, and a status that stays as it is; and LABEL.result is the result for
// the same entity, of which a global step has none and a step on another type
// another.
func (r *reader) reads(d *workflow.Definition, i int, path string, refs expr.References) {
	s := &d.Steps[i]
	if s.RunOn == workflow.RunOnGlobal && refs.Entity {
		r.At(path, "reference", "a global step has no entity")
	}
	for _, label := range refs.Labels {
		at := indexOf(d, label)
		r.earlier(d, i, at, path, label, "result")
		if at < 0 || at >= i || !slices.Contains(refs.Own, label) {
			continue
		}
		switch on := d.Steps[at].RunOn; {
		case on == workflow.RunOnGlobal || on == s.RunOn:
		case s.RunOn == workflow.RunOnGlobal:
			r.At(path, "reference", "in a global step read %s.results: there is no entity whose result it could be", label)
		case on != "" && s.RunOn != "":
			r.At(path, "reference", "step %q runs on %s and %q on %s: read %s.results", s.Label, s.RunOn, label, on, label)
		}
	}
	for _, label := range refs.Steps {
		at := indexOf(d, label)
		if at < 0 {
			r.At(path, "reference", "there is no step %q", label)
		}
		r.earlier(d, i, at, path, label, "status")
	}
}

func indexOf(d *workflow.Definition, label string) int {
	return slices.IndexFunc(d.Steps, func(s workflow.Step) bool { return s.Label == label })
}

func (r *reader) earlier(d *workflow.Definition, i, at int, path, label, what string) {
	switch {
	case at == i:
		r.At(path, "reference", "step %q reads its own %s", label, what)
	case at > i:
		r.At(path, "reference", "step %q reads the %s of step %q, which comes later", d.Steps[i].Label, what, label)
	}
}

// expression reports an expression that does not compile, at the very place
// within it if that can be found in the text.
func (r *reader) expression(path string, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		r.At(path, "expression", "%v", err)
		return
	}
	r.AtText(path, e.Source, e.Line, e.Column, "expression", "%v", e)
}

// twice refuses a parameter that is given both filled and raw.
func (r *reader) twice(s *workflow.Step, i int) {
	var filled, raw map[string]json.RawMessage
	_ = json.Unmarshal(s.Parameters, &filled) // both were read as objects
	_ = json.Unmarshal(s.RawParameters, &raw)
	for name := range raw {
		if _, both := filled[name]; both {
			r.At(document.Join(pathOf(i)+".rawParameters", name), "duplicate", "%q is given in parameters too", name)
		}
	}
}
