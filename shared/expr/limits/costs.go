package limits

import (
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Costs say what a call costs. The library's own take a call that walks a list
// or a text for one step, above all where types are only known when the
// expression is evaluated, as they are here; so that a million steps were
// minutes. One unit is a tenth of a microsecond or so, whatever the call.
type Costs struct{}

// elementsPerUnit is how many characters, or items of a list, go into one unit.
const elementsPerUnit = 10

// maxDepth is how deep a value may nest.
const maxDepth = 1000

// SizeOptions measures values alike for the cost and for the size limit: the library
// keeps a measured size with the value.
var SizeOptions = []types.SizeCalculatorOption{
	types.SizeCalculatorMaxDepth(maxDepth),
	types.SizeCalculatorMaxTraversal(MaxSize),
	types.SizeCalculatorStringUnitLength(1),
}

var sizeCalculator = types.NewSizeCalculator(SizeOptions...)

// CallCost is the price of a call, nil to leave it to the library.
func (Costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	units := 1
	switch function {
	case operators.In, operators.OldIn:
		if list, ok := args[len(args)-1].(traits.Lister); ok {
			units += sizeOf(list)/elementsPerUnit + sizeOf(args[0])/elementsPerUnit
		}
	case operators.Add:
		units += textLength(result) / elementsPerUnit
		if _, growing := args[0].(traits.MutableLister); !growing { // a macro's, which is not walked
			units += listLength(result) / elementsPerUnit
		}
	case operators.Equals, operators.NotEquals:
		units += min(sizeOf(args[0]), sizeOf(args[1])) / elementsPerUnit
	case overloads.Matches:
		units += matchCost(args)
	case "format", "strings.quote":
		units += (textLength(result) + sizeOf(args[len(args)-1])) / 2
	case "replace", "join", "split":
		return nil // the library charges for what comes out
	default:
		for _, a := range args {
			units += textLength(a) / elementsPerUnit
		}
		units += textLength(result) / elementsPerUnit
	}
	total := uint64(units)
	return &total
}

// SearchCosts are the prices of the searches, which the library knows as slower
// ones.
func SearchCosts() []cost.TrackerOption {
	var all []cost.TrackerOption
	for id := range linearSearches {
		all = append(all, cost.OverloadTracker(id, func(args []ref.Val, result ref.Val) *uint64 {
			return Costs{}.CallCost("", id, args, result)
		}))
	}
	return all
}

// sizeOf is the size of a value, those that it holds included.
func sizeOf(v ref.Val) int {
	switch v.(type) {
	case types.String, types.Bytes:
		return textLength(v)
	case traits.Lister, traits.Mapper:
		return int(sizeCalculator.AggregateSize(v))
	}
	return 1
}

// listLength is how many items a list has.
func listLength(v ref.Val) int {
	list, ok := v.(traits.Lister)
	if !ok {
		return 0
	}
	n, _ := list.Size().(types.Int)
	return int(n)
}
