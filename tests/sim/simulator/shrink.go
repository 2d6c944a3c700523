package simulator

import (
	"maps"
	"slices"
)

func corpusFor(seed uint64) *corpus { return newCorpus(seed) }

// publishedNames are the definitions that have been published.
func (t *Simulator) publishedNames() []string { return slices.Sorted(maps.Keys(t.published)) }

// Shrink makes a play that breaks a law as short as it can: with fewer acts, fewer
// faults and shorter definitions, as long as the same law is broken. It plays the
// seed at most tries times.
func Shrink(seed uint64, invariant string, maxRuns int) (Cut, Result) {
	var best Cut
	s := shrinker{seed: seed, invariant: invariant, runsLeft: maxRuns}
	s.best = s.run(best)
	if s.best.Violation == nil || s.best.Violation.Invariant != invariant {
		return best, s.best
	}
	for {
		before := s.cut.String()
		s.dropFaults()
		s.dropActions()
		s.dropSteps()
		if s.cut.String() == before || s.runsLeft <= 0 {
			return s.cut, s.best
		}
	}
}

type shrinker struct {
	seed      uint64
	invariant string
	runsLeft  int
	cut       Cut
	best      Result
}

func (s *shrinker) run(c Cut) Result {
	s.runsLeft--
	return New(corpusFor(s.seed)).Run(s.seed, c, nil)
}

// size is how much there is to read of a play: its calls, and its faults, which are
// harder to follow.
func size(r Result) int { return r.Calls + 5*len(r.Faults) }

// tryCut takes a cut over if the same invariant is violated with it too, and the play is
// not longer: leaving out a fault may let an execution go on.
func (s *shrinker) tryCut(c Cut) bool {
	if s.runsLeft <= 0 {
		return false
	}
	r := s.run(c)
	if r.Violation == nil || r.Violation.Invariant != s.invariant || size(r) > size(s.best) {
		return false
	}
	s.cut, s.best = c, r
	return true
}

// dropFaults leaves out all faults, or those of the second half, or one after the
// other.
func (s *shrinker) dropFaults() {
	none := s.cut
	if none.MaxFault = -1; s.cut.MaxFault != -1 && s.tryCut(none) {
		return
	}
	for high := s.maxFaultNumber(); high > 1; {
		half := s.cut
		half.MaxFault = high / 2
		if !s.tryCut(half) {
			break
		}
		high = half.MaxFault
	}
	for _, fault := range slices.Backward(slices.Clone(s.best.Faults)) {
		one := s.cut
		one.Faults = append(slices.Clone(s.cut.Faults), fault.Number)
		if !slices.Contains(s.cut.Faults, fault.Number) {
			s.tryCut(one)
		}
	}
}

func (s *shrinker) maxFaultNumber() int {
	last := 0
	for _, fault := range s.best.Faults {
		last = max(last, fault.Number)
	}
	return last
}

func (s *shrinker) dropActions() {
	for _, a := range slices.Backward(newScenario(s.seed).Actions) {
		if !slices.Contains(s.cut.Actions, a.Number) {
			one := s.cut
			one.Actions = append(slices.Clone(s.cut.Actions), a.Number)
			s.tryCut(one)
		}
	}
}

func (s *shrinker) dropSteps() {
	t := New(corpusFor(s.seed))
	t.Run(s.seed, s.cut, nil)
	for _, name := range t.publishedNames() {
		d := corpusFor(s.seed).definition(name)
		remainingLabels := func(c Cut) []string {
			if short := d.WithoutSteps(c.cutSteps(name)); short != nil {
				return short.Labels()
			}
			return nil
		}
		for _, label := range slices.Backward(d.Labels()) {
			one := s.cut
			one.Steps = append(slices.Clone(s.cut.Steps), name+"."+label)
			if n := len(remainingLabels(one)); n > 0 && n < len(remainingLabels(s.cut)) {
				s.tryCut(one)
			}
		}
	}
}
