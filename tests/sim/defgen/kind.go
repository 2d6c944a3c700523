package defgen

// Body is what a step does, one type for each kind of step.
type Body interface {
	// fields returns the fields of the step that describe it.
	fields() []string
	// Nested returns the steps nested in the step, in the same definition.
	Nested() []*Step
	// without returns the body without some steps, nil if nothing remains.
	without(labels []string) Body
}

// kind is a kind of step. Its draw returns nil if the step should be of another kind.
type kind struct {
	name string
	draw func(w *generator, s *Step, depth int) Body
}

// kinds returns the kinds of steps in the order in which they are tried. The last one never
// declines.
func kinds() []kind {
	return []kind{{"nested", drawNested}, {"reference", drawReference}, {"block", drawBlock}}
}
