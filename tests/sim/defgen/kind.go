package defgen

// Body is what a step does, one type for each kind of step.
type Body interface {
	// fields are the fields of the step that say it.
	fields() []string
	// Nested are the steps that are nested in the step, in the same definition.
	Nested() []*Step
	// without is the body without some steps, nil if nothing remains of it.
	without(labels []string) Body
}

// kind is a kind of step. Its draw returns nil if the step shall be of another kind.
type kind struct {
	name string
	draw func(w *generator, s *Step, depth int) Body
}

// kinds are the kinds of steps in the order in which they are tried. The last one never
// declines.
func kinds() []kind {
	return []kind{{"nested", drawNested}, {"reference", drawReference}, {"block", drawBlock}}
}
