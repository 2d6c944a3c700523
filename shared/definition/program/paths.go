package program

import (
	"strconv"

	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// stepPosition is where a step stands in the tree.
type stepPosition struct {
	path       string
	lastNested int   // index of the last step nested in it; its own index without any
	ancestors  []int // indexes of the steps it is nested in, outermost first
}

// stepPositions are the places of all steps, in the order of Flat.
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

// Paths are the paths of all steps in the document, in the order of Flat.
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
