package plot

import (
	"fmt"
	"slices"
	"strings"
)

// Definition is a workflow as it is drawn: without a name.
type Definition struct {
	Head      []string // whole lines before the steps
	Config    []string // fields of config
	Steps     []*Step
	Tolerance int  // failures of one visit that are no failure of it
	Never     bool // it is not rolled back
	Open      bool // more than the jobs' outcomes decides how its runs end: no oracle knows
}

// Step is one step. One with nested steps has no block, one that refers to another
// definition neither.
type Step struct {
	Label    string
	Block    string
	Fields   []string // besides its label and block
	Nested   []*Step
	Survives bool   // continueOnError
	Other    string // the definition that it refers to
}

// Text is what stands behind the definition's name.
func (d *Definition) Text() string {
	var b strings.Builder
	for _, line := range d.Head {
		b.WriteString(line + "\n")
	}
	if len(d.Config) > 0 {
		b.WriteString("config: {" + strings.Join(d.Config, ", ") + "}\n")
	}
	b.WriteString("steps: " + list(d.Steps) + "\n")
	return b.String()
}

func list(steps []*Step) string {
	lines := make([]string, len(steps))
	for i, s := range steps {
		fields := slices.Concat([]string{"label: " + s.Label}, s.Fields)
		if s.Survives {
			fields = append(fields, "continueOnError: true")
		}
		if s.Block != "" {
			fields = append(fields, fmt.Sprintf("functionBlock: p/%s:1", s.Block))
		}
		if len(s.Nested) > 0 {
			fields = append(fields, "workflow: {steps: "+list(s.Nested)+"}")
		}
		lines[i] = "{" + strings.Join(fields, ", ") + "}"
	}
	return "[" + strings.Join(lines, ",\n  ") + "]"
}

// Blocks are the names of the blocks by label, "" of a step without one.
func (d *Definition) Blocks() map[string]string {
	blocks := map[string]string{}
	each(d.Steps, false, func(s *Step, _ bool) { blocks[s.Label] = s.Block })
	return blocks
}

// Handled are the steps whose failure a run survives.
func (d *Definition) Handled() map[string]bool {
	handled := map[string]bool{}
	each(d.Steps, false, func(s *Step, survives bool) { handled[s.Label] = survives })
	return handled
}

func each(steps []*Step, handled bool, do func(s *Step, handled bool)) {
	for _, s := range steps {
		survives := handled || s.Survives
		do(s, survives)
		each(s.Nested, survives, do)
	}
}

// Labels are the labels of all steps, depth first.
func (d *Definition) Labels() (labels []string) {
	each(d.Steps, false, func(s *Step, _ bool) { labels = append(labels, s.Label) })
	return labels
}

// Others are the definitions that it refers to.
func (d *Definition) Others() (names []string) {
	each(d.Steps, false, func(s *Step, _ bool) {
		if s.Other != "" {
			names = append(names, s.Other)
		}
	})
	return names
}

// Without is the definition without some steps and what is nested in them. It is
// nil if nothing is left.
func (d *Definition) Without(labels []string) *Definition {
	next := *d
	next.Steps = without(d.Steps, labels)
	if len(next.Steps) == 0 {
		return nil
	}
	return &next
}

func without(steps []*Step, labels []string) (kept []*Step) {
	for _, s := range steps {
		if slices.Contains(labels, s.Label) {
			continue
		}
		next := *s
		if len(s.Nested) > 0 {
			if next.Nested = without(s.Nested, labels); len(next.Nested) == 0 {
				continue
			}
		}
		kept = append(kept, &next)
	}
	return kept
}
