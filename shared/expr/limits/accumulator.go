package limits

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/interpreter"
	"cel.dev/cel-go/parser"
)

// ExemptAccumulators hides from the size limit the lists that macros are filling. The
// library would measure them anew for each item, and so take quadratic time;
// what is put into them and what they become in the end are measured anyway.
func ExemptAccumulators(compiled *cel.Ast) interpreter.InterpretableDecoratorV2 {
	growing := map[int64]bool{} // by the ids of expressions
	ast.PostOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind: // no author can write this name
			growing[e.ID()] = e.AsIdent() == parser.HiddenAccumulatorName
		case ast.CallKind:
			switch call := e.AsCall(); call.FunctionName() {
			case operators.Add:
				growing[e.ID()] = growing[call.Args()[0].ID()]
			case operators.Conditional:
				growing[e.ID()] = growing[call.Args()[1].ID()] || growing[call.Args()[2].ID()]
			}
		}
	}))
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if growing[i.ID()] {
			return &accumulator{i}, nil
		}
		return i, nil
	}
}

// accumulator is neither an attribute nor a call to those who look at its type.
type accumulator struct{ interpreter.InterpretableV2 }
