// Package program compiles the expressions of a definition, and checks when it is published that
// they read only what can exist.
//
//   - compile.go compiles the expressions of steps, acquire entries and start conditions.
//   - flow.go compiles what sets variables and what decides where an execution continues.
//   - wait.go compiles what steps wait for.
//   - compensation.go compiles compensations.
//   - trigger.go compiles what triggers make of a call, pipe.go what pipes make of a job.
//   - callback.go finds the places of the token of a callback, secret.go those of secrets.
//   - references.go checks what the expressions of steps read.
//   - paths.go knows the path of each expression in the document.
//   - compiled.go evaluates them for the engine.
package program

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Limits of the expressions of one definition.
const (
	maxExpressions    = 1000
	maxExpressionText = 64 << 10 // total bytes of all expressions
)

// Reporter collects problems of expressions: at the path of a value, or at a line and column of the
// source that is part of that value.
type Reporter interface {
	ReportAt(path, code, format string, args ...any)
	ReportAtText(path, source string, line, column int, code, format string, args ...any)
}

// compiler compiles what it can and reports the rest.
type compiler struct {
	Reporter
	definition *spec.Definition
	flat       []*spec.Step
	positions  []stepPosition
	index      map[string]int // of steps, by label
	language   *expr.Language // of the expressions in steps
	variables  int            // that steps set
	items      []string       // names of items, besides item

	afterStep      bool     // the results of branches are compiled, when the nested steps are over
	inLoop         int      // the step whose loop or foreach is compiled, whose rounds or items have a number here; -1 for none
	divides        bool     // the expression of a rollout is compiled, which is evaluated for each entity
	sealed         []string // names of the sealed parameters
	handlesFailure bool     // the conditions of an onFailure are compiled, when the step has failed
	*Compiled
}

var identifierRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Compile compiles every expression of a definition. If it reports anything, the result
// must not be used.
func Compile(d *spec.Definition, report Reporter) *Compiled {
	c := &compiler{Reporter: report, definition: d, flat: d.FlatSteps(), positions: stepPositions(d), index: map[string]int{}, inLoop: -1, sealed: workflow.SealedProperties(d.Parameters), Compiled: &Compiled{}}
	c.steps = make([]step, len(c.flat)+1) // the last one holds the output
	c.acquires = make([]acquire, len(d.Acquisitions()))
	if count, text := countExpressions(d); count > maxExpressions || text > maxExpressionText {
		c.ReportAt("steps", "limit", "at most %d expressions of together %d bytes", maxExpressions, maxExpressionText)
		return c.Compiled
	}
	// Expressions know the labels of all steps, so that reading a later step is a different error
	// than a misspelled label.
	var labels []string
	for i, s := range c.flat {
		c.steps[i].label = s.Label
		if _, taken := c.index[s.Label]; !taken {
			c.index[s.Label] = i
		}
		if identifierRE.MatchString(s.Label) && !expr.IsReserved(s.Label) {
			labels = append(labels, s.Label)
		}
	}
	c.items = c.itemNames()
	var err error
	if c.language, err = expr.NewLanguage(labels, c.items...); err != nil {
		c.ReportAt("steps", "expression", "%v", err)
		return c.Compiled
	}
	for i := range c.flat {
		c.compileStep(i)
	}
	c.findReachable()
	c.checkBranchVariables()
	c.compileOutput()
	c.compileAcquires()
	c.compileStart()
	c.compileTriggers()
	c.checkSealedStarts()
	c.compilePipes()
	c.compileOnEnd()
	return c.Compiled
}

