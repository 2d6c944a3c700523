package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// checkDefinition checks what needs the whole definition, except its expressions.
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
		if c := s.Compensate; c != nil {
			r.checkDuplicateParameters(c.Parameters, c.RawParameters, paths[i]+".compensate")
			if s.Reference != nil && s.Reference.Mode != workflow.ModeDispatch {
				r.ReportAt(paths[i]+".compensate", "conflict", "only a step that waits for the execution that it starts is undone by another one: want mode dispatch")
			}
			if s.Reference != nil && s.Foreach != nil {
				r.ReportAt(paths[i]+".compensate", "conflict", "what a set of executions has done is not undone: start one for each, in steps of their own")
			}
		}
		if embedsItself(d, s) {
			r.ReportAt(paths[i]+".workflowReference.workflow", "cycle", "the workflow embeds itself")
		}
	}
	for i, a := range d.Acquisitions() {
		r.checkDuplicateParameters(a.Parameters, a.RawParameters, program.AcquirePaths(d)[i])
	}
	cron := "cron"
	if !r.Has(cron) {
		cron = "triggers.cron"
	}
	if d.Cron != nil {
		r.checkSchedule(d, d.Cron, cron)
	}
	for i := range d.Crons {
		r.checkSchedule(d, &d.Crons[i], fmt.Sprintf("%s[%d]", cron, i))
	}
	r.checkTriggers(d)
	r.checkPipes(d)
}

// EmbeddedRef returns the reference to the definition that a step embeds, if any.
func EmbeddedRef(s *spec.Step) (workflow.Ref, bool) {
	if s.Reference == nil || s.Reference.Mode != workflow.ModeEmbed {
		return workflow.Ref{}, false
	}
	ref, err := workflow.ParseRef(s.Reference.Workflow)
	return ref, err == nil
}

// embedsItself reports whether a step embeds the definition that contains it, or will once that is
// published.
func embedsItself(d *spec.Definition, s *spec.Step) bool {
	ref, ok := EmbeddedRef(s)
	return ok && ref.FullName() == d.Ref().FullName() && ref.Matches(d.Version)
}

// checkDuplicateParameters refuses a parameter that is both in parameters and in
// rawParameters.
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

// checkSchedule checks that scheduled executions can start.
func (r *reader) checkSchedule(d *spec.Definition, c *spec.Cron, path string) {
	// Any time will do: a schedule that ever fires does so within the years that are searched.
	if _, err := NextFireTime(c, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); errors.Is(err, errNoFireTime) {
		r.ReportAt(path+".schedule", "cron", "%v", err)
	}
	parameters := c.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage("{}")
	}
	for _, i := range schema.Validate(d.Parameters, parameters, path+".parameters") {
		at := i.Path
		for at != "" && !r.Has(at) { // a missing value is reported at the object that should hold it
			at = at[:max(strings.LastIndex(at, "."), 0)]
		}
		r.ReportAtNode(at, i.Path, i.Code, "%s", i.Message)
	}
	if selector := c.ExecuteOnParameters; selector != nil && selector.Type == "" && d.SeedEntity == "" {
		r.ReportAt(path+".executeOnParameters", "required", "name the type here, or seedEntity of the definition")
	}
}

var parameterRE = regexp.MustCompile(`(?:^|[^.\w])parameters\.([A-Za-z_]\w*)`)

// checkDeclaredParameters refuses expressions that read a parameter which the definition's
// schema does not allow. No execution can have it.
func (r *reader) checkDeclaredParameters(d *spec.Definition) {
	var parameterSchema struct {
		Properties           map[string]json.RawMessage `json:"properties"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
		PatternProperties    map[string]json.RawMessage `json:"patternProperties"`
	}
	// Only additionalProperties: false forbids further parameters. A schema there, or
	// patternProperties, may allow some.
	if json.Unmarshal(d.Parameters, &parameterSchema) != nil || parameterSchema.AdditionalProperties == nil || *parameterSchema.AdditionalProperties || len(parameterSchema.PatternProperties) > 0 {
		return
	}
	for path, source := range program.Expressions(d) {
		for _, m := range parameterRE.FindAllStringSubmatch(program.StripStrings(source), -1) {
			if _, declared := parameterSchema.Properties[m[1]]; !declared {
				near := workflow.DidYouMean(m[1], slices.Sorted(maps.Keys(parameterSchema.Properties)))
				r.ReportAt(path, "unknown_parameter", "the definition takes no parameter %q%s", m[1], near)
			}
		}
	}
}
