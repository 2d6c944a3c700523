package defgen

// Nested is the body of a step that contains others.
type Nested struct{ Steps []*Step }

// maxDepth is how deep steps are nested.
const maxDepth = 2

func drawNested(w *generator, s *Step, depth int) Body {
	if depth >= maxDepth || !w.oneIn("nested", 3) {
		return nil
	}
	if w.allFeatures && w.oneIn("nested condition", 4) {
		s.Condition = compare(parameter("n"), ">", 2)
	}
	return &Nested{Steps: w.steps(depth + 1)}
}

func (n *Nested) fields() []string {
	return []string{"workflow: {steps: " + formatSteps(n.Steps) + "}"}
}

// Nested implements Body.
func (n *Nested) Nested() []*Step { return n.Steps }

func (n *Nested) without(labels []string) Body {
	if steps := removeSteps(n.Steps, labels); len(steps) > 0 {
		return &Nested{steps}
	}
	return nil
}
