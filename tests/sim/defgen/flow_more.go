package defgen

import "time"

// DrawMore draws a definition with branches, and gives its steps what more draws: branches may have
// a timeout. waits says that steps may wait.
func DrawMore(draw, more func(below int) int, waits bool) *Flow {
	f := DrawBranches
	if draw(3) > 0 {
		f = func(draw func(below int) int, waits bool) *Flow { return DrawFurther(draw, waits, true) }
	}
	flow := f(draw, waits)
	flow.each(func(s *FlowStep) {
		if s.Parallel != nil && more(2) == 0 {
			s.Parallel.Timeout = []time.Duration{4 * time.Second, 30 * time.Second, 100 * time.Second}[more(3)]
		}
	})
	return flow
}
