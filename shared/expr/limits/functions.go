package limits

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// MaxSize is the largest size of a value: characters of text, plus one for every other
// value.
const MaxSize = 8 << 20

// The library's string functions charge for their result after they have built it. A few
// hundred bytes of an expression can ask for a string of terabytes, which would kill the
// process first. So the length is computed first, and the string is built only if it is
// within MaxSize.

// resultLengths are upper bounds of the length of a function's result, in bytes. They may
// stop counting beyond MaxSize.
var resultLengths = map[string]func(args []ref.Val) int{
	"replace":       replaceLength,
	"join":          joinLength,
	"split":         splitLength,
	"format":        formatLength,
	"strings.quote": func(args []ref.Val) int { return 2*textLength(args[0]) + 2 },
}

// linearSearches replace two functions that take time proportional to the product of the
// lengths of their strings. These take time proportional to the sum.
var linearSearches = map[string]functions.FunctionOp{
	"string_index_of_string":          func(args ...ref.Val) ref.Val { return indexOf(args, false) },
	"string_index_of_string_int":      func(args ...ref.Val) ref.Val { return indexOf(args, false) },
	"string_last_index_of_string":     func(args ...ref.Val) ref.Val { return indexOf(args, true) },
	"string_last_index_of_string_int": func(args ...ref.Val) ref.Val { return indexOf(args, true) },
}

// LimitedFunctions binds the functions of an environment again, with their limits.
func LimitedFunctions(env *cel.Env) ([]cel.EnvOption, error) {
	var options []cel.EnvOption
	for _, name := range []string{"replace", "join", "split", "format", "strings.quote", "indexOf", "lastIndexOf"} {
		declared, ok := env.Functions()[name]
		if !ok {
			return nil, fmt.Errorf("the library has no function %s", name)
		}
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		byID := map[string]*functions.Overload{}
		for _, b := range bindings {
			byID[b.Operator] = b
		}
		for _, o := range declared.OverloadDecls() {
			original, ok := byID[o.ID()]
			if !ok {
				return nil, fmt.Errorf("the library has no binding of %s", o.ID())
			}
			declare := cel.Overload
			if o.IsMemberFunction() {
				declare = cel.MemberOverload
			}
			options = append(options, cel.Function(name, declare(o.ID(), o.ArgTypes(), o.ResultType(), limitedBinding(name, original))))
		}
	}
	return options, nil
}

func limitedBinding(name string, original *functions.Overload) cel.OverloadOpt {
	call, ok := linearSearches[original.Operator]
	if !ok {
		resultLength := resultLengths[name]
		call = func(args ...ref.Val) ref.Val {
			if resultLength(args) > MaxSize {
				// The library ends an evaluation at its own limits in this way. An expression
				// could ignore an error that is a value, and call the function again and again.
				panic(interpreter.EvalCancelledError{
					Cause:   interpreter.MemoryLimitExceeded,
					Message: fmt.Sprintf("memory limit exceeded: %s would give more than %d bytes", name, MaxSize),
				})
			}
			return invoke(original, args)
		}
	}
	switch { // the library's planner expects the form of the original
	case original.Unary != nil:
		return cel.UnaryBinding(func(a ref.Val) ref.Val { return call(a) })
	case original.Binary != nil:
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val { return call(a, b) })
	}
	return cel.FunctionBinding(call)
}

func invoke(o *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case o.Unary != nil:
		return o.Unary(args[0])
	case o.Binary != nil:
		return o.Binary(args[0], args[1])
	}
	return o.Function(args...)
}

// textLength returns the length of a string or of bytes, in bytes, 0 for anything else.
func textLength(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}

func textOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

func replaceLength(args []ref.Val) int {
	text, old := textOf(args[0]), textOf(args[1])
	times := strings.Count(text, old)
	if len(args) > 3 {
		if n, ok := args[3].(types.Int); ok && n >= 0 {
			times = int(min(int64(n), int64(times)))
		}
	}
	return len(text) + times*max(textLength(args[2])-len(old), 0)
}

func joinLength(args []ref.Val) int {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return 0
	}
	total, separator := 0, 0
	if len(args) > 1 {
		separator = textLength(args[1])
	}
	for it := list.Iterator(); it.HasNext() == types.True && total <= MaxSize; {
		total += textLength(it.Next()) + separator
	}
	return total
}

// itemOverhead is what a part of a split string costs besides its text, in bytes.
const itemOverhead = 16

func splitLength(args []ref.Val) int {
	parts := strings.Count(textOf(args[0]), textOf(args[1])) + 1
	if len(args) > 2 {
		if n, ok := args[2].(types.Int); ok && n >= 0 {
			parts = int(min(int64(n), int64(parts)))
		}
	}
	return textLength(args[0]) + itemOverhead*parts
}

const (
	maxFormattedNumber = 512 // bytes of the largest number with the most digits that a format can ask for
	maxNestedNumber    = 32  // bytes of a number in a list
)

func formatLength(args []ref.Val) int {
	total := textLength(args[0])
	list, ok := args[1].(traits.Lister)
	if !ok {
		return total
	}
	for it := list.Iterator(); it.HasNext() == types.True && total <= MaxSize; {
		item := it.Next()
		total += maxFormattedNumber + formattedLength(item, MaxSize-total)
	}
	return total
}

// formattedLength returns an upper bound of the length of a formatted value. A string may be
// formatted in hexadecimal digits. It stops counting at the limit.
func formattedLength(v ref.Val, limit int) int {
	total := maxNestedNumber + 2*textLength(v)
	switch v := v.(type) {
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && total <= limit; {
			key := it.Next()
			total += formattedLength(key, limit-total)
			total += formattedLength(v.Get(key), limit-total)
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && total <= limit; {
			total += formattedLength(it.Next(), limit-total)
		}
	}
	return total
}

// indexOf finds a string in another. It returns the index in characters, -1 if it is not there. The
// third argument is the first index to search, or the last one if last is true.
func indexOf(args []ref.Val, last bool) ref.Val {
	text, substring := textOf(args[0]), textOf(args[1])
	size := utf8.RuneCountInString(text)
	offset := types.Int(0)
	if last {
		offset = types.Int(size)
	}
	if len(args) > 2 {
		n, ok := args[2].(types.Int)
		if !ok || n < 0 {
			return types.NewErr("index out of range: %v", args[2].Value())
		}
		offset = n
	}
	if substring == "" {
		return min(offset, types.Int(size))
	}
	if last && len(args) > 2 && offset >= types.Int(size) || !last && offset >= types.Int(size) {
		return types.Int(-1)
	}
	if last {
		end := min(byteOffset(text, int(offset))+len(substring), len(text))
		return runeIndex(text, strings.LastIndex(text[:end], substring))
	}
	from := byteOffset(text, int(offset))
	found := strings.Index(text[from:], substring)
	if found < 0 {
		return types.Int(-1)
	}
	return runeIndex(text, from+found)
}

// byteOffset returns the offset at which the character with an index begins, the length of the text
// if there is none.
func byteOffset(text string, index int) int {
	for i := range text {
		if index == 0 {
			return i
		}
		index--
	}
	return len(text)
}

func runeIndex(text string, index int) ref.Val {
	if index < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(text[:index]))
}
