package bounds

import (
	"fmt"
	"regexp"
	"sync"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// pattern is a compiled regular expression. Matching takes time by the product
// of its size and the text's length.
type pattern struct {
	re   *regexp.Regexp
	size int // in instructions
}

// Limits of a regular expression.
const (
	MaxPattern = 1000    // instructions
	maxSource  = 4 << 10 // bytes
)

// compiledPatterns keeps patterns by their text; it is emptied when full.
var compiledPatterns = struct {
	sync.Mutex
	byText map[string]*pattern
}{byText: map[string]*pattern{}}

const patternsKept = 256

func compilePattern(text string) (*pattern, error) {
	if len(text) > maxSource {
		return nil, fmt.Errorf("a regular expression holds at most %d bytes", maxSource)
	}
	compiledPatterns.Lock()
	known := compiledPatterns.byText[text]
	compiledPatterns.Unlock()
	if known != nil {
		return known, nil
	}
	size, err := types.RegexProgramSize(text)
	if err != nil {
		return nil, err
	}
	if size > MaxPattern {
		return nil, fmt.Errorf("the regular expression has a program size of %d, and %d is the limit", size, MaxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	compiledPatterns.Lock()
	defer compiledPatterns.Unlock()
	if len(compiledPatterns.byText) >= patternsKept {
		clear(compiledPatterns.byText)
	}
	p := &pattern{re, size}
	compiledPatterns.byText[text] = p
	return p, nil
}

// stepsPerUnit is how many instructions of a pattern go into one unit of cost.
const stepsPerUnit = 20

func (p *pattern) price(text string) int { return len(text) * p.size / stepsPerUnit }

// matchPrice is the price of matches(text, pattern). One that does not compile
// costs by its length.
func matchPrice(args []ref.Val) int {
	if len(args) != 2 {
		return 0
	}
	p, err := compilePattern(textOf(args[1]))
	if err != nil {
		return min(textLength(args[1]), maxSource)
	}
	return p.price(textOf(args[0]))
}

// Matching puts a call of matches that looks at its price first in the place of
// the library's.
func Matching(limit uint64) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok || call.Function() != overloads.Matches || len(call.Args()) != 2 {
			return i, nil
		}
		if c, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
			if _, err := compilePattern(textOf(c.Value())); err != nil {
				return nil, err
			}
		}
		return &matches{interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			text, isText := args[0].(types.String)
			source, both := args[1].(types.String)
			if !isText || !both {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			p, err := compilePattern(string(source))
			if err != nil {
				return types.WrapErr(err)
			}
			if uint64(p.price(string(text))) > limit {
				panic(interpreter.EvalCancelledError{
					Cause:   interpreter.CostLimitExceeded,
					Message: "cost limit exceeded: the text is too long for this regular expression",
				})
			}
			return types.Bool(p.re.MatchString(string(text)))
		})}, nil
	}
}

// matches is no call to those who look at its type, and would put their own in
// its place.
type matches struct{ interpreter.InterpretableV2 }
