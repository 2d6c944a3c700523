// Package expr evaluates what authors write in definitions: CEL expressions, and JSON
// templates whose strings hold ${...} tokens.
//
//   - language.go compiles expressions and knows the variables of each language: of
//     steps, of parameters, of failures, of start conditions.
//   - program.go is one compiled expression, query.go one that selects entities, and
//     references.go lists what an expression reads.
//   - scope.go is what an expression sees: parameters, entity, step results, steps and
//     execution.
//   - template.go fills a JSON value. A string that is one token keeps the value's type.
//   - value.go converts between JSON and CEL.
//   - Package limits bounds what CEL's functions may cost.
//
// Everything is limited: the length of an expression, the cost of evaluating it, the size
// of every intermediate value and of the result. Nothing that an author writes is
// executed as code. The limits are of cost and size, never of time, so that evaluating
// an expression again gives the same value.
package expr

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"

	"github.com/lockstep-run/lockstep/shared/expr/limits"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Limits of one expression. maxCost lets a global step read the results of ten thousand
// entities. It also bounds the time, to about a tenth of a second, without a clock that
// could change the value. A query, an expansion and a condition for retries may cost less:
// each is evaluated for every entity or job, often in one go.
//
// [limits.MaxSize] bounds every value. Without it a few nested macros could build a
// value of astronomical size at almost no cost.
const (
	MaxSource    = 4 << 10 // bytes
	maxCost      = 1_000_000
	maxQueryCost = 10_000 // of one entity or job
	maxNesting   = 32     // levels; checking a deeply nested expression takes long
)

// variableNames are the variables of every expression in a step, besides the step
// labels.
var variableNames = []string{"parameters", "entity", "steps", "execution"}

// flowNames are further variables of every expression in a step. A label hides the variable of the
// same name, because definitions with such labels were published before the variable existed. New
// ones are refused.
var flowNames = []string{"vars", "context", "error", "item", "index", "resume"}

// IsFlowName reports whether a word is a variable that a label would hide.
func IsFlowName(word string) bool { return slices.Contains(flowNames, word) }

// placeholders are words with a meaning in templates, or in expressions that are not of a step. A
// label hides them, too.
var placeholders = []string{"secret", "callback", "now"}

// Hides reports whether a label of this name would hide something that definitions can refer to.
func Hides(word string) bool { return IsFlowName(word) || slices.Contains(placeholders, word) }

// keywords are CEL's keywords, its reserved words and its type names.
var keywords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
	"loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint",
}

// IsReserved reports whether a word cannot be a step label because it has another meaning in
// expressions.
func IsReserved(word string) bool {
	return slices.Contains(variableNames, word) || slices.Contains(keywords, word)
}

// Language compiles the expressions of one definition. Making one costs about as much
// as compiling an expression, so make it once for all of them. It is safe for
// concurrent use.
type Language struct {
	env       *cel.Env
	labels    []string
	values    []string // names of variables of the flow: flowNames and those of items
	costLimit uint64   // of one evaluation

	// programs are the expressions compiled so far, by source: a definition often says the same in
	// several places. It is nil in languages that do not belong to one definition.
	programs *sync.Map
}

// NewLanguage makes the language of a definition with the given step labels and item names. A
// variable with the name of a label is left out.
func NewLanguage(labels []string, items ...string) (*Language, error) {
	labels = union(labels, nil)
	for _, label := range labels {
		if IsReserved(label) {
			return nil, fmt.Errorf("%q cannot be a label: it has another meaning in expressions", label)
		}
	}
	values := union(flowNames, items)
	l, err := newLanguage(labels, union(slices.Concat(variableNames, values), labels))
	if err == nil {
		l.values, l.programs = values, &sync.Map{}
	}
	return l, err
}

func newLanguage(labels, variables []string, options ...cel.EnvOption) (*Language, error) {
	base, err := baseEnvironment()
	if err != nil {
		return nil, err
	}
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := base.Extend(options...)
	if err != nil {
		return nil, err
	}
	return &Language{env: env, labels: labels, costLimit: maxCost}, nil
}

var baseEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	env, err := cel.NewEnv(
		ext.Strings(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(maxNesting),
		cel.RegexProgramSizeLimit(limits.MaxPatternSize),
		cel.CustomTypeAdapter(celAdapter),
		cel.CostSizingStrategy(cost.AggregateSizingStrategy(limits.SizeOptions...)),
	)
	if err != nil {
		return nil, err
	}
	bindings, err := limits.LimitedFunctions(env)
	if err != nil {
		return nil, err
	}
	return env.Extend(bindings...)
})

var programOptions = []cel.ProgramOption{
	cel.CostTracking(limits.Costs{}),
	cel.CostTrackerOptions(limits.SearchCosts()...),
	cel.MemoryTracking(types.MemoryTrackerSizeCalculator(types.NewSizeCalculator(limits.SizeOptions...))),
	cel.MemoryLimit(limits.MaxSize),
	cel.EvalOptions(cel.OptOptimize),
	cel.CustomDecoratorV2(orderMapLiterals),
}

// Compile compiles an expression of any type. The error is an [*Error].
func (l *Language) Compile(source string) (*Program, error) {
	if l.programs != nil {
		if p, ok := l.programs.Load(source); ok {
			return p.(*Program), nil
		}
	}
	compiled, err := l.check(source)
	if err != nil {
		return nil, err
	}
	p, err := l.program(source, compiled)
	if err == nil && l.programs != nil {
		l.programs.Store(source, p)
	}
	return p, err
}

// CompileCondition compiles an expression that must be a bool. If the type is only known when the
// expression is evaluated, it is checked then.
func (l *Language) CompileCondition(source string) (*Program, error) {
	p, err := l.Compile(source)
	if err != nil {
		return nil, err
	}
	if t := p.output; !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, &Error{Source: source, Line: 1, Column: 1, Message: fmt.Sprintf("the value is %s, not bool", t)}
	}
	return p, nil
}

func (l *Language) check(source string) (*cel.Ast, error) {
	if strings.TrimSpace(source) == "" {
		return nil, &Error{Source: source, Message: "the expression is empty"}
	}
	if len(source) > MaxSource {
		return nil, &Error{Source: source, Message: fmt.Sprintf("an expression holds at most %d bytes", MaxSource)}
	}
	compiled, issues := l.env.Compile(source)
	if issues.Err() == nil {
		return compiled, nil
	}
	e := &Error{Source: source, Message: issues.Err().Error()}
	if all := issues.Errors(); len(all) > 0 {
		e.Message = plainMessage(all[0].Message)
		// An error without a position, such as nesting too deep, has line -1.
		if at := all[0].Location; at.Line() > 0 {
			e.Line, e.Column = at.Line(), at.Column()+1
		}
	}
	return nil, e
}

func (l *Language) program(source string, compiled *cel.Ast) (*Program, error) {
	options := []cel.ProgramOption{
		cel.CostLimit(l.costLimit), cel.CustomDecoratorV2(limits.ExemptAccumulators(compiled)), cel.CustomDecoratorV2(limits.LimitMatches(l.costLimit)),
	}
	program, err := l.env.Program(compiled, append(options, programOptions...)...)
	if err != nil {
		return nil, &Error{Source: source, Message: err.Error()}
	}
	return &Program{source, program, l.references(compiled), compiled.OutputType()}, nil
}

