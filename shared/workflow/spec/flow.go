package spec

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Group is a list of steps in a step: those of an embedded workflow, or of one case. At most one of
// the cases of a step is executed.
type Group struct {
	Path  string // in the step, such as switch[0].steps
	Steps []Step

	// Handler means that the steps are executed instead of what failed in the step, and not as a
	// part of it.
	Handler bool

	// Branch means that the steps are executed concurrently with those of the other branches.
	Branch bool
}

// Groups returns the lists of steps in a step, in the order in which FlatSteps lists them.
func (s *Step) Groups() []Group {
	var all []Group
	if s.Workflow != nil {
		all = append(all, Group{Path: "workflow.steps", Steps: s.Workflow.Steps})
	}
	if s.Rollout != nil && len(s.Rollout.Between) > 0 {
		all = append(all, Group{Path: betweenGroup, Steps: s.Rollout.Between})
	}
	for i := range s.Switch {
		if c := &s.Switch[i]; len(c.Steps) > 0 {
			all = append(all, Group{Path: "switch[" + strconv.Itoa(i) + "].steps", Steps: c.Steps})
		}
	}
	if s.Parallel != nil {
		for i := range s.Parallel.Branches {
			all = append(all, Group{Path: "parallel.branches[" + strconv.Itoa(i) + "].steps", Steps: s.Parallel.Branches[i].Steps, Branch: true})
		}
	}
	for i := range s.OnFailure {
		if c := &s.OnFailure[i]; len(c.Steps) > 0 {
			all = append(all, Group{Path: "onFailure[" + strconv.Itoa(i) + "].steps", Steps: c.Steps, Handler: true})
		}
	}
	return all
}

// Case is one way to continue: at a step, with steps of its own, or both. The first case whose
// condition is true is taken.
type Case struct {
	When  string `json:"when,omitempty"` // CEL, bool; empty for the default
	Next  string `json:"next,omitempty"` // label, or NextEnd; empty means after the step
	Steps []Step `json:"steps,omitempty"`
}

// Parallel are concurrent branches.
type Parallel struct {
	Branches     []Branch `json:"branches"`
	Merge        Merge    `json:"merge,omitzero"`
	AllowPartial bool     `json:"allowPartial,omitempty"` // continue without branches that failed
	Minimum      int      `json:"minimum,omitempty"`      // number of branches that must end OK, with AllowPartial; 0 means 1
}

// Branch is one branch. Its output is the result of its last step, or Result.
type Branch struct {
	Label  string          `json:"label"`
	Steps  []Step          `json:"steps"`
	Result json.RawMessage `json:"result,omitempty"` // strings may contain ${CEL}
}

// Merge is how the results of branches become one, in the order of the branches.
type Merge struct {
	Strategy   MergeStrategy `json:"strategy,omitempty"`
	OnConflict OnConflict    `json:"onConflict,omitempty"`
}

// MergeStrategy is how two results become one; empty means shallow.
type MergeStrategy string

// The strategies. For the first two, a result that is not an object counts as an object with the
// label of its branch as the only key.
const (
	MergeShallow MergeStrategy = "shallow" // the keys of objects
	MergeDeep    MergeStrategy = "deep"    // the keys of objects, and of objects in them
	MergeReplace MergeStrategy = "replace" // the last result
	MergeAppend  MergeStrategy = "append"  // one list; a result that is not a list is one item
)

// OnConflict is what happens to a key that two results have with different values; empty means
// preferNew.
type OnConflict string

// The choices.
const (
	PreferNew      OnConflict = "preferNew"      // the later branch wins
	PreferExisting OnConflict = "preferExisting" // the earlier branch wins
	ConflictFails  OnConflict = "fail"           // the step fails
)

// NextEnd is the target of next that ends the definition that contains it.
const NextEnd = "end"

// MaxPathDepth is the most names in a path of a variable, and MaxVariableDepth how deep the value of a
// variable of one name may be nested.
const (
	MaxPathDepth     = 15
	MaxVariableDepth = MaxPathDepth - 1
)

var variablePathRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,14}$`)

// ValidVariablePath reports whether s is the path of a variable, such as order.total.
func ValidVariablePath(s string) bool { return variablePathRE.MatchString(s) }

// Writes returns the paths of the variables that a step sets, in order.
func Writes(s *Step) []string {
	if s.OutputKey != "" {
		return []string{s.OutputKey}
	}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(s.Set, &values) // it was read as an object
	return slices.Sorted(maps.Keys(values))
}

// VariableOf returns the variable that a path begins with.
func VariableOf(path string) string {
	name, _, _ := strings.Cut(path, ".")
	return name
}
