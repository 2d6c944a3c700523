// Package limits bounds what CEL's functions may cost in time and memory. The library
// charges for a call after it is done, and charges one step for many calls that walk a
// whole list.
//
//   - costs.go estimates what a call costs, and keeps the size limit from taking
//     quadratic time.
//   - functions.go computes the length of a result before it is built.
//   - pattern.go does the same for regular expressions.
package limits

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
	"cel.dev/cel-go/parser"
)

// Costs estimates what a call costs. The library's own estimate counts many calls that
// walk a list or a string as one step, above all where types are only known at
// evaluation, as here. A million such steps take minutes. One unit is about a tenth of a
// microsecond, for every call.
type Costs struct{}

// elementsPerUnit is how many characters or list items one unit pays for.
const elementsPerUnit = 10

// maxDepth is how many levels a value may nest.
const maxDepth = 1000

// SizeOptions measures values the same way for the cost and for the size limit, because
// the library keeps a measured size with the value.
var SizeOptions = []types.SizeCalculatorOption{
	types.SizeCalculatorMaxDepth(maxDepth),
	types.SizeCalculatorMaxTraversal(MaxSize),
	types.SizeCalculatorStringUnitLength(1),
}

var sizeCalculator = types.NewSizeCalculator(SizeOptions...)

// CallCost returns the cost of a call in units. Nil leaves it to the library.
func (Costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	units := 1
	switch function {
	case operators.In, operators.OldIn:
		if list, ok := args[len(args)-1].(traits.Lister); ok {
			units += sizeOf(list)/elementsPerUnit + sizeOf(args[0])/elementsPerUnit
		}
	case operators.Add:
		units += textLength(result) / elementsPerUnit
		if _, growing := args[0].(traits.MutableLister); !growing { // of a macro, which appends without walking it
			units += listLength(result) / elementsPerUnit
		}
	case operators.Equals, operators.NotEquals:
		units += min(sizeOf(args[0]), sizeOf(args[1])) / elementsPerUnit
	case overloads.Matches:
		units += matchCost(args)
	case "format", "strings.quote":
		units += (textLength(result) + sizeOf(args[len(args)-1])) / 2
	case "replace", "join", "split":
		return nil // the library charges for the result
	default:
		for _, a := range args {
			units += textLength(a) / elementsPerUnit
		}
		units += textLength(result) / elementsPerUnit
	}
	total := uint64(units)
	return &total
}

// SearchCosts returns the costs of linearSearches. The library assumes its own slower functions.
func SearchCosts() []cost.TrackerOption {
	var all []cost.TrackerOption
	for id := range linearSearches {
		all = append(all, cost.OverloadTracker(id, func(args []ref.Val, result ref.Val) *uint64 {
			return Costs{}.CallCost("", id, args, result)
		}))
	}
	return all
}

// sizeOf returns the size of a value with everything in it.
func sizeOf(v ref.Val) int {
	switch v.(type) {
	case types.String, types.Bytes:
		return textLength(v)
	case traits.Lister, traits.Mapper:
		return int(sizeCalculator.AggregateSize(v))
	}
	return 1
}

// listLength returns the number of items of a list, 0 for anything else.
func listLength(v ref.Val) int {
	list, ok := v.(traits.Lister)
	if !ok {
		return 0
	}
	n, _ := list.Size().(types.Int)
	return int(n)
}

// ExemptAccumulators exempts the lists that macros are filling from the size limit. The
// library would measure a list again for each item, which takes quadratic time. The
// items and the finished list are measured anyway.
func ExemptAccumulators(compiled *cel.Ast) interpreter.InterpretableDecoratorV2 {
	growing := map[int64]bool{} // by expression id
	ast.PostOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind: // authors cannot write this name
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

// accumulator hides the type of an expression, so that the library treats it neither as
// an attribute nor as a call.
type accumulator struct{ interpreter.InterpretableV2 }
