package definition

import (
	"encoding/json"
	"slices"

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

// reads checks the labels that an expression of step i reads: only earlier steps
// have results; and a global step has no entity, neither of its own nor to look
// up the result of.
func (r *reader) reads(d *workflow.Definition, i int, path string, refs expr.References) {
	global := d.Steps[i].RunOn == workflow.RunOnGlobal
	if global && refs.Entity {
		r.at(path, "reference", "a global step has no entity")
	}
	for _, label := range refs.Labels {
		at := slices.IndexFunc(d.Steps, func(s workflow.Step) bool { return s.Label == label })
		switch {
		case at == i:
			r.at(path, "reference", "step %q reads its own result", label)
		case at > i:
			r.at(path, "reference", "step %q reads the result of step %q, which comes later", d.Steps[i].Label, label)
		case global && slices.Contains(refs.Own, label) && d.Steps[at].RunOn != workflow.RunOnGlobal:
			r.at(path, "reference", "in a global step read %s.results: there is no entity whose result it could be", label)
		}
	}
}

// twice refuses a parameter that is given both filled and raw.
func (r *reader) twice(s *workflow.Step, i int) {
	var filled, raw map[string]json.RawMessage
	_ = json.Unmarshal(s.Parameters, &filled) // both were read as objects
	_ = json.Unmarshal(s.RawParameters, &raw)
	for name := range raw {
		if _, both := filled[name]; both {
			r.at(pathOf(i)+".rawParameters", "duplicate", "%q is given in parameters too", name)
		}
	}
}
