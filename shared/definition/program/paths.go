package program

import (
	"encoding/json"
	"iter"
	"regexp"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// stepPosition is the position of a step in the tree of steps.
type stepPosition struct {
	path       string
	group      int   // number of the list that the step is in; different lists have different numbers
	lastNested int   // index of the last step nested in it, its own index if there is none
	ancestors  []int // indexes of the steps it is nested in, outermost first
	handles    []int // indexes of the steps whose failure it handles, or a step around it, outermost first; part of ancestors
}

// stepPositions returns the positions of all steps, in the order of FlatSteps.
func stepPositions(d *spec.Definition) []stepPosition {
	var all []stepPosition
	groups := 0
	var walk func(steps []spec.Step, path string, in, handles []int)
	walk = func(steps []spec.Step, path string, in, handles []int) {
		group := groups
		groups++
		for n := range steps {
			i := len(all)
			all = append(all, stepPosition{path: path + "[" + strconv.Itoa(n) + "]", group: group, lastNested: i, ancestors: in, handles: handles})
			for _, g := range steps[n].Groups() {
				inner := handles
				if g.Handler {
					inner = append(handles[:len(handles):len(handles)], i)
				}
				walk(g.Steps, all[i].path+"."+g.Path, append(in[:len(in):len(in)], i), inner)
				all[i].lastNested = len(all) - 1
			}
		}
	}
	walk(d.Steps, "steps", nil, nil)
	return all
}

// Paths returns the paths of all steps in the document, in the order of FlatSteps.
func Paths(d *spec.Definition) []string {
	var paths []string
	for _, p := range stepPositions(d) {
		paths = append(paths, p.path)
	}
	return paths
}

// AcquirePaths returns the paths of all acquire entries, in the order of Acquisitions.
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

// ParametersField returns the path at which the parameters of a step are written.
func ParametersField(s *spec.Step) string {
	switch {
	case s.HTTP != nil:
		return ".http"
	case s.Insert != nil:
		return ".insert.row"
	case s.Schedule != nil:
		return ".schedule"
	}
	return ".parameters"
}

// tokenVisitor visits tokens of a template, as [expr.EachToken] does.
type tokenVisitor func(raw json.RawMessage, visit func(source string))

// Expressions yields the expressions of a definition that read parameters or step results,
// each with the path of its value.
func Expressions(d *spec.Definition) iter.Seq2[string, string] {
	return expressions(d, expr.EachToken, true)
}

// Inserted yields the expressions of a definition whose values become part of a text, each with the path of the
// text.
func Inserted(d *spec.Definition) iter.Seq2[string, string] {
	return expressions(d, expr.EachInserted, false)
}

// expressions yields the tokens that a visitor finds in the templates of a definition and, if plain is true, its
// expressions that are no templates.
func expressions(d *spec.Definition, eachToken tokenVisitor, plain bool) iter.Seq2[string, string] {
	return func(yield func(path, source string) bool) {
		more := true
		emitToken := func(path, source string) {
			if more && source != "" {
				more = yield(path, source)
			}
		}
		emit := func(path, source string) {
			if plain {
				emitToken(path, source)
			}
		}
		paths := Paths(d)
		for i, s := range d.FlatSteps() {
			emit(paths[i]+".condition", s.Condition)
			for n, source := range s.Assert {
				emit(paths[i]+".assert["+strconv.Itoa(n)+"]", source)
			}
			eachToken(s.Parameters, func(source string) { emitToken(paths[i]+ParametersField(s), source) })
			if s.Repeat != nil {
				emit(paths[i]+".repeat.while", s.Repeat.While)
			}
			if s.Reference != nil {
				if len(s.Reference.Among) > 0 {
					eachToken(textTemplate(s.Reference.Workflow), func(source string) { emitToken(paths[i]+".workflowReference.workflow", source) })
				}
				eachToken(s.Reference.ExecuteOnParameters, func(source string) { emitToken(paths[i]+".workflowReference.executeOnParameters", source) })
			}
			if s.Loop != nil {
				emit(paths[i]+".loop.over", s.Loop.Over)
				emit(paths[i]+".loop.while", s.Loop.While)
			}
			if s.Foreach != nil {
				emit(paths[i]+".foreach.items", s.Foreach.Items)
			}
			if s.Rollout != nil {
				emit(paths[i]+".rollout.by", s.Rollout.By)
			}
			if s.Compensate != nil {
				eachToken(s.Compensate.Parameters, func(source string) { emitToken(paths[i]+".compensate.parameters", source) })
			}
			eachToken(s.Set, func(source string) { emitToken(paths[i]+".set", source) })
			for n, c := range s.Switch {
				emit(paths[i]+".switch["+strconv.Itoa(n)+"].when", c.When)
			}
			if s.Parallel != nil {
				for n := range s.Parallel.Branches {
					eachToken(s.Parallel.Branches[n].Result, func(source string) { emitToken(paths[i]+".parallel.branches["+strconv.Itoa(n)+"].result", source) })
				}
			}
			for n, c := range s.OnFailure {
				emit(paths[i]+".onFailure["+strconv.Itoa(n)+"].when", c.When)
			}
			eachWaitExpression(s, eachToken, func(path, source string) { emitToken(paths[i]+path, source) }, func(path, source string) { emit(paths[i]+path, source) })
		}
		eachToken(d.Output, func(source string) { emitToken("output", source) })
		acquires := AcquirePaths(d)
		for i, a := range d.Acquisitions() {
			emit(acquires[i]+".ids", a.IDsExpr)
			eachToken(a.Parameters, func(source string) { emitToken(acquires[i]+".parameters", source) })
		}
		eachFollowUp(d, func(_ workflow.EndKind, path string, f *spec.FollowUp) {
			eachToken(f.Parameters, func(source string) { emitToken(path+".parameters", source) })
		})
		emit("config.startWhen", d.Config.StartWhen)
	}
}

var (
	stringLiteralRE = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	hasRE           = regexp.MustCompile(`\bhas\([^()]*\)`)
	fieldByNameRE   = regexp.MustCompile(`(\w+|[\])])\[\s*(?:'([A-Za-z_]\w*)'|"([A-Za-z_]\w*)")\s*\]`)
)

// DotFields writes fields that an expression reads by a constant name, as in result['bar'], with a dot. What
// stands in brackets after results is the id of an entity.
func DotFields(source string) string {
	for {
		next := fieldByNameRE.ReplaceAllStringFunc(source, func(found string) string {
			m := fieldByNameRE.FindStringSubmatch(found)
			if m[1] == "results" {
				return found
			}
			return m[1] + "." + m[2] + m[3]
		})
		if next == source {
			return source
		}
		source = next
	}
}

// StripStrings removes the contents of string literals from an expression.
func StripStrings(source string) string { return stringLiteralRE.ReplaceAllString(source, "''") }

// StripHas removes calls of has() from an expression. What they read may be missing.
func StripHas(source string) string { return hasRE.ReplaceAllString(source, "true") }