// countExpressions returns the number of expressions and their bytes.
func countExpressions(d *spec.Definition) (count, text int) {
	add := func(source string) {
		if source != "" {
			count, text = count+1, text+len(source)
		}
	}
	for _, s := range d.FlatSteps() {
		add(s.Condition)
		for _, source := range s.Assert {
			add(source)
		}
		expr.EachToken(s.Parameters, add)
		if s.Repeat != nil {
			add(s.Repeat.While)
		}
		if s.Retry != nil {
			add(s.Retry.When)
		}
		if s.Reference != nil {
			expr.EachToken(s.Reference.ExecuteOnParameters, add)
			if len(s.Reference.Among) > 0 {
				expr.EachToken(textTemplate(s.Reference.Workflow), add)
			}
		}
		expr.EachToken(s.Set, add)
		for _, c := range slices.Concat(s.Switch, s.OnFailure) {
			add(c.When)
		}
		each := func(_, source string) { add(source) }
		eachWaitExpression(s, expr.EachToken, each, each)
		if s.Parallel != nil {
			for i := range s.Parallel.Branches {
				expr.EachToken(s.Parallel.Branches[i].Result, add)
			}
		}
		if s.Loop != nil {
			add(s.Loop.Over)
			add(s.Loop.While)
		}
		if s.Foreach != nil {
			add(s.Foreach.Items)
		}
		if s.Rollout != nil {
			add(s.Rollout.By)
		}
		if s.Compensate != nil {
			expr.EachToken(s.Compensate.Parameters, add)
		}
	}
	expr.EachToken(d.Output, add)
	for _, t := range d.Triggers.All() {
		eachTriggerExpression(t, func(_, source string) { add(source) })
	}
	eachPipeExpression(d, func(_ int, _, _, source string) { add(source) })
	eachFollowUp(d, func(_ workflow.EndKind, _ string, f *spec.FollowUp) { expr.EachToken(f.Parameters, add) })
	for _, a := range d.Acquisitions() {
		add(a.Query)
		add(a.IDsExpr)
		expr.EachToken(a.Parameters, add)
		if a.Expand != nil {
			add(a.Expand.IDsExpr)
		}
	}
	add(d.Config.StartWhen)
	add(d.Config.NotBefore)
	if l := d.Config.Concurrency; l != nil {
		add(l.Key)
	}
	if l := d.Config.Rate; l != nil {
		add(l.Key)
	}
	return count, text
}

func (c *compiler) compileStep(i int) {
	s, into, path := c.flat[i], &c.steps[i], c.positions[i].path
	if s.Foreach != nil {
		c.inLoop = i
	}
	into.condition = c.compileCondition(i, s.Condition, path+".condition", false)
	for n, source := range s.Assert {
		if p := c.compileCondition(i, source, path+".assert["+strconv.Itoa(n)+"]", false); p != nil {
			into.asserts = append(into.asserts, p)
		}
	}
	at := path + ParametersField(s)
	parameters := c.takeCallbackTokens(i, at)
	if s.FunctionBlock != "" {
		var sealed []workflow.SecretPlace
		if s.HTTP == nil {
			parameters, sealed = c.takeSealed(parameters)
		}
		parameters, into.secrets = c.takeSecrets(parameters, at)
		into.secrets = append(into.secrets, sealed...)
		c.checkSign(s, at)
	}
	into.parameters, into.rawParameters = c.compileTemplate(i, parameters, at), s.RawParameters
	if s.Reference != nil && len(s.Reference.ExecuteOnParameters) > 0 {
		into.selector = c.compileTemplate(i, s.Reference.ExecuteOnParameters, path+".workflowReference.executeOnParameters")
	}
	if s.Reference != nil && len(s.Reference.Among) > 0 {
		into.starts = c.compileTemplate(i, textTemplate(s.Reference.Workflow), path+".workflowReference.workflow")
	}
	c.inLoop = -1
	if s.Repeat != nil {
		into.repeatWhile = c.compileCondition(i, s.Repeat.While, path+".repeat.while", true)
	}
	if s.Retry != nil {
		into.retryWhen = c.compileOutsideSteps(expr.FailureLanguage, s.Retry.When, path+".retry.when", true)
	}
	c.compileLoop(i)
	c.compileRollout(i)
	c.compileFlow(i)
	c.compileWait(i)
	c.compileCompensation(i)
}

// compileCondition compiles a condition of step i. With afterStep it is evaluated after the
// step run.
func (c *compiler) compileCondition(i int, source, path string, afterStep bool) *expr.Program {
	return c.compileExpr(i, source, path, c.language.CompileCondition, afterStep)
}

// compileExpr compiles an expression of step i, checks what it reads, and records that for the
// step.
func (c *compiler) compileExpr(i int, source, path string, compile func(string) (*expr.Program, error), afterStep bool) *expr.Program {
	if blank(source) {
		return nil
	}
	p, err := compile(source)
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	c.checkSealedRead(path, source)
	c.checkReferences(i, path, p.References(), afterStep)
	c.steps[i].refs.Merge(p.References())
	return p
}

