package workflow

import "cmp"

// Scope is the set of entities of the execution, fixed before locking. Small scopes are inline.
// Larger ones are stored in chunks, in items of their own, under Key. The key is unique to the
// handler that stored them, so that the chunks of two handlers never mix.
type Scope struct {
	Counts map[string]int `json:"counts,omitempty"` // by entity type
	Key    string         `json:"key,omitempty"`
	Chunks int            `json:"chunks,omitempty"`
	Inline []ScopeEntity  `json:"inline,omitempty"`

	// HeldEpoch is the lock epoch whose tokens and attributes the scope has; 0 before the first
	// locks are granted.
	HeldEpoch int64 `json:"heldEpoch,omitempty"`

	// EpochBeforeRestore takes the place of HeldEpoch, which is 0 then, once the tables were restored:
	// an execution that has ended may still hold its locks, but nothing continues under their tokens.
	EpochBeforeRestore int64 `json:"epochBeforeRestore,omitempty"`

	// Gaps means that entities were left out when the locks were taken, so that some places differ
	// from positions.
	Gaps bool `json:"gaps,omitempty"`

	// Only restricts a try to some of the entities, in a retry of an execution that has released
	// the others; nil for all.
	Only *Places `json:"only,omitempty"`

	// PerChunk is the number of entities in each chunk but the last. It is 0 in a scope stored by
	// the previous release, which can only be read whole.
	PerChunk int `json:"perChunk,omitempty"`
}

// InParts reports whether some of the entities can be read without the others, because the chunk of
// each place is known.
func (s Scope) InParts() bool { return s.Key != "" && s.PerChunk > 0 && !s.Gaps }

// PlacesOf returns the places of those participating entities of a type that are at the indexes
// from up to to, counted from 0 among them. They are consecutive, because the scope is ordered by
// key.
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

// TakesIn reports whether the entity at a place takes part in the try that the scope belongs to.
func (s Scope) TakesIn(place int) bool { return s.Only == nil || s.Only.Contains(place) }

// needsPlaces reports whether only a release that knows places can read the scope.
func (s Scope) needsPlaces() bool { return s.Gaps || s.Only != nil }

// LockEpoch returns the epoch at which the locks of the scope were taken, before a restore of the
// tables or after it; 0 before the first locks are granted.
func (s Scope) LockEpoch() int64 { return cmp.Or(s.HeldEpoch, s.EpochBeforeRestore) }

// Total returns the number of entities.
func (s Scope) Total() int {
	n := 0
	for _, c := range s.Counts {
		n += c
	}
	return n
}
