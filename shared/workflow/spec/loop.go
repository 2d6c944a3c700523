package spec

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Loop executes the embedded workflow of a step in rounds, one after another: one for each item of
// a list, or as long as a condition is true.
type Loop struct {
	Over  string `json:"over,omitempty"`  // CEL: a list, evaluated once; written over: ${...}
	While string `json:"while,omitempty"` // CEL, bool: evaluated before each round
	As    string `json:"as,omitempty"`    // another name for item
	Max   int    `json:"max,omitempty"`   // maximum of rounds; 0 for as many as the limit of step runs allows
	OnMax OnMax  `json:"onMax,omitempty"`
}

// OnMax is what happens when a loop is not over after its maximum of rounds.
type OnMax string

// The choices; OnMaxFail is the default.
const (
	OnMaxFail OnMax = "fail" // the step fails
	OnMaxStop OnMax = "stop" // the step ends OK
)

// Foreach calls the block of a step once for each item of a list, many at a time.
type Foreach struct {
	Items            string    `json:"items"`                 // CEL: a list, evaluated once; written ${...}
	As               string    `json:"as,omitempty"`          // another name for item
	MaxInFlight      int       `json:"maxInFlight,omitempty"` // jobs outstanding at a time; 0 means that of the definition
	FailureTolerance Tolerance `json:"failureTolerance,omitzero"`
}

// ReadsItem reports whether one of the names that an expression reads is the item of a step with
// foreach, or its number.
func (s *Step) ReadsItem(names []string) bool {
	return s.Foreach != nil && slices.ContainsFunc(names, func(name string) bool {
		return name == IndexName || slices.Contains(s.ItemNames(), name)
	})
}

// BlockRunsOn returns what the step's block must run on. The job of an item has no entity.
func (s *Step) BlockRunsOn() string {
	if s.Foreach != nil {
		return workflow.RunOnGlobal
	}
	return s.RunOn
}

// MaxItems bounds the items of a step with foreach.
const MaxItems = 10_000

// ItemName is the item of the innermost loop in expressions, IndexName its number, from 0.
const (
	ItemName  = "item"
	IndexName = "index"
)

// ItemNames returns the names of a step's items in the steps in it, and in its own parameters; none
// for a step without items.
func (s *Step) ItemNames() []string {
	as := ""
	switch {
	case s.Foreach != nil:
		as = s.Foreach.As
	case s.Loop != nil && s.Loop.Over != "":
		as = s.Loop.As
	default:
		return nil
	}
	if as != "" && as != ItemName {
		return []string{ItemName, as}
	}
	return []string{ItemName}
}
