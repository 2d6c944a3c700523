// Package defgen generates random workflow definitions that use the whole format, together with
// what a test must know about each to predict what its executions do.
//
// definition.go has the definition as a tree, from which steps can be removed to shrink a failure.
// generate.go generates a definition; kind.go lists the kinds of steps, each of which has its own
// file: block.go, nested.go and reference.go. limits.go has definitions with limits and paces,
// children.go steps that start several executions, invalid.go definitions that are refused, and
// expression.go expressions, with their meaning. ends.go has what the end of an execution starts.
//
// flow.go has definitions with choices. Their further kinds of steps are in flow_ask.go (waits for
// people and signals), flow_branch.go (branches), flow_rollout.go (rollouts and foreach),
// flow_further.go and flow_more.go (the others). flow_extra.go has steps that the engine does itself, flow_data.go
// the values in them. breaks.go has definitions whose blocks answer BREAK.
package defgen

import (
	"slices"
	"strings"
	"time"
)

// Definition is a generated workflow definition without its name.
type Definition struct {
	ConfigFields     []string // fields of config
	Acquire          *Acquisition
	Steps            []*Step
	FailureTolerance int  // failures in one step run that do not fail it
	NeverRollback    bool // rollback: never
	SkipsLocked      bool // onLocked: skip
	LeavesFailed     bool // onEntityFailure: leave
	Parallel         bool // executionStrategy.parallel
	Unpredictable    bool // the outcome does not follow from the jobs' outcomes alone
	Limits           *Limits
	StartsSets       bool // a step starts an execution for each of several devices
	Breaks           bool // blocks answer BREAK now and then

	Parameters string               // the schema of its parameters, "" for any
	Ends       map[string]*FollowUp // what its ends start, by their kind

	Flow    *Flow  // all but the ends of a definition with choices; the other fields are empty
	Refused string // the same of an invalid definition
}

// Acquisition is what a definition acquires in addition to the entities of its starter.
type Acquisition struct {
	Text   string
	Block  bool   // its block returns the entities
	Group  string // the entities of this group
	Select *Expression
}

// Step is one step.
type Step struct {
	Label           string
	Fields          []string // fields that do not affect what the steps pass on
	ContinueOnError bool
	Delay           time.Duration
	Pace            time.Duration // from the start of one job to the start of the next, 0 for no pace
	Repeat          *Repeat
	Condition       *Expression
	Assert          *Expression
	Parameters      []Parameter
	Body            Body // what it does
}

// Repeat describes how often a step is entered.
type Repeat struct {
	Count int
	Delay time.Duration
	While *Expression
}

// YAML returns the text of the definition that follows its name.
func (d *Definition) YAML() string { return d.body() + d.endsYAML() }

func (d *Definition) body() string {
	switch {
	case d.Flow != nil:
		return d.Flow.YAML()
	case d.Refused != "":
		return d.Refused
	}
	var b strings.Builder
	if d.Parameters != "" {
		b.WriteString("parameters: " + d.Parameters + "\n")
	}
	if d.Acquire != nil {
		b.WriteString("acquire: [" + d.Acquire.Text + "]\n")
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
		lines[i] = "{" + strings.Join(s.fields(), ", ") + "}"
	}
	return "[" + strings.Join(lines, ",\n  ") + "]"
}

func (s *Step) fields() []string {
	fields := []string{"label: " + s.Label}
	if r := s.Repeat; r != nil {
		fields = append(fields, "repeat: "+r.text())
	}
	if s.Delay > 0 {
		fields = append(fields, "delay: "+s.Delay.String())
	}
	fields = append(fields, s.Fields...)
	if s.Condition != nil {
		fields = append(fields, "condition: "+quote(s.Condition.Text))
	}
	if s.Assert != nil {
		fields = append(fields, "assert: "+quote(s.Assert.Text))
	}
	if len(s.Parameters) > 0 {
		fields = append(fields, formatParameters(s.Parameters))
	}
	if s.ContinueOnError {
		fields = append(fields, "continueOnError: true")
	}
	return append(fields, s.Body.fields()...)
}

// BlocksByLabel returns the names of the steps' blocks by label, "" for a step without one.
func (d *Definition) BlocksByLabel() map[string]string {
	blocks := map[string]string{}
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		blocks[s.Label] = ""
		if b, ok := s.Body.(*Block); ok {
			blocks[s.Label] = b.Name
		}
	})
	return blocks
}

// ItemsTolerated returns, for each step with items, how many of them may fail.
func (d *Definition) ItemsTolerated() map[string]int {
	tolerated := map[string]int{}
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		if b, ok := s.Body.(*Block); ok && b.Items > 0 {
			tolerated[s.Label] = b.ItemsTolerated
		}
	})
	return tolerated
}

// HandledSteps returns, for each step, whether the execution continues when it fails.
func (d *Definition) HandledSteps() map[string]bool {
	handled := map[string]bool{}
	walkSteps(d.Steps, false, func(s *Step, continues bool) { handled[s.Label] = continues })
	return handled
}

func walkSteps(steps []*Step, handled bool, do func(s *Step, handled bool)) {
	for _, s := range steps {
		continueOnError := handled || s.ContinueOnError
		do(s, continueOnError)
		walkSteps(s.Body.Nested(), continueOnError, do)
	}
}

// Labels returns the labels of all steps, depth first.
func (d *Definition) Labels() (labels []string) {
	walkSteps(d.Steps, false, func(s *Step, _ bool) { labels = append(labels, s.Label) })
	return labels
}

// References returns the names of the definitions that it references.
func (d *Definition) References() (names []string) {
	for _, kind := range endKinds {
		if f := d.Ends[kind]; f != nil && !slices.Contains(names, f.Definition) {
			names = append(names, f.Definition)
		}
	}
	switch {
	case d.Flow != nil:
		if d.Flow.further {
			names = append(names, Escalated)
		}
		if d.Flow.splits {
			names = append(names, Started)
		}
		return names
	case d.Refused != "":
		return append(names, Changing)
	}
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		switch b := s.Body.(type) {
		case *Reference:
			names = append(names, b.Definition)
		case *ChildSet:
			names = append(names, b.Definition)
		}
	})
	return names
}

// WithoutSteps returns the definition without some steps and the steps nested in them. It returns
// nil if no step remains, or if a remaining step reads the result of a removed one.
func (d *Definition) WithoutSteps(labels []string) *Definition {
	next := *d
	if d.Flow != nil || d.Refused != "" {
		return &next
	}
	next.Steps = removeSteps(d.Steps, labels)
	if len(next.Steps) == 0 || next.readsRemoved() {
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
		if next.Body = s.Body.without(labels); next.Body != nil {
			kept = append(kept, &next)
		}
	}
	return kept
}

// readsRemoved reports whether the text names the result of a step that the definition lacks.
func (d *Definition) readsRemoved() bool {
	text, labels := d.YAML(), d.Labels()
	for i, c := range text {
		rest := text[i:]
		if c != 's' || i > 0 && isWord(text[i-1]) {
			continue
		}
		label, after, found := strings.Cut(rest, ".")
		if found && strings.HasPrefix(after, "result") && strings.Trim(label[1:], "0123456789") == "" && !slices.Contains(labels, label) {
			return true
		}
	}
	return false
}

func isWord(c byte) bool {
	return c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z'
}
