package definition

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Limits of what a definition may ask to compile.
const (
	maxExpressions    = 1000
	maxExpressionText = 64 << 10 // bytes of all expressions together
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
	r := &reader{&document.Reader{}}
	c := r.compile(d)
	if err := workflow.Invalid(notValid, r.Issues()); err != nil {
		return nil, err
	}
	return c, nil
}

var identifierRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// compile compiles what it can and reports the rest. Expressions know the labels
// of all steps, so that reading a step that comes later can be told from a slip
// of the pen.
func (r *reader) compile(d *workflow.Definition) *Compiled {
	c := &Compiled{steps: make([]compiledStep, len(d.Steps))}
	count, text := 0, 0
	counted := func(source string) {
		count, text = count+1, text+len(source)
	}
	var labels []string
	for i := range d.Steps {
		s := &d.Steps[i]
		if identifierRE.MatchString(s.Label) && !expr.Reserved(s.Label) {
			labels = append(labels, s.Label)
		}
		counted(s.Condition)
		for _, source := range s.Assert {
			counted(source)
		}
		expr.EachToken(s.Parameters, counted)
	}
	for _, a := range d.Acquire {
		counted(a.Query)
	}
	if count > maxExpressions || text > maxExpressionText {
		r.At("steps", "limit", "at most %d expressions of together %d bytes", maxExpressions, maxExpressionText)
		return c
	}
	language, err := expr.NewLanguage(labels)
	if err != nil {
		r.At("steps", "expression", "%v", err)
		return c
	}
	for i, a := range d.Acquire {
		if blank(a.Query) {
			continue
		}
		if _, err := expr.CompileQuery(a.Query); err != nil {
			r.expression("acquire["+strconv.Itoa(i)+"].query", err)
		}
	}
	for i := range d.Steps {
		c.steps[i] = r.compileStep(d, i, language)
	}
	return c
}

func (r *reader) compileStep(d *workflow.Definition, i int, language *expr.Language) (step compiledStep) {
	s, path := &d.Steps[i], pathOf(i)
	condition := func(source, path string) *expr.Program {
		if blank(source) {
			return nil
		}
		p, err := language.CompileCondition(source)
		if err != nil {
			r.expression(path, err)
			return nil
		}
		r.reads(d, i, path, p.References())
		step.refs.Merge(p.References())
		return p
	}
	step.condition = condition(s.Condition, path+".condition")
	for n, source := range s.Assert {
		if p := condition(source, path+".assert["+strconv.Itoa(n)+"]"); p != nil {
			step.asserts = append(step.asserts, p)
		}
	}
	t, problems := language.CompileTemplate(path+".parameters", s.Parameters)
	for _, p := range problems {
		r.expression(p.Path, p.Err)
	}
	if t != nil {
		for _, token := range t.Tokens() {
			r.reads(d, i, token.Path, token.Program.References())
		}
		step.refs.Merge(t.References())
	}
	step.parameters, step.raw = t, s.RawParameters
	return step
}

// blank reports whether there is no expression; where there should be one, this
// was said when it was read.
func blank(source string) bool { return strings.TrimSpace(source) == "" }

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
	return document.Marshal(all)
}
