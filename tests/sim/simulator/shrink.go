package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// publishedNames returns the names of the published definitions.
func (t *Simulator) publishedNames() []string { return slices.Sorted(maps.Keys(t.published)) }

// Shrink makes a simulation that violates an invariant as short as possible: with fewer
// actions, fewer faults and fewer steps, as long as it violates the same invariant. It
// simulates the seed at most maxRuns times.
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
	return New(newCorpus(s.seed)).Run(s.seed, c, nil)
}

// size weighs how much there is to read in a simulation. A fault counts as five calls, because it
// is harder to follow.
func size(r Result) int { return r.Calls + 5*len(r.Faults) }

// tryCut adopts a cut if the simulation still violates the same invariant and is not longer. It can
// become longer: without a fault an execution may continue.
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

// dropFaults tries to leave out all faults, then the second half, then single ones.
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
	t := New(newCorpus(s.seed))
	t.Run(s.seed, s.cut, nil)
	for _, name := range t.publishedNames() {
		d := newCorpus(s.seed).definition(name)
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

// Cut is what a shrunk simulation leaves out. The zero value leaves nothing out. Its text is the
// argument of -cut.
type Cut struct {
	Actions  []int    // by number
	MaxFault int      // faults with a higher number are not injected; 0 allows all, -1 none
	Faults   []int    // faults that are not injected either, by number
	Steps    []string // as DEFINITION.LABEL
}

// allowsFault reports whether a fault may be injected.
func (c *Cut) allowsFault(n int) bool {
	return (c.MaxFault == 0 || n <= c.MaxFault) && !slices.Contains(c.Faults, n)
}

// cutSteps returns the steps that are left out of a definition.
func (c *Cut) cutSteps(definition string) (labels []string) {
	for _, s := range c.Steps {
		if name, label, _ := strings.Cut(s, "."); name == definition {
			labels = append(labels, label)
		}
	}
	return labels
}

// String returns "actions:1,2;after:9;faults:3,4;steps:w1.s2" without empty parts.
func (c Cut) String() string {
	var parts []string
	part := func(name string, values []string) {
		if len(values) > 0 {
			parts = append(parts, name+":"+strings.Join(values, ","))
		}
	}
	part("actions", formatInts(c.Actions))
	if c.MaxFault != 0 {
		part("after", formatInts([]int{c.MaxFault}))
	}
	part("faults", formatInts(c.Faults))
	part("steps", c.Steps)
	return strings.Join(parts, ";")
}

func formatInts(numbers []int) (all []string) {
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// ParseCut parses the result of String.
func ParseCut(text string) (c Cut, err error) {
	if text == "" {
		return c, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		name, list, _ := strings.Cut(part, ":")
		values := strings.Split(list, ",")
		switch name {
		case "actions":
			c.Actions, err = parseInts(values)
		case "faults":
			c.Faults, err = parseInts(values)
		case "after":
			c.MaxFault, err = strconv.Atoi(list)
		case "steps":
			c.Steps = values
		default:
			err = fmt.Errorf("unknown part %q: use actions, after, faults or steps", name)
		}
		if err != nil {
			return c, fmt.Errorf("invalid cut %q: %w", text, err)
		}
	}
	return c, nil
}

func parseInts(values []string) (all []int, err error) {
	for _, v := range values {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
