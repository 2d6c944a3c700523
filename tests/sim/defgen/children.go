package defgen

import (
	"fmt"
	"strings"
)

// ChildSet is the body of a step that starts an execution of another definition for each of some
// devices.
type ChildSet struct {
	Definition string // its name
	Devices    []string
	Most       int // how many may run at a time
	tolerated  int
}

// drawChildSet returns nil if there is no definition to start.
func drawChildSet(choose Choose, references []string) *Step {
	if len(references) == 0 {
		return nil
	}
	set := &ChildSet{Definition: pick(choose, "other", references...), Most: 1 + choose("most", 2), tolerated: choose("children tolerated", 4)}
	for range 2 + choose("devices", 4) {
		set.Devices = append(set.Devices, fmt.Sprintf("d%03d", choose("device", 5)))
	}
	return &Step{Label: "children", ContinueOnError: choose.oneIn("continue", 3), Body: set}
}

func (s *ChildSet) fields() []string {
	return []string{
		fmt.Sprintf(`foreach: {items: '${["%s"]}', maxInFlight: %d, failureTolerance: %d}`, strings.Join(s.Devices, `", "`), s.Most, s.tolerated),
		fmt.Sprintf("workflowReference: {workflow: p/%s, mode: dispatch, executeOnParameters: {type: device, ids: '${[item]}'}}", s.Definition),
		"parameters: {n: '${index}'}",
	}
}

// Nested implements Body.
func (s *ChildSet) Nested() []*Step { return nil }

func (s *ChildSet) without([]string) Body { return s }

// ChildrenAtWork returns how many of the children that a step starts may run at a time, 0 if it
// starts no set.
func (d *Definition) ChildrenAtWork(label string) (most int) {
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		if set, ok := s.Body.(*ChildSet); ok && s.Label == label {
			most = set.Most
		}
	})
	return most
}
