package workflow

// Scope is the set of entities of the execution, fixed before locking. Small scopes are
// inline. Larger ones are stored in chunks, in items of their own, under Key. The key is
// unique to the handler that stored them, so that chunks of two handlers never mix.
type Scope struct {
	Counts map[string]int `json:"counts,omitempty"` // by entity type
	Key    string         `json:"key,omitempty"`
	Chunks int            `json:"chunks,omitempty"`
	Inline []ScopeEntity  `json:"inline,omitempty"`

	// HeldEpoch is the lock epoch whose tokens and attributes the scope has; 0 before
	// the first locks are granted.
	HeldEpoch int64 `json:"heldEpoch,omitempty"`

	// Gaps says that entities were left out when the locks were taken, so that some places
	// are not positions.
	Gaps bool `json:"gaps,omitempty"`

	// Only restricts a try to some of the entities: a retry of an execution that has
	// released the others. nil is all.
	Only *Places `json:"only,omitempty"`

	// PerChunk is the number of entities in each chunk but the last. It is 0 in a scope that the
	// release before has stored: that can only be read whole.
	PerChunk int `json:"perChunk,omitempty"`
}

// InParts reports whether some of the entities can be read without the others: it is known which
// chunk has the entity of a place.
func (s Scope) InParts() bool { return s.Key != "" && s.PerChunk > 0 && !s.Gaps }

// PlacesOf are the places of those entities of a type that take part, from one number, from 0, up
// to another among them. They follow each other in the order of the scope, which is that of the keys.
func (s Scope) PlacesOf(entityType string, from, to int) (places []int) {
	before := 0
	for other, n := range s.Counts {
		if other < entityType {
			before += n
		}
	}
	for number := from; number < min(to, s.Counts[entityType]); number++ {
		place := before + number + 1
		if s.Only != nil {
			place = s.Only.At(before + number)
		}
		places = append(places, place)
	}
	return places
}

// needsPlaces reports whether the scope can only be read by a release that knows places.
func (s Scope) needsPlaces() bool { return s.Gaps || s.Only != nil }

// Total is the number of entities.
func (s Scope) Total() int {
	n := 0
	for _, c := range s.Counts {
		n += c
	}
	return n
}
