package expr

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// Limits of one expression.
const (
	MaxSource = 4 << 10 // bytes
	maxCost   = 1_000_000
)

// Error is an expression that does not compile or that has no value here.
type Error struct {
	Source  string
	Line    int // from 1; 0 if not known
	Column  int // from 1
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%q: %s", e.Source, e.Message) }

// References is what an expression reads, so that no more has to be loaded.
type References struct {
	Labels []string // steps whose results it reads, sorted

	// Own are the labels read as LABEL.result, which of a step on entities exists
	// only for the job's own entity; All those read as LABEL.results.
	Own, All []string

	Entity bool // it reads the job's entity
}

// Merge adds o.
func (r *References) Merge(o References) {
	r.Labels = union(r.Labels, o.Labels)
	r.Own = union(r.Own, o.Own)
	r.All = union(r.All, o.All)
	r.Entity = r.Entity || o.Entity
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	refs    References
}

// Source is the expression as written.
func (p *Program) Source() string { return p.source }

// References is what it reads.
func (p *Program) References() References { return p.refs }

// names are the variables that every expression sees besides step labels.
var names = []string{"parameters", "entity", "steps", "execution"}

// Reserved reports whether a word cannot be a step's label, because expressions
// use it for something else.
func Reserved(word string) bool {
	return slices.Contains(names, word) || slices.Contains(keywords, word)
}

// keywords of CEL, those it keeps for later included, and its type names.
var keywords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
	"loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint",
}

// Compile compiles an expression that may read the results of the steps named.
func Compile(labels []string, source string) (*Program, error) {
	if strings.TrimSpace(source) == "" {
		return nil, &Error{Source: source, Message: "the expression is empty"}
	}
	if len(source) > MaxSource {
		return nil, &Error{Source: source[:40] + "...", Message: fmt.Sprintf("an expression holds at most %d bytes", MaxSource)}
	}
	env, err := environment(labels)
	if err != nil {
		return nil, err
	}
	compiled, issues := env.Compile(source)
	if issues.Err() != nil {
		e := &Error{Source: source, Message: issues.Err().Error()}
		if all := issues.Errors(); len(all) > 0 {
			e.Message = all[0].Message
			e.Line, e.Column = all[0].Location.Line(), all[0].Location.Column()+1
		}
		return nil, e
	}
	program, err := env.Program(compiled, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &Error{Source: source, Message: err.Error()}
	}
	return &Program{source, program, references(compiled, labels)}, nil
}

func environment(labels []string) (*cel.Env, error) {
	options := []cel.EnvOption{ext.Strings(), cel.CrossTypeNumericComparisons(true), cel.ParserRecursionLimit(100)}
	for _, name := range slices.Concat(names, labels) {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewEnv(options...)
}

// references walks the expression for what it reads. A label used in any other
// way than LABEL.result or LABEL.results counts as both.
func references(compiled *cel.Ast, labels []string) References {
	var r References
	seen := map[int64]bool{} // identifiers that a selection has accounted for
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			s := e.AsSelect()
			if s.Operand().Kind() != ast.IdentKind || !slices.Contains(labels, s.Operand().AsIdent()) {
				return
			}
			label := s.Operand().AsIdent()
			switch s.FieldName() {
			case "result":
				r.Merge(References{Labels: []string{label}, Own: []string{label}})
				seen[s.Operand().ID()] = true
			case "results":
				r.Merge(References{Labels: []string{label}, All: []string{label}})
				seen[s.Operand().ID()] = true
			}
		case ast.IdentKind:
			name := e.AsIdent()
			switch {
			case name == "entity":
				r.Entity = true
			case slices.Contains(labels, name) && !seen[e.ID()]:
				r.Merge(References{Labels: []string{name}, Own: []string{name}, All: []string{name}})
			}
		}
	}))
	return r
}

// Eval is the value of the expression as JSON would hold it: nil, bool, int64,
// uint64, float64, string, []any or map[string]any. An error says that it has
// none here, and names the expression.
func (p *Program) Eval(s Scope) (any, error) {
	value, _, err := p.program.Eval(s.activation())
	if err != nil {
		return nil, &Error{Source: p.source, Message: err.Error()}
	}
	native, err := fromCEL(value)
	if err != nil {
		return nil, &Error{Source: p.source, Message: err.Error()}
	}
	return native, nil
}

// EvalBool is the value of a condition; any other type is an error.
func (p *Program) EvalBool(s Scope) (bool, error) {
	value, _, err := p.program.Eval(s.activation())
	if err != nil {
		return false, &Error{Source: p.source, Message: err.Error()}
	}
	b, ok := value.(types.Bool)
	if !ok {
		return false, &Error{Source: p.source, Message: fmt.Sprintf("the value is %s, not bool", value.Type().TypeName())}
	}
	return bool(b), nil
}
