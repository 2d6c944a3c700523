package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxKeptBytes bounds the encoded size of the set of entities that an execution keeps.
const maxKeptBytes = 24 << 10

// keepOnly releases the locks of all entities except those at the given places, and wakes everybody
// who waits for the execution, unless none is left to release. What was released before stays released.
// It reports whether the others are free: if the set is too large, or does not fit into the state item,
// nothing changes.
func (d *decider) keepOnly(places workflow.Places) bool {
	before := 0
	if d.execution.Kept != nil {
		before = len(d.execution.Kept.String())
		places = d.execution.Kept.Both(places)
		if places.Equal(*d.execution.Kept) {
			return true
		}
	}
	if n := len(places.String()); n > maxKeptBytes || n > before && !d.hasRoomFor(n-before) {
		return false
	}
	d.execution.Kept = &places
	d.execution.Narrowed++
	d.decision.WakeWaiters, d.changed = true, true
	return true
}

// holdsNothing reports whether an ended execution has released all its locks before its
// end was acknowledged.
func (d *decider) holdsNothing() bool {
	return d.execution.Unlocked || d.execution.Kept != nil && d.execution.Kept.Len() == 0
}

// releaseNamed releases the locks of the entities that a command names. Entities that were released
// before are ignored as long as there is another. ok is false if the command is refused or, without
// an error, if a fact is missing.
func (d *decider) releaseNamed(c Command, data map[string]any) (ok bool, err error) {
	if d.facts.Entities == nil {
		d.need(Need{Kind: NeedEntities})
		return false, nil
	}
	at := make(map[workflow.EntityKey]int, len(d.facts.Entities.List))
	var all []int
	for _, e := range d.facts.Entities.List {
		at[e.Key] = e.Place
		all = append(all, e.Place)
	}
	var places []int
	var names []string
	for _, key := range c.Only {
		place, known := at[key]
		if !known {
			return false, invalidRequest("entities", fmt.Sprintf("%s is not an entity of execution %s", key, d.execution.ID))
		}
		places = append(places, place)
		if len(names) < workflow.MaxNamed {
			names = append(names, key.String())
		}
	}
	kept := workflow.NewPlaces(all...)
	if d.execution.Kept != nil {
		kept = *d.execution.Kept
	}
	named := workflow.NewPlaces(places...)
	if d.holdsNothing() || kept.Both(named).Len() == 0 {
		return false, &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("execution %s in state %s holds none of these entities any more", d.execution.ID, d.execution.State),
		}
	}
	if !d.keepOnly(kept.Without(named)) {
		return false, workflow.Errorf(workflow.CodeLimit, "there is no room for the list of the %d entities that execution %s would keep: name more entities at once, or acknowledge all", kept.Without(named).Len(), d.execution.ID)
	}
	d.markReleased(c.Only)
	data["entities"], data["released"], data["kept"] = names, kept.Both(named).Len(), d.execution.Kept.Len()
	return true, nil
}

// markReleased says so of the failed entities that the result names.
func (d *decider) markReleased(entities []workflow.EntityKey) {
	if d.execution.Result == nil {
		return
	}
	released := make(map[string]bool, len(entities))
	for _, key := range entities {
		released[key.String()] = true
	}
	result := *d.execution.Result
	result.Named = slices.Clone(result.Named)
	for i := range result.Named {
		failed := &result.Named[i]
		failed.Released = failed.Released || released[failed.Entity]
	}
	d.execution.Result = &result
}

// tryKept restricts a new try to the entities that the execution still holds.
func (d *decider) tryKept() {
	x := d.execution
	if x.Kept == nil {
		return
	}
	kept := *x.Kept
	x.Scope.Only, x.Scope.Counts = &kept, map[string]int{}
	var released []int
	for _, e := range d.facts.Entities.List {
		if kept.Contains(e.Place) {
			x.Scope.Counts[e.Key.Type]++
		} else {
			released = append(released, e.Place)
		}
	}
	if len(released) > 0 && x.Result == nil {
		// Nothing was recorded about single entities: those that were released were as unsafe as
		// all.
		x.Result = &workflow.Result{
			Sets:  workflow.OutcomeSets{workflow.EntityFailedUnsafe: workflow.NewPlaces(released...)},
			Count: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: len(released)},
		}
	}
}
