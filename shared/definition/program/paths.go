package program

import (
	"iter"
	"regexp"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// stepPosition is the position of a step in the tree of steps.
type stepPosition struct {
	path       string
	lastNested int   // index of the last step nested in it, its own index if there is none
	ancestors  []int // indexes of the steps it is nested in, outermost first
}

// stepPositions are the positions of all steps, in the order of FlatSteps.
func stepPositions(d *spec.Definition) []stepPosition {
	var all []stepPosition
	var walk func(steps []spec.Step, path string, in []int)
	walk = func(steps []spec.Step, path string, in []int) {
		for n := range steps {
			i := len(all)
			all = append(all, stepPosition{path: path + "[" + strconv.Itoa(n) + "]", lastNested: i, ancestors: in})
			if nested := steps[n].Workflow; nested != nil {
				walk(nested.Steps, all[i].path+".workflow.steps", append(in[:len(in):len(in)], i))
				all[i].lastNested = len(all) - 1
			}
		}
	}
	walk(d.Steps, "steps", nil)
	return all
}

// Paths are the paths of all steps in the document, in the order of FlatSteps.
func Paths(d *spec.Definition) []string {
	var paths []string
	for _, p := range stepPositions(d) {
		paths = append(paths, p.path)
	}
	return paths
}

// AcquirePaths are the paths of all acquire entries, in the order of
// Acquisitions.
func AcquirePaths(d *spec.Definition) []string {
	var paths []string
	list := func(path string, entries []spec.Acquire) {
		for n := range entries {
			paths = append(paths, path+"["+strconv.Itoa(n)+"]")
		}
	}
	list("acquire", d.Acquire)
	steps := Paths(d)
	for i, s := range d.FlatSteps() {
		list(steps[i]+".acquire", s.Acquire)
	}
	return paths
}

// Expressions yields the expressions of a definition that read parameters or step results,
// each with the path of its value.
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

// StripStrings removes the contents of string literals from an expression.
func StripStrings(source string) string { return stringLiteralRE.ReplaceAllString(source, "''") }

// StripHas removes calls of has() from an expression. What they read may be missing.
func StripHas(source string) string { return hasRE.ReplaceAllString(source, "true") }
