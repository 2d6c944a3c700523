package workflow

import (
	"maps"
	"slices"
)

// ScopeOf returns the scope of the try that the step run belongs to.
func (x *Execution) ScopeOf(r *StepRun) Scope {
	return x.scopeOfTry(r.Try)
}

// scopeOfTry returns the scope of a try.
func (x *Execution) scopeOfTry(try int) Scope {
	if scope, ok := x.PastScopes[try]; ok {
		return scope
	}
	return x.Scope
}

// WasNarrowed reports whether a try was restricted to some of the entities.
func (x *Execution) WasNarrowed() bool {
	return x.Scope.Only != nil || slices.ContainsFunc(slices.Collect(maps.Values(x.PastScopes)), func(s Scope) bool { return s.Only != nil })
}

// RetriedFor reports whether a later try repeats the failed job that the entity at a place has in a step run. A
// try that is restricted to other entities does not.
func (x *Execution) RetriedFor(r *StepRun, place int) bool {
	if r.SupersededBy > 0 {
		for try := r.SupersededBy; try <= x.Try; try++ {
			if x.scopeOfTry(try).TakesIn(place) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(x.StepRuns, func(o StepRun) bool { return x.repeatsFailed(&o, r) && x.ScopeOf(&o).TakesIn(place) })
}

// RetriedForItem reports whether a later try starts another execution for the item of a set, from 0. A try that
// repeats the failed ones does not for those that ended well, unless the items are others by then.
func (x *Execution) RetriedForItem(r *StepRun, item int) bool {
	return r.SupersededBy > 0 || slices.ContainsFunc(x.StepRuns, func(o StepRun) bool {
		return x.repeatsFailed(&o, r) && o.List != nil && (o.Only == nil || !o.List.Same(r.List) || o.Only.Contains(item+1))
	})
}

// LastForwardTry returns the last try that was meant to execute steps: later tries have only rolled
// back what is left of it.
func (x *Execution) LastForwardTry() int { return x.Try - x.RollbackTries }
