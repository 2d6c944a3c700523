package spec

// Loop executes the embedded workflow of a step once for each item of a list, or as long as a
// condition is true, one time after the other.
type Loop struct {
	Over  string `json:"over,omitempty"`  // CEL: a list, which is evaluated once; written over: ${...}
	While string `json:"while,omitempty"` // CEL, bool: evaluated before each time
	As    string `json:"as,omitempty"`    // another name for item
	Max   int    `json:"max,omitempty"`   // times at most; 0 for as many as the limit of step runs allows
	OnMax OnMax  `json:"onMax,omitempty"`
}

// OnMax is what happens when a loop is not over after its largest number of times.
type OnMax string

// The choices; OnMaxFail is the default.
const (
	OnMaxFail OnMax = "fail" // the step fails
	OnMaxStop OnMax = "stop" // the step ends well
)

// ItemName is the item of the innermost loop in expressions, IndexName its number, from 0.
const (
	ItemName  = "item"
	IndexName = "index"
)

// ItemNames are the names that the items of a step have in the steps in it, and in its own
// parameters; none for a step without items.
func (s *Step) ItemNames() []string {
	if s.Loop == nil || s.Loop.Over == "" {
		return nil
	}
	names := []string{ItemName}
	if s.Loop.As != "" && s.Loop.As != ItemName {
		names = append(names, s.Loop.As)
	}
	return names
}
