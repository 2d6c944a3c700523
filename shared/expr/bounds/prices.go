package bounds

import (
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Prices say what a call costs. The library's own take a call that walks a list
// or a text for one step, above all where types are only known when the
// expression is evaluated, as they are here; so that a million steps were
// minutes. One unit is a tenth of a microsecond or so, whatever the call.
type Prices struct{}

// walked is how many characters, or items of a list, go into one unit.
const walked = 10

// maxDepth is how deep a value may nest.
const maxDepth = 1000

// Sizing measures values alike for the cost and for the size limit: the library
// keeps a measured size with the value.
var Sizing = []types.SizeCalculatorOption{
	types.SizeCalculatorMaxDepth(maxDepth),
	types.SizeCalculatorMaxTraversal(MaxSize),
	types.SizeCalculatorStringUnitLength(1),
}

var sizes = types.NewSizeCalculator(Sizing...)

// CallCost is the price of a call, nil to leave it to the library.
func (Prices) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	price := 1
	switch function {
	case operators.In, operators.OldIn:
		if list, ok := args[len(args)-1].(traits.Lister); ok {
			price += measure(list)/walked + measure(args[0])/walked
		}
	case operators.Add:
		price += textLength(result) / walked
		if _, growing := args[0].(traits.MutableLister); !growing { // a macro's, which is not walked
			price += elements(result) / walked
		}
	case operators.Equals, operators.NotEquals:
		price += min(measure(args[0]), measure(args[1])) / walked
	case overloads.Matches:
		price += matchPrice(args)
	case "format", "strings.quote":
		price += (textLength(result) + measure(args[len(args)-1])) / 2
	case "replace", "join", "split":
		return nil // the library charges for what comes out
	default:
		for _, a := range args {
			price += textLength(a) / walked
		}
		price += textLength(result) / walked
	}
	total := uint64(price)
	return &total
}

// SearchPrices are the prices of the searches, which the library knows as slower
// ones.
func SearchPrices() []cost.TrackerOption {
	var all []cost.TrackerOption
	for id := range searches {
		all = append(all, cost.OverloadTracker(id, func(args []ref.Val, result ref.Val) *uint64 {
			return Prices{}.CallCost("", id, args, result)
		}))
	}
	return all
}

// measure is the size of a value, those that it holds included.
func measure(v ref.Val) int {
	switch v.(type) {
	case types.String, types.Bytes:
		return textLength(v)
	case traits.Lister, traits.Mapper:
		return int(sizes.AggregateSize(v))
	}
	return 1
}

// elements is how many items a list has.
func elements(v ref.Val) int {
	list, ok := v.(traits.Lister)
	if !ok {
		return 0
	}
	n, _ := list.Size().(types.Int)
	return int(n)
}
