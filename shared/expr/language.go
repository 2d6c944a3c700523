package expr

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"github.com/lockstep-run/lockstep/shared/expr/limits"
)

// Limits of one expression. The cost lets a global step look at the results of
// ten thousand entities. [bounds.MaxSize] is of every value; without it a few
// nested macros build a value of astronomical size from nothing, at next to no
// cost.
//
// The cost bounds the time too, to about a tenth of a second; no clock decides
// what an expression comes to. A query is evaluated for each entity there is, so
// it has to do with less.
const (
	MaxSource    = 4 << 10 // bytes
	maxCost      = 1_000_000
	maxQueryCost = 10_000
	maxNesting   = 32 // of an expression; what nests takes long to check
)

// variableNames are the variables that every expression sees besides step labels.
var variableNames = []string{"parameters", "entity", "steps", "execution"}

// keywords of CEL, those it keeps for later included, and its type names.
var keywords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
	"loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint",
}

// IsReserved reports whether a word cannot be a step's label, because expressions
// use it for something else.
func IsReserved(word string) bool {
	return slices.Contains(variableNames, word) || slices.Contains(keywords, word)
}

// Language compiles the expressions of one definition. Making it costs about as
// much as compiling an expression, so it is made once for all of them. It is
// safe for concurrent use.
type Language struct {
	env       *cel.Env
	labels    []string
	costLimit uint64 // at most, of one evaluation
}

// NewLanguage makes the language that knows the results of the steps named.
func NewLanguage(labels []string) (*Language, error) {
	labels = union(labels, nil)
	for _, label := range labels {
		if IsReserved(label) {
			return nil, fmt.Errorf("%q cannot be a label, it means something else", label)
		}
	}
	return newLanguage(labels, slices.Concat(variableNames, labels))
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
	return &Language{env, labels, maxCost}, nil
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

// Compile compiles an expression of any type.
func (l *Language) Compile(source string) (*Program, error) {
	compiled, err := l.check(source)
	if err != nil {
		return nil, err
	}
	return l.program(source, compiled)
}

// CompileCondition compiles an expression that has to be a bool. What can only
// be known when it is evaluated is checked then.
func (l *Language) CompileCondition(source string) (*Program, error) {
	compiled, err := l.check(source)
	if err != nil {
		return nil, err
	}
	if t := compiled.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, &Error{Source: source, Line: 1, Column: 1, Message: fmt.Sprintf("the value is %s, not bool", t)}
	}
	return l.program(source, compiled)
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
		// What has no place, such as nesting too deep, is reported at line -1.
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
	return &Program{source, program, l.references(compiled)}, nil
}
