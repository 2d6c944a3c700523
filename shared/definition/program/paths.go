package program

import (
	"strconv"

	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// place is where a step stands in the tree.
type place struct {
	path string
	last int   // index of the last step nested in it; its own index without any
	in   []int // indexes of the steps it is nested in, outermost first
}

// places are the places of all steps, in the order of Flat.
func places(d *spec.Definition) []place {
	var all []place
	var walk func(steps []spec.Step, path string, in []int)
	walk = func(steps []spec.Step, path string, in []int) {
		for n := range steps {
			i := len(all)
			all = append(all, place{path: path + "[" + strconv.Itoa(n) + "]", last: i, in: in})
			if nested := steps[n].Workflow; nested != nil {
				walk(nested.Steps, all[i].path+".workflow.steps", append(in[:len(in):len(in)], i))
				all[i].last = len(all) - 1
			}
		}
	}
	walk(d.Steps, "steps", nil)
	return all
}

// Paths are the paths of all steps in the document, in the order of Flat.
func Paths(d *spec.Definition) []string {
	var paths []string
	for _, p := range places(d) {
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
	for i, s := range d.Flat() {
		list(steps[i]+".acquire", s.Acquire)
	}
	return paths
}
