package program

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Limits of what a definition may ask to compile.
const (
	maxExpressions    = 1000
	maxExpressionText = 64 << 10 // bytes of all expressions together
)

// Reporter takes what is wrong with an expression, at the path of a value, or at
// a place in the text that stands there.
type Reporter interface {
	At(path, code, format string, args ...any)
	AtText(path, source string, line, column int, code, format string, args ...any)
}

// compiler compiles what it can and reports the rest.
type compiler struct {
	Reporter
	definition *spec.Definition
	flat       []*spec.Step
	places     []place
	index      map[string]int // of steps by label
	language   *expr.Language // of steps
	*Compiled
}

var identifierRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Compile compiles every expression of a definition. What it reports makes the
// result unfit for use.
func Compile(d *spec.Definition, report Reporter) *Compiled {
	c := &compiler{Reporter: report, definition: d, flat: d.Flat(), places: places(d), index: map[string]int{}, Compiled: &Compiled{}}
	c.steps = make([]step, len(c.flat))
	c.acquires = make([]acquire, len(d.Acquisitions()))
	if count, text := measure(d); count > maxExpressions || text > maxExpressionText {
		c.At("steps", "limit", "at most %d expressions of together %d bytes", maxExpressions, maxExpressionText)
		return c.Compiled
	}
	// Expressions know the labels of all steps, so that reading a step that comes
	// later can be told from a slip of the pen.
	var labels []string
	for i, s := range c.flat {
		c.steps[i].label = s.Label
		if _, taken := c.index[s.Label]; !taken {
			c.index[s.Label] = i
		}
		if identifierRE.MatchString(s.Label) && !expr.Reserved(s.Label) {
			labels = append(labels, s.Label)
		}
	}
	var err error
	if c.language, err = expr.NewLanguage(labels); err != nil {
		c.At("steps", "expression", "%v", err)
		return c.Compiled
	}
	for i := range c.flat {
		c.step(i)
	}
	c.acquisitions()
	c.start()
	return c.Compiled
}

// measure counts expressions and their bytes.
func measure(d *spec.Definition) (count, text int) {
	counted := func(source string) {
		if source != "" {
			count, text = count+1, text+len(source)
		}
	}
	for _, s := range d.Flat() {
		counted(s.Condition)
		for _, source := range s.Assert {
			counted(source)
		}
		expr.EachToken(s.Parameters, counted)
		if s.Repeat != nil {
			counted(s.Repeat.While)
		}
		if s.Retry != nil {
			counted(s.Retry.When)
		}
		if s.Reference != nil {
			expr.EachToken(s.Reference.On, counted)
		}
	}
	for _, a := range d.Acquisitions() {
		counted(a.Query)
		counted(a.IDsOf)
		expr.EachToken(a.Parameters, counted)
		if a.Expand != nil {
			counted(a.Expand.IDs)
		}
	}
	counted(d.Config.StartWhen)
	counted(d.Config.NotBefore)
	return count, text
}

func (c *compiler) step(i int) {
	s, into, path := c.flat[i], &c.steps[i], c.places[i].path
	into.condition = c.condition(i, s.Condition, path+".condition", false)
	for n, source := range s.Assert {
		if p := c.condition(i, source, path+".assert["+strconv.Itoa(n)+"]", false); p != nil {
			into.asserts = append(into.asserts, p)
		}
	}
	into.parameters, into.raw = c.template(i, s.Parameters, path+".parameters"), s.RawParameters
	if s.Repeat != nil {
		into.again = c.condition(i, s.Repeat.While, path+".repeat.while", true)
	}
	if s.Reference != nil && len(s.Reference.On) > 0 {
		into.on = c.template(i, s.Reference.On, path+".workflowReference.executeOnParameters")
	}
	if s.Retry != nil {
		into.retryWhen = c.outside(expr.ForFailure, s.Retry.When, path+".retry.when", true)
	}
}

// condition compiles a condition of step i; after says that it is evaluated
// after a visit of the step.
func (c *compiler) condition(i int, source, path string, after bool) *expr.Program {
	if blank(source) {
		return nil
	}
	p, err := c.language.CompileCondition(source)
	if err != nil {
		c.failed(path, err)
		return nil
	}
	c.reads(i, path, p.References(), after)
	c.steps[i].refs.Merge(p.References())
	return p
}

// template compiles the tokens of a value of step i.
func (c *compiler) template(i int, raw json.RawMessage, path string) *expr.Template {
	t, problems := c.language.CompileTemplate(path, raw)
	for _, p := range problems {
		c.failed(p.Path, p.Err)
	}
	if t == nil {
		return nil
	}
	for _, token := range t.Tokens() {
		c.reads(i, token.Path, token.Program.References(), false)
	}
	c.steps[i].refs.Merge(t.References())
	return t
}

// outside compiles an expression in a language that knows no steps.
func (c *compiler) outside(language func() (*expr.Language, error), source, path string, condition bool) *expr.Program {
	if blank(source) {
		return nil
	}
	l, err := language()
	if err != nil {
		c.failed(path, err)
		return nil
	}
	compile := l.Compile
	if condition {
		compile = l.CompileCondition
	}
	p, err := compile(source)
	if err != nil {
		c.failed(path, err)
		return nil
	}
	return p
}

// filled compiles the tokens of a value that stands in no step.
func (c *compiler) filled(raw json.RawMessage, path string) *expr.Template {
	l, err := expr.ForInput()
	if err != nil {
		c.failed(path, err)
		return nil
	}
	t, problems := l.CompileTemplate(path, raw)
	for _, p := range problems {
		c.failed(p.Path, p.Err)
	}
	return t
}

// blank reports whether there is no expression; where there should be one, this
// was said when it was read.
func blank(source string) bool { return strings.TrimSpace(source) == "" }

// failed reports an expression that does not compile, at the very place within
// it if that can be found in the text.
func (c *compiler) failed(path string, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		c.At(path, "expression", "%v", err)
		return
	}
	c.AtText(path, e.Source, e.Line, e.Column, "expression", "%v", e)
}
