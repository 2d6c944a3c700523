package definition

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

var parameterRE = regexp.MustCompile(`(?:^|[^.\w])parameters\.([A-Za-z_]\w*)`)

// checkDeclaredParameters refuses expressions that read a parameter which the definition's own
// schema does not allow: no run can ever have it.
func (r *reader) checkDeclaredParameters(d *spec.Definition) {
	var parameterSchema struct {
		Properties           map[string]json.RawMessage `json:"properties"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
		PatternProperties    map[string]json.RawMessage `json:"patternProperties"`
	}
	// An additionalProperties that is a schema, or anything else that is not plainly
	// closed, says nothing.
	if json.Unmarshal(d.Parameters, &parameterSchema) != nil || parameterSchema.AdditionalProperties == nil || *parameterSchema.AdditionalProperties || len(parameterSchema.PatternProperties) > 0 {
		return
	}
	for path, source := range program.Expressions(d) {
		for _, m := range parameterRE.FindAllStringSubmatch(program.StripStrings(source), -1) {
			if _, declared := parameterSchema.Properties[m[1]]; !declared {
				near := yamldoc.Suggest(m[1], slices.Sorted(maps.Keys(parameterSchema.Properties)))
				r.ReportAt(path, "unknown_parameter", "the definition takes no parameter %q%s", m[1], near)
			}
		}
	}
}