// The languages of expressions outside steps. Each knows only what exists when the
// expression is evaluated, so reading anything else is an error when the definition is
// published.
var (
	queryLanguage = sync.OnceValues(func() (*Language, error) {
		l, err := newLanguage(nil, []string{"entity"})
		if err == nil {
			l.costLimit = maxQueryCost
		}
		return l, err
	})
	parameterLanguage = sync.OnceValues(func() (*Language, error) { return newLanguage(nil, []string{"parameters"}) })
	expandLanguage    = sync.OnceValues(func() (*Language, error) {
		l, err := newLanguage(nil, []string{"parameters", "entity"})
		if err == nil {
			l.costLimit = maxQueryCost
		}
		return l, err
	})
	failureLanguage = sync.OnceValues(func() (*Language, error) {
		l, err := newLanguage(nil, []string{"error"}, cel.Variable("attempt", cel.IntType))
		if err == nil {
			l.costLimit = maxQueryCost
		}
		return l, err
	})
	callLanguage  = sync.OnceValues(func() (*Language, error) { return newLanguage(nil, callNames) })
	callNames     = []string{"body", "headers", "query"}
	eventLanguage = sync.OnceValues(func() (*Language, error) { return newLanguage(nil, []string{"event"}) })
	pipeLanguage  = sync.OnceValues(func() (*Language, error) {
		l, err := newLanguage(nil, pipeNames)
		if err == nil {
			l.costLimit = maxQueryCost
		}
		return l, err
	})
	endLanguage = sync.OnceValues(func() (*Language, error) {
		return newLanguage(nil, []string{"parameters", "execution", "error", "output"})
	})
	pipeNames     = []string{"result", "error", "entity", "item", "execution", "job"}
	startLanguage = sync.OnceValues(func() (*Language, error) {
		return newLanguage(nil, []string{"parameters"}, inventoryOptions...)
	})
	inventoryOptions = []cel.EnvOption{
		cel.Variable("now", cel.TimestampType),
		cel.Function(inventoryFunction, cel.Overload("entity_type_id", []*cel.Type{cel.StringType, cel.StringType}, cel.DynType, cel.LateFunctionBinding())),
	}
)

// WithData returns the language with the variable data, one of [Scope.Variables]. A label hides it.
func (l *Language) WithData() (*Language, error) {
	if slices.Contains(l.labels, "data") {
		return l, nil
	}
	env, err := l.env.Extend(cel.Variable("data", cel.DynType))
	if err != nil {
		return nil, err
	}
	return &Language{env: env, labels: l.labels, values: l.values, costLimit: l.costLimit}, nil
}

// WithInventory returns the language with now and the function entity(type, id), as in
// [StartLanguage]. A label hides now.
func (l *Language) WithInventory() (*Language, error) {
	options := inventoryOptions
	if slices.Contains(l.labels, "now") {
		options = options[1:]
	}
	env, err := l.env.Extend(options...)
	if err != nil {
		return nil, err
	}
	return &Language{env: env, labels: l.labels, values: l.values, costLimit: l.costLimit}, nil
}

// ParameterLanguage returns the language over parameters alone.
func ParameterLanguage() (*Language, error) { return parameterLanguage() }

// ExpandLanguage returns the language over parameters and one entity of the scope.
func ExpandLanguage() (*Language, error) { return expandLanguage() }

// FailureLanguage returns the language over error and attempt. [FailureScope] has their values.
func FailureLanguage() (*Language, error) { return failureLanguage() }

// CallLanguage returns the language over the call of a trigger: body, headers and query. They are
// variables of [Scope.Variables].
func CallLanguage() (*Language, error) { return callLanguage() }

// EventLanguage returns the language over an event that a trigger accepts: the variable event of
// [Scope.Variables].
func EventLanguage() (*Language, error) { return eventLanguage() }

// PipeLanguage returns the language over a job that has ended: result, error, entity, item,
// execution and job. They are variables of [Scope.Variables].
func PipeLanguage() (*Language, error) { return pipeLanguage() }

// EndLanguage returns the language over an execution that has ended: parameters, and the variables
// execution, error and output of [Scope.Variables].
func EndLanguage() (*Language, error) { return endLanguage() }

// rowName is the variable that expressions over rows read besides columns.
const rowName = "row"

// IsRowName reports whether a word cannot be a column, because it has another meaning in expressions
// over rows.
func IsRowName(word string) bool {
	return word == rowName || slices.Contains(keywords, word)
}

// RowLanguage returns the language over a row of a table: its columns, which have the given names,
// and row, which has everything else known about it. They are variables of [Scope.Variables].
func RowLanguage(columns []string) (*Language, error) {
	l, err := newLanguage(nil, union(columns, []string{rowName}))
	if err == nil {
		l.costLimit = maxQueryCost
	}
	return l, err
}