// compileTemplate compiles the tokens of a value of step i.
func (c *compiler) compileTemplate(i int, raw json.RawMessage, path string) *expr.Template {
	t, problems := c.language.CompileTemplate(path, raw)
	for _, p := range problems {
		c.reportError(p.Path, p.Err)
	}
	if t == nil {
		return nil
	}
	c.checkSealedTemplate(t)
	for _, token := range t.Tokens() {
		c.checkReferences(i, token.Path, token.Program.References(), c.afterStep)
	}
	c.steps[i].refs.Merge(t.References())
	return t
}

// compileOutsideSteps compiles an expression in a language without steps.
func (c *compiler) compileOutsideSteps(language func() (*expr.Language, error), source, path string, condition bool) *expr.Program {
	if blank(source) {
		return nil
	}
	c.checkSealedRead(path, source)
	l, err := language()
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	compile := l.Compile
	if condition {
		compile = l.CompileCondition
	}
	p, err := compile(source)
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	return p
}

// compileParameterTemplate compiles the tokens of a value outside steps.
func (c *compiler) compileParameterTemplate(raw json.RawMessage, path string) *expr.Template {
	return c.compileTemplateOutsideSteps(expr.ParameterLanguage, raw, path)
}

// compileTemplateOutsideSteps compiles the tokens of a value in a language without steps.
func (c *compiler) compileTemplateOutsideSteps(language func() (*expr.Language, error), raw json.RawMessage, path string) *expr.Template {
	l, err := language()
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	t, problems := l.CompileTemplate(path, raw)
	for _, p := range problems {
		c.reportError(p.Path, p.Err)
	}
	c.checkSealedTemplate(t)
	return t
}

// compileAcquires compiles the acquire entries. Their expressions read parameters. Those of expand
// also read each entity already in the scope.
func (c *compiler) compileAcquires() {
	paths := AcquirePaths(c.definition)
	for i, a := range c.definition.Acquisitions() {
		into, path := &c.acquires[i], paths[i]
		if !blank(a.Query) {
			if _, err := expr.CompileQuery(a.Query); err != nil {
				c.reportError(path+".query", err)
			}
		}
		into.ids = a.IDs
		into.idsOf = c.compileOutsideSteps(expr.ParameterLanguage, a.IDsExpr, path+".ids", false)
		if a.Expand != nil {
			into.expand = c.compileOutsideSteps(expr.ExpandLanguage, a.Expand.IDsExpr, path+".expand.ids", false)
		}
		into.parameters, into.rawParameters = c.compileParameterTemplate(a.Parameters, path+".parameters"), a.RawParameters
	}
}

// compileStart compiles the conditions under which an execution may start.
func (c *compiler) compileStart() {
	config := &c.definition.Config
	c.startWhen = c.compileOutsideSteps(expr.StartLanguage, config.StartWhen, "config.startWhen", true)
	c.notBefore = c.compileParameterText(config.NotBefore, "config.notBefore")
	if l := config.Concurrency; l != nil {
		c.slotKey = c.compileParameterText(l.Key, "config.concurrency.key")
	}
	if l := config.Rate; l != nil {
		c.rateKey = c.compileParameterText(l.Key, "config.rate.key")
	}
}

// compileParameterText compiles text with expressions over the parameters; nil for none.
func (c *compiler) compileParameterText(text, path string) *expr.Template {
	if blank(text) {
		return nil
	}
	raw, err := workflow.EncodeJSON(strings.TrimSpace(text))
	if err != nil {
		c.reportError(path, err)
		return nil
	}
	return c.compileParameterTemplate(raw, path)
}

// blank reports whether there is no expression. A missing required one was reported when the
// definition was read.
func blank(source string) bool { return strings.TrimSpace(source) == "" }

// reportError reports an expression that does not compile, at the exact position within it if the
// text has it.
func (c *compiler) reportError(path string, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		c.ReportAt(path, "expression", "%v", err)
		return
	}
	if _, isStep := c.index["callback"]; !isStep && callbackRE.MatchString(e.Source) {
		c.ReportAtText(path, e.Source, e.Line, e.Column, "reference", "%s", aboutCallback)
		return
	}
	if secretRE.MatchString(e.Source) && !hidesSecrets(c.definition) {
		c.ReportAtText(path, e.Source, e.Line, e.Column, "reference", "%s", aboutSecret)
		return
	}
	c.ReportAtText(path, e.Source, e.Line, e.Column, "expression", "%v", e)
}
