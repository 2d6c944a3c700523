package expr

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Error reports that an expression does not compile or cannot be evaluated.
type Error struct {
	Source  string
	Line    int // from 1, within the expression; 0 if unknown
	Column  int // from 1, in characters
	Message string

	TooLarge bool // its value is larger than a value may be
}

// maxShown is how many characters of an expression an error shows.
const maxShown = 200

func (e *Error) Error() string {
	source := []rune(e.Source)
	if len(source) > maxShown {
		return fmt.Sprintf("%q...: %s", string(source[:maxShown]), e.Message)
	}
	return fmt.Sprintf("%q: %s", e.Source, e.Message)
}

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	refs    References
	output  *cel.Type
}

// Compile compiles one expression of a definition whose steps have the given labels. Use
// a [Language] for more than one.
func Compile(labels []string, source string) (*Program, error) {
	l, err := NewLanguage(labels)
	if err != nil {
		return nil, err
	}
	return l.Compile(source)
}

// Source returns the expression as written.
func (p *Program) Source() string { return p.source }

// Kind returns the type of the value as far as it is known before the expression is evaluated:
// string, number, boolean, datetime or json, or "" if any of them is possible.
func (p *Program) Kind() string {
	switch p.output.Kind() {
	case types.StringKind, types.BytesKind, types.DurationKind:
		return "string"
	case types.IntKind, types.UintKind, types.DoubleKind:
		return "number"
	case types.BoolKind:
		return "boolean"
	case types.TimestampKind:
		return "datetime"
	case types.ListKind, types.MapKind:
		return "json"
	}
	return ""
}

// References returns what the expression reads.
func (p *Program) References() References { return p.refs }

// Eval evaluates the expression to a JSON value: nil, bool, int64, uint64, float64, string,
// []any or map[string]any. The error is an [*Error], which names the expression.
func (p *Program) Eval(s Scope) (any, error) {
	remaining := maxResultSize
	return p.evalWithin(s, &remaining)
}

// evalWithin is Eval with remaining bytes for the result.
func (p *Program) evalWithin(s Scope, remaining *int) (any, error) {
	value, _, err := p.evalCEL(s)
	if err != nil {
		return nil, err
	}
	native, err := fromCEL(value, remaining)
	if err != nil {
		return nil, &Error{Source: p.source, Message: err.Error(), TooLarge: errors.Is(err, errTooLarge)}
	}
	return native, nil
}

// EvalBool evaluates a condition. Any other value than a bool is an error.
func (p *Program) EvalBool(s Scope) (bool, error) {
	b, _, err := p.evalBool(s)
	return b, err
}

func (p *Program) evalBool(s Scope) (is bool, cost uint64, err error) {
	value, cost, err := p.evalCEL(s)
	if err != nil {
		return false, cost, err
	}
	b, ok := value.(types.Bool)
	if !ok {
		return false, cost, &Error{Source: p.source, Message: fmt.Sprintf("the value is %s, not bool", value.Type().TypeName())}
	}
	return bool(b), cost, nil
}

// Cost returns the cost of evaluating the expression, also if that fails.
func (p *Program) Cost(s Scope) uint64 {
	_, cost, _ := p.evalCEL(s)
	return cost
}

func (p *Program) evalCEL(s Scope) (value ref.Val, cost uint64, err error) {
	value, details, err := p.program.Eval(s.activation(&p.refs))
	if details != nil {
		if actual := details.ActualCost(); actual != nil {
			cost = *actual
		}
	}
	if s.Cost != nil {
		*s.Cost += cost
	}
	if err != nil {
		return nil, cost, &Error{Source: p.source, Message: err.Error()}
	}
	return value, cost, nil
}
