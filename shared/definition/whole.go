package definition

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// whole checks what needs the whole definition, its expressions apart.
func (r *reader) whole(d *spec.Definition) {
	flat, paths := d.Flat(), program.Paths(d)
	if len(flat) > maxSteps {
		r.At("steps", "limit", "at most %d steps, those of embedded workflows included, not %d", maxSteps, len(flat))
	}
	taken := map[string]string{}
	for i, s := range flat {
		if first, ok := taken[s.Label]; ok && s.Label != "" {
			r.At(paths[i]+".label", "duplicate", "the label %q is taken by %s", s.Label, first)
		} else {
			taken[s.Label] = paths[i]
		}
		r.twice(s.Parameters, s.RawParameters, paths[i])
		if Embeds(d, s) {
			r.At(paths[i]+".workflowReference.workflow", "cycle", "the workflow embeds itself")
		}
	}
	for i, a := range d.Acquisitions() {
		r.twice(a.Parameters, a.RawParameters, program.AcquirePaths(d)[i])
	}
	if d.Cron != nil {
		r.schedule(d)
	}
}

// Embeds reports whether a step embeds the definition that it stands in, or
// would as soon as that is published.
func Embeds(d *spec.Definition, s *spec.Step) bool {
	if s.Reference == nil || s.Reference.Mode != workflow.ModeEmbed {
		return false
	}
	ref, err := workflow.ParseRef(s.Reference.Workflow)
	return err == nil && ref.FullName() == d.Ref().FullName() && ref.Matches(d.Version)
}

// twice refuses a parameter that is given both filled and raw.
func (r *reader) twice(parameters, rawParameters json.RawMessage, path string) {
	var filled, raw map[string]json.RawMessage
	_ = json.Unmarshal(parameters, &filled) // both were read as objects
	_ = json.Unmarshal(rawParameters, &raw)
	for name := range raw {
		if _, both := filled[name]; both {
			r.At(document.Join(path+".rawParameters", name), "duplicate", "%q is given in parameters too", name)
		}
	}
}

// schedule checks that the runs which the clock starts can begin.
func (r *reader) schedule(d *spec.Definition) {
	path := "cron"
	if !r.Given(path) {
		path = "triggers.cron"
	}
	// Any time will do: what comes at all comes within the years that are tried.
	if _, err := NextRun(d.Cron, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); errors.Is(err, errNever) {
		r.At(path+".schedule", "cron", "%v", err)
	}
	parameters := d.Cron.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage("{}")
	}
	for _, i := range schema.Validate(d.Parameters, parameters, path+".parameters") {
		at := i.Path
		for at != "" && !r.Given(at) { // what is missing is told where it should be
			at = at[:max(strings.LastIndex(at, "."), 0)]
		}
		r.AtValue(at, i.Path, i.Code, "%s", i.Message)
	}
	if on := d.Cron.On; on != nil && on.Type == "" && d.SeedEntity == "" {
		r.At(path+".executeOnParameters", "required", "name the type here, or seedEntity of the definition")
	}
}
