package defgen

import (
	"fmt"
	"slices"
	"strings"
)

// Definition is a workflow as it is drawn: without a name.
type Definition struct {
	HeadLines        []string // whole lines before the steps
	ConfigFields     []string // fields of config
	Steps            []*Step
	FailureTolerance int  // failures of one visit that are no failure of it
	NeverRollback    bool // it is not rolled back
	Unpredictable    bool // more than the jobs' outcomes decides how its runs end: no oracle knows
}

// Step is one step. One with nested steps has no block, one that refers to another
// definition neither.
type Step struct {
	Label           string
	Block           string
	Fields          []string // besides its label and block
	Nested          []*Step
	ContinueOnError bool   // continueOnError
	Reference       string // the definition that it refers to
}

// YAML is what stands behind the definition's name.
func (d *Definition) YAML() string {
	var b strings.Builder
	for _, line := range d.HeadLines {
		b.WriteString(line + "\n")
	}
	if len(d.ConfigFields) > 0 {
		b.WriteString("config: {" + strings.Join(d.ConfigFields, ", ") + "}\n")
	}
	b.WriteString("steps: " + formatSteps(d.Steps) + "\n")
	return b.String()
}

func formatSteps(steps []*Step) string {
	lines := make([]string, len(steps))
	for i, s := range steps {
		fields := slices.Concat([]string{"label: " + s.Label}, s.Fields)
		if s.ContinueOnError {
			fields = append(fields, "continueOnError: true")
		}
		if s.Block != "" {
			fields = append(fields, fmt.Sprintf("functionBlock: p/%s:1", s.Block))
		}
		if len(s.Nested) > 0 {
			fields = append(fields, "workflow: {steps: "+formatSteps(s.Nested)+"}")
		}
		lines[i] = "{" + strings.Join(fields, ", ") + "}"
	}
	return "[" + strings.Join(lines, ",\n  ") + "]"
}

// BlocksByLabel are the names of the blocks by label, "" of a step without one.
func (d *Definition) BlocksByLabel() map[string]string {
	blocks := map[string]string{}
	walkSteps(d.Steps, false, func(s *Step, _ bool) { blocks[s.Label] = s.Block })
	return blocks
}

// HandledSteps are the steps whose failure a run survives.
func (d *Definition) HandledSteps() map[string]bool {
	handled := map[string]bool{}
	walkSteps(d.Steps, false, func(s *Step, survives bool) { handled[s.Label] = survives })
	return handled
}

func walkSteps(steps []*Step, handled bool, do func(s *Step, handled bool)) {
	for _, s := range steps {
		continueOnError := handled || s.ContinueOnError
		do(s, continueOnError)
		walkSteps(s.Nested, continueOnError, do)
	}
}

// Labels are the labels of all steps, depth first.
func (d *Definition) Labels() (labels []string) {
	walkSteps(d.Steps, false, func(s *Step, _ bool) { labels = append(labels, s.Label) })
	return labels
}

// References are the definitions that it refers to.
func (d *Definition) References() (names []string) {
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		if s.Reference != "" {
			names = append(names, s.Reference)
		}
	})
	return names
}

// WithoutSteps is the definition without some steps and what is nested in them. It is
// nil if nothing is left.
func (d *Definition) WithoutSteps(labels []string) *Definition {
	next := *d
	next.Steps = removeSteps(d.Steps, labels)
	if len(next.Steps) == 0 {
		return nil
	}
	return &next
}

func removeSteps(steps []*Step, labels []string) (kept []*Step) {
	for _, s := range steps {
		if slices.Contains(labels, s.Label) {
			continue
		}
		next := *s
		if len(s.Nested) > 0 {
			if next.Nested = removeSteps(s.Nested, labels); len(next.Nested) == 0 {
				continue
			}
		}
		kept = append(kept, &next)
	}
	return kept
}
