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
		goes := true
		read := func(path, source string) {
			if goes && source != "" {
				goes = yield(path, source)
			}
		}
		paths := Paths(d)
		for i, s := range d.Flat() {
			read(paths[i]+".condition", s.Condition)
			for n, source := range s.Assert {
				read(paths[i]+".assert["+strconv.Itoa(n)+"]", source)
			}
			expr.EachToken(s.Parameters, func(source string) { read(paths[i]+".parameters", source) })
			if s.Repeat != nil {
				read(paths[i]+".repeat.while", s.Repeat.While)
			}
			if s.Reference != nil {
				expr.EachToken(s.Reference.On, func(source string) { read(paths[i]+".workflowReference.executeOnParameters", source) })
			}
		}
		acquires := AcquirePaths(d)
		for i, a := range d.Acquisitions() {
			read(acquires[i]+".ids", a.IDsOf)
			expr.EachToken(a.Parameters, func(source string) { read(acquires[i]+".parameters", source) })
		}
		read("config.startWhen", d.Config.StartWhen)
	}
}

var (
	literalRE = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	hasRE     = regexp.MustCompile(`\bhas\([^()]*\)`)
)

// WithoutText is an expression without what stands in quotes.
func WithoutText(source string) string { return literalRE.ReplaceAllString(source, "''") }

// WithoutTests is an expression without its has(), which reads nothing that has
// to be there.
func WithoutTests(source string) string { return hasRE.ReplaceAllString(source, "true") }
