package definition

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// checkDefinition checks what needs the whole definition, its expressions apart.
func (r *reader) checkDefinition(d *spec.Definition) {
	flat, paths := d.FlatSteps(), program.Paths(d)
	if len(flat) > maxSteps {
		r.ReportAt("steps", "limit", "at most %d steps, those of embedded workflows included, not %d", maxSteps, len(flat))
	}
	pathOfLabel := map[string]string{}
	for i, s := range flat {
		if first, ok := pathOfLabel[s.Label]; ok && s.Label != "" {
			r.ReportAt(paths[i]+".label", "duplicate", "the label %q is taken by %s", s.Label, first)
		} else {
			pathOfLabel[s.Label] = paths[i]
		}
		r.checkDuplicateParameters(s.Parameters, s.RawParameters, paths[i])
		if Embeds(d, s) {
			r.ReportAt(paths[i]+".workflowReference.workflow", "cycle", "the workflow embeds itself")
		}
	}
	for i, a := range d.Acquisitions() {
		r.checkDuplicateParameters(a.Parameters, a.RawParameters, program.AcquirePaths(d)[i])
	}
	if d.Cron != nil {
		r.checkSchedule(d)
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

// checkDuplicateParameters refuses a parameter that is given both filled and raw.
func (r *reader) checkDuplicateParameters(parameters, rawParameters json.RawMessage, path string) {
	var filled, raw map[string]json.RawMessage
	_ = json.Unmarshal(parameters, &filled) // both were read as objects
	_ = json.Unmarshal(rawParameters, &raw)
	for name := range raw {
		if _, duplicate := filled[name]; duplicate {
			r.ReportAt(yamldoc.JoinPath(path+".rawParameters", name), "duplicate", "%q is given in parameters too", name)
		}
	}
}

// checkSchedule checks that the runs which the clock starts can begin.
func (r *reader) checkSchedule(d *spec.Definition) {
	path := "cron"
	if !r.Has(path) {
		path = "triggers.cron"
	}
	// Any time will do: what comes at all comes within the years that are tried.
	if _, err := NextFireTime(d.Cron, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); errors.Is(err, errNoFireTime) {
		r.ReportAt(path+".schedule", "cron", "%v", err)
	}
	parameters := d.Cron.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage("{}")
	}
	for _, i := range schema.Validate(d.Parameters, parameters, path+".parameters") {
		at := i.Path
		for at != "" && !r.Has(at) { // what is missing is told where it should be
			at = at[:max(strings.LastIndex(at, "."), 0)]
		}
		r.ReportAtNode(at, i.Path, i.Code, "%s", i.Message)
	}
	if selector := d.Cron.ExecuteOnParameters; selector != nil && selector.Type == "" && d.SeedEntity == "" {
		r.ReportAt(path+".executeOnParameters", "required", "name the type here, or seedEntity of the definition")
	}
}
