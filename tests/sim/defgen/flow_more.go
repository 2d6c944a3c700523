package defgen

import "time"

// DrawMore draws a definition with branches, and gives its steps what more draws: branches may have
// a timeout, and blocks ask to wait. waits says that steps may wait.
func DrawMore(draw, more func(below int) int, waits bool) *Flow {
	f := DrawBranches
	if draw(3) > 0 {
		f = func(draw func(below int) int, waits bool) *Flow { return DrawFurther(draw, waits, true) }
	}
	flow := f(draw, waits)
	flow.decorate(flow.Steps, true, more)
	return flow
}

// decorate gives the steps of a list what more draws. ends means that one of them may end the execution.
func (f *Flow) decorate(steps []FlowStep, ends bool, more func(below int) int) {
	for i := range steps {
		s := &steps[i]
		calls := s.Block != "" && !s.OnDevices && s.Input == nil && s.Each == nil && !s.Callback && s.Answers == nil && s.Asks == 0
		switch {
		case s.Parallel != nil && more(2) == 0:
			s.Parallel.Timeout = []time.Duration{4 * time.Second, 30 * time.Second, 100 * time.Second}[more(3)]
		case calls && more(4) == 0:
			f.asksToWait(s, steps[i+1:], ends, more)
		}
		f.decorate(s.Inner, ends, more)
		for _, cases := range [][]FlowCase{s.Switch, s.OnFailure} {
			for _, c := range cases {
				f.decorate(c.Steps, ends, more)
			}
		}
		if s.Parallel != nil {
			for _, b := range s.Parallel.Branches {
				f.decorate(b.Steps, false, more)
			}
		}
	}
}

// asksToWait lets the block of a step ask to wait. Two of three such steps say where the execution
// goes on then; what comes is their result.
func (f *Flow) asksToWait(s *FlowStep, behind []FlowStep, ends bool, more func(below int) int) {
	s.Asks = []time.Duration{3 * time.Second, 70 * time.Second}[more(2)]
	var targets []string
	for i := range behind {
		targets = append(targets, behind[i].Label)
	}
	if ends {
		targets = append(targets, "end")
	}
	if len(targets) == 0 || more(3) == 0 {
		return
	}
	s.OnResume, s.OutputKey = targets[more(len(targets))], ""
	if more(2) == 0 {
		s.OutputKey = "w" + s.Label
	}
}
