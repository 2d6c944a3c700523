package limits

import (
	"fmt"
	"regexp"
	"sync"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// pattern is a compiled regular expression. Matching takes time proportional to the product
// of its size and the length of the text.
type pattern struct {
	re   *regexp.Regexp
	size int // in instructions
}

// Limits of a regular expression.
const (
	MaxPatternSize   = 1000    // instructions
	maxPatternSource = 4 << 10 // bytes
)

// patternCache keeps compiled patterns by their text. It is cleared when it is full.
var patternCache = struct {
	sync.Mutex
	byText map[string]*pattern
}{byText: map[string]*pattern{}}

const maxCachedPatterns = 256

func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPatternSource {
		return nil, fmt.Errorf("a regular expression has at most %d bytes", maxPatternSource)
	}
	patternCache.Lock()
	known := patternCache.byText[text]
	patternCache.Unlock()
	if known != nil {
		return known, nil
	}
	size, err := types.RegexProgramSize(text)
	if err != nil {
		return nil, err
	}
	if size > MaxPatternSize {
		return nil, fmt.Errorf("the regular expression has a program size of %d; the limit is %d", size, MaxPatternSize)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	patternCache.Lock()
	defer patternCache.Unlock()
	if len(patternCache.byText) >= maxCachedPatterns {
		clear(patternCache.byText)
	}
	p := &pattern{re, size}
	patternCache.byText[text] = p
	return p, nil
}

// instructionsPerUnit is how many instructions of a pattern one unit of cost pays for.
const instructionsPerUnit = 20

func (p *pattern) cost(text string) int { return len(text) * p.size / instructionsPerUnit }

// matchCost returns the cost of matches(text, pattern). A pattern that does not compile costs its
// length.
func matchCost(args []ref.Val) int {
	if len(args) != 2 {
		return 0
	}
	p, err := compilePattern(textOf(args[1]))
	if err != nil {
		return min(textLength(args[1]), maxPatternSource)
	}
	return p.cost(textOf(args[0]))
}

// LimitMatches replaces the library's matches by one that checks its cost against the limit first.
func LimitMatches(limit uint64) interpreter.InterpretableDecoratorV2 {
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
		return &limitedMatch{interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			text, isText := args[0].(types.String)
			source, sourceIsText := args[1].(types.String)
			if !isText || !sourceIsText {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			p, err := compilePattern(string(source))
			if err != nil {
				return types.WrapErr(err)
			}
			if uint64(p.cost(string(text))) > limit {
				panic(interpreter.EvalCancelledError{
					Cause:   interpreter.CostLimitExceeded,
					Message: "cost limit exceeded: the text is too long for this regular expression",
				})
			}
			return types.Bool(p.re.MatchString(string(text)))
		})}, nil
	}
}

// limitedMatch hides that it is a call, so that the library does not replace it by its own.
type limitedMatch struct{ interpreter.InterpretableV2 }
