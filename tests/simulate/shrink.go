package simulate

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

func companyFor(seed uint64) *workload.Company { return workload.CompanyOf(seed) }

// names are the definitions that have been published.
func (t *Theatre) names() []string { return slices.Sorted(maps.Keys(t.published)) }

// Shrink makes a play that breaks a law as short as it can: with fewer acts, fewer
// faults and shorter definitions, as long as the same law is broken. It plays the
// seed at most tries times.
func Shrink(seed uint64, law string, tries int) (Cut, Result) {
	var best Cut
	s := shrinking{seed: seed, law: law, left: tries}
	s.best = s.play(best)
	if s.best.Violation == nil || s.best.Violation.Law != law {
		return best, s.best
	}
	for {
		before := s.cut.String()
		s.faults()
		s.acts()
		s.steps()
		if s.cut.String() == before || s.left <= 0 {
			return s.cut, s.best
		}
	}
}

type shrinking struct {
	seed uint64
	law  string
	left int
	cut  Cut
	best Result
}

func (s *shrinking) play(c Cut) Result {
	s.left--
	return NewTheatre(companyFor(s.seed)).Play(s.seed, c, nil)
}

// keep takes a cut over if the law is broken with it too.
func (s *shrinking) keep(c Cut) bool {
	if s.left <= 0 {
		return false
	}
	r := s.play(c)
	if r.Violation == nil || r.Violation.Law != s.law {
		return false
	}
	s.cut, s.best = c, r
	return true
}

// faults leaves out all faults, or those of the second half, or one after the
// other.
func (s *shrinking) faults() {
	none := s.cut
	if none.After = -1; s.cut.After != -1 && s.keep(none) {
		return
	}
	for high := s.last(); high > 1; {
		half := s.cut
		half.After = high / 2
		if !s.keep(half) {
			break
		}
		high = half.After
	}
	for _, strike := range slices.Backward(slices.Clone(s.best.Strikes)) {
		one := s.cut
		one.Faults = append(slices.Clone(s.cut.Faults), strike.N)
		if !slices.Contains(s.cut.Faults, strike.N) {
			s.keep(one)
		}
	}
}

func (s *shrinking) last() int {
	last := 0
	for _, strike := range s.best.Strikes {
		last = max(last, strike.N)
	}
	return last
}

func (s *shrinking) acts() {
	for _, a := range slices.Backward(workload.Draw(s.seed).Acts) {
		if !slices.Contains(s.cut.Acts, a.N) {
			one := s.cut
			one.Acts = append(slices.Clone(s.cut.Acts), a.N)
			s.keep(one)
		}
	}
}

func (s *shrinking) steps() {
	t := NewTheatre(companyFor(s.seed))
	t.Play(s.seed, s.cut, nil)
	for _, name := range t.names() {
		d := companyFor(s.seed).Definition(name)
		left := func(c Cut) []string {
			if short := d.Without(c.labels(name)); short != nil {
				return short.Labels()
			}
			return nil
		}
		for _, label := range slices.Backward(d.Labels()) {
			one := s.cut
			one.Steps = append(slices.Clone(s.cut.Steps), name+"."+label)
			if n := len(left(one)); n > 0 && n < len(left(s.cut)) {
				s.keep(one)
			}
		}
	}
}
