package defgen

// GenerateBreaks generates a definition as [GenerateAny] does, whose blocks answer BREAK now and
// then. Most of its steps repeat.
func GenerateBreaks(choose Choose, references []string) *Definition {
	d := GenerateAny(choose, references)
	d.Breaks, d.Unpredictable = true, true
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		if b, ok := s.Body.(*Block); ok && b.Items > 0 || s.Repeat != nil {
			return
		}
		if choose("repeats", 3) > 0 {
			s.Repeat = &Repeat{Count: 2 + choose("times", 2)}
		}
	})
	return d
}
