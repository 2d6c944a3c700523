package program

import (
	"iter"
	"regexp"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Expressions are the expressions of a definition that read parameters or the
// results of steps, with the paths of the values in which they stand.
func Expressions(d *spec.Definition) iter.Seq2[string, string] {
	return func(yield func(path, source string) bool) {
		more := true
		emit := func(path, source string) {
			if more && source != "" {
				more = yield(path, source)
			}
		}
		paths := Paths(d)
		for i, s := range d.FlatSteps() {
			emit(paths[i]+".condition", s.Condition)
			for n, source := range s.Assert {
				emit(paths[i]+".assert["+strconv.Itoa(n)+"]", source)
			}
			expr.EachToken(s.Parameters, func(source string) { emit(paths[i]+".parameters", source) })
			if s.Repeat != nil {
				emit(paths[i]+".repeat.while", s.Repeat.While)
			}
			if s.Reference != nil {
				expr.EachToken(s.Reference.ExecuteOnParameters, func(source string) { emit(paths[i]+".workflowReference.executeOnParameters", source) })
			}
		}
		acquires := AcquirePaths(d)
		for i, a := range d.Acquisitions() {
			emit(acquires[i]+".ids", a.IDsExpr)
			expr.EachToken(a.Parameters, func(source string) { emit(acquires[i]+".parameters", source) })
		}
		emit("config.startWhen", d.Config.StartWhen)
	}
}

var (
	stringLiteralRE = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	hasRE           = regexp.MustCompile(`\bhas\([^()]*\)`)
)

// StripStrings is an expression without what stands in quotes.
func StripStrings(source string) string { return stringLiteralRE.ReplaceAllString(source, "''") }

// StripHas is an expression without its has(), which reads nothing that has
// to be there.
func StripHas(source string) string { return hasRE.ReplaceAllString(source, "true") }