// StartLanguage returns the language over parameters, now and the function entity(type, id). now is
// one of [Scope.Variables]. The function calls [Scope.LookupEntity].
func StartLanguage() (*Language, error) { return startLanguage() }

// inventoryFunction is the name of the function that reads the inventory.
const inventoryFunction = "entity"

// maxLookups bounds the entities that one evaluation may read from the inventory.
const maxLookups = 100

// ResolveFunction returns the function that reads the inventory. One evaluation reads
// each entity once.
func (a *activation) ResolveFunction(name string) (functions.LateBoundOp, bool) {
	if name != inventoryFunction || a.LookupEntity == nil {
		return nil, false
	}
	return func(_ string, args ...ref.Val) ref.Val {
		kind, isText := args[0].(types.String)
		id, idIsText := args[1].(types.String)
		if !isText || !idIsText {
			return types.NewErr("entity(type, id) takes two strings")
		}
		key := string(kind) + "/" + string(id)
		if value, ok := a.lookups[key]; ok {
			return value
		}
		if len(a.lookups) >= maxLookups {
			return types.NewErr("an expression can read at most %d entities", maxLookups)
		}
		if a.lookups == nil {
			a.lookups = map[string]ref.Val{}
		}
		a.lookups[key] = a.lookup(string(kind), string(id), key)
		return a.lookups[key]
	}, true
}

func (a *activation) lookup(kind, id, key string) ref.Val {
	attributes, ok := a.LookupEntity(kind, id)
	if !ok {
		return types.NewErr("the inventory has no entity %s", key)
	}
	e := Entity{Type: kind, ID: id, Attributes: attributes}
	return adaptValue(e.attributesWithIdentity())
}

// UnwrapToken returns the expression if a text is a single ${...} token, and the text itself
// otherwise.
func UnwrapToken(text string) (source string, token bool) {
	parts, ok := Split(strings.TrimSpace(text))
	if ok && len(parts) == 1 && parts[0].Token {
		return parts[0].Text, true
	}
	return text, false
}

// ParameterScope returns a scope that has only parameters.
func ParameterScope(parameters json.RawMessage) Scope {
	return Scope{Context: NewStepContext(parameters, nil, nil, nil)}
}

// FailureScope returns the scope of [FailureLanguage] for a failed attempt of a job. Attempts count
// from 1.
func FailureScope(attempt int, f *workflow.Failure) Scope {
	failure := map[string]any{}
	if f != nil {
		failure = map[string]any{
			"code": f.Code, "message": f.Message, "retryable": f.Retryable,
			"details": decodeJSON(f.Details, map[string]any{}),
		}
	}
	return Scope{Variables: map[string]any{"error": adaptValue(failure), "attempt": int64(attempt)}}
}

var (
	unexpectedRE = regexp.MustCompile(`^Syntax error: (?:mismatched input|extraneous input|no viable alternative at input|token recognition error at:) '(.*?)'(?: expecting .*)?$`)
	missingRE    = regexp.MustCompile(`^Syntax error: missing ('[^']*'|\S+) at '(.*)'$`)
)

// plainMessage rewords a syntax error to name the unexpected token. The parser lists
// every token that it would have accepted instead.
func plainMessage(message string) string {
	const end = "<EOF>"
	if m := missingRE.FindStringSubmatch(message); m != nil {
		if m[2] == end {
			return m[1] + " is missing at the end of the expression"
		}
		return m[1] + " is missing before '" + m[2] + "'"
	}
	if m := unexpectedRE.FindStringSubmatch(message); m != nil {
		switch token := strings.TrimSpace(m[1]); token {
		case end:
			return "unexpected end of the expression"
		case "=":
			return "unexpected '='; write == to compare"
		default:
			return "unexpected '" + token + "'"
		}
	}
	return strings.Replace(message, "Syntax error: ", "syntax error: ", 1)
}
