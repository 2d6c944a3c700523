package defgen

import "fmt"

// Reference is the body of a step that references another definition.
type Reference struct {
	Definition string // its name
	Mode       string // dispatch, fireAndForget or embed
	Device     string // of an execution of its own: the entity that it is started with
}

// Embeds reports whether the steps of the other definition belong to this execution.
func (r *Reference) Embeds() bool { return r.Mode == "embed" }

func drawReference(w *generator, s *Step, _ int) Body {
	if !w.allFeatures || len(w.references) == 0 || !w.oneIn("refers", 6) {
		return nil
	}
	r := &Reference{Definition: pick(w.Choose, "other", w.references...), Mode: pick(w.Choose, "mode", "dispatch", "dispatch", "fireAndForget", "embed")}
	if !r.Embeds() {
		r.Device = fmt.Sprintf("d%03d", w.Choose("device", 4))
	}
	switch w.Choose("passes on", 3) {
	case 0:
		s.Parameters = append(s.Parameters, whole("n", parameter("n")))
	case 1:
		s.Parameters = append(s.Parameters, Parameter{Name: "n", Text: "${2 + 3}", Reads: &Expression{}, value: func(Values) (any, bool) { return float64(5), true }})
	}
	return r
}

func (r *Reference) fields() []string {
	on := ""
	if !r.Embeds() {
		on = fmt.Sprintf(", executeOnParameters: {ids: [%s]}", r.Device)
	}
	return []string{fmt.Sprintf("workflowReference: {workflow: p/%s, mode: %s%s}", r.Definition, r.Mode, on)}
}

// Nested implements Body.
func (r *Reference) Nested() []*Step { return nil }

func (r *Reference) without([]string) Body { return r }
