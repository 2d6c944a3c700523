// Package defgen generates random workflow definitions that use the whole format, with what a
// test must know of each to predict its outcome.
//
// definition.go has the definition as a tree, from which steps can be removed to shrink a
// failure; generate.go generates one.
package defgen

import (
	"fmt"
	"slices"
	"strings"
)

// Definition is a generated workflow definition without its name.
type Definition struct {
	HeadLines        []string // whole lines before the steps
	ConfigFields     []string // fields of config
	Steps            []*Step
	FailureTolerance int  // failures in one step run that do not fail it
	NeverRollback    bool // rollback: never
	Unpredictable    bool // the outcome does not follow from the jobs' outcomes alone
}

// Step is one step. A step with nested steps or a reference has no block.
type Step struct {
	Label           string
	Block           string
	Fields          []string // all fields but label and block
	Nested          []*Step
	ContinueOnError bool   // continueOnError
	Reference       string // name of the definition that it references
}

// YAML returns the text of the definition after its name.
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

// BlocksByLabel returns the names of the steps' blocks by label, "" for a step without one.
func (d *Definition) BlocksByLabel() map[string]string {
	blocks := map[string]string{}
	walkSteps(d.Steps, false, func(s *Step, _ bool) { blocks[s.Label] = s.Block })
	return blocks
}

// HandledSteps returns for each step whether the execution continues when it fails.
func (d *Definition) HandledSteps() map[string]bool {
	handled := map[string]bool{}
	walkSteps(d.Steps, false, func(s *Step, continues bool) { handled[s.Label] = continues })
	return handled
}

func walkSteps(steps []*Step, handled bool, do func(s *Step, handled bool)) {
	for _, s := range steps {
		continueOnError := handled || s.ContinueOnError
		do(s, continueOnError)
		walkSteps(s.Nested, continueOnError, do)
	}
}

// Labels returns the labels of all steps, depth first.
func (d *Definition) Labels() (labels []string) {
	walkSteps(d.Steps, false, func(s *Step, _ bool) { labels = append(labels, s.Label) })
	return labels
}

// References returns the names of the definitions that it references.
func (d *Definition) References() (names []string) {
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		if s.Reference != "" {
			names = append(names, s.Reference)
		}
	})
	return names
}

// WithoutSteps returns the definition without some steps and the steps nested in them, nil if
// no step remains.
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
