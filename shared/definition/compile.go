package definition

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Compiled is a definition whose expressions are ready to be evaluated. It is
// safe for concurrent use.
type Compiled struct {
	steps []compiledStep
}

type compiledStep struct {
	condition  *expr.Program
	asserts    []*expr.Program
	parameters *expr.Template
	raw        json.RawMessage
	refs       expr.References
}

// Compile compiles every expression of a definition that has been parsed.
func Compile(d *workflow.Definition) (*Compiled, error) {
	r := &reader{}
	c := r.compile(d)
	if err := workflow.Invalid("the definition is not valid", r.issues); err != nil {
		return nil, err
	}
	return c, nil
}

// compile compiles what it can and reports the rest. A step's expressions may
// read the results of the steps before it.
func (r *reader) compile(d *workflow.Definition) *Compiled {
	c := &Compiled{steps: make([]compiledStep, len(d.Steps))}
	for i, a := range d.Acquire {
		if a.Query != "" {
			if _, err := expr.CompileQuery(a.Query); err != nil {
				r.at(fmt.Sprintf("acquire[%d].query", i), "expression", "%v", err)
			}
		}
	}
	var all []string
	for _, s := range d.Steps {
		all = append(all, s.Label)
	}
	for i := range d.Steps {
		s, path := &d.Steps[i], fmt.Sprintf("steps[%d]", i)
		step := &c.steps[i]
		program := func(source, path string) *expr.Program {
			if source == "" {
				return nil
			}
			p, err := expr.Compile(all, source)
			if err != nil {
				r.at(path, "expression", "%v", err)
				return nil
			}
			r.reads(d, i, path, p.References())
			step.refs = merged(step.refs, p.References())
			return p
		}
		step.condition = program(s.Condition, path+".condition")
		for n, source := range s.Assert {
			if source == "" {
				r.at(fmt.Sprintf("%s.assert[%d]", path, n), "expression", "the expression is empty")
			}
			step.asserts = append(step.asserts, program(source, fmt.Sprintf("%s.assert[%d]", path, n)))
		}
		t, err := expr.CompileTemplate(all, path+".parameters", s.Parameters)
		if err != nil {
			r.at(path+".parameters", "expression", "%v", err)
			continue
		}
		r.reads(d, i, path+".parameters", t.References())
		step.refs = merged(step.refs, t.References())
		step.parameters, step.raw = t, s.RawParameters
	}
	return c
}

func merged(a, b expr.References) expr.References {
	a.Merge(b)
	return a
}

// References is what a step's expressions read.
func (c *Compiled) References(step int) expr.References { return c.steps[step].refs }

// Condition is true where the step has none. An error says that it cannot be
// evaluated.
func (c *Compiled) Condition(step int, s expr.Scope) (bool, error) {
	if p := c.steps[step].condition; p != nil {
		return p.EvalBool(s)
	}
	return true, nil
}

// Assertion is the source of the first assertion that is not true, "" if all
// are. An error says that one cannot be evaluated.
func (c *Compiled) Assertion(step int, s expr.Scope) (string, error) {
	for _, p := range c.steps[step].asserts {
		ok, err := p.EvalBool(s)
		if err != nil {
			return "", err
		}
		if !ok {
			return p.Source(), nil
		}
	}
	return "", nil
}

// Parameters are the step's parameters: the template filled, and raw parameters
// added as they are.
func (c *Compiled) Parameters(step int, s expr.Scope) (json.RawMessage, error) {
	filled, err := c.steps[step].parameters.Eval(s)
	if err != nil || len(c.steps[step].raw) == 0 {
		return filled, err
	}
	var all, raw map[string]json.RawMessage
	if err := json.Unmarshal(filled, &all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(c.steps[step].raw, &raw); err != nil {
		return nil, err
	}
	for name, value := range raw {
		all[name] = value
	}
	return json.Marshal(all)
}
