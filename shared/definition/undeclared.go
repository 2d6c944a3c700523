package definition

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

var parameterRE = regexp.MustCompile(`(?:^|[^.\w])parameters\.([A-Za-z_]\w*)`)

// undeclared refuses expressions that read a parameter which the definition's own
// schema does not allow: no run can ever have it.
func (r *reader) undeclared(d *spec.Definition) {
	var own struct {
		Properties           map[string]json.RawMessage `json:"properties"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
		PatternProperties    map[string]json.RawMessage `json:"patternProperties"`
	}
	// An additionalProperties that is a schema, or anything else that is not plainly
	// closed, says nothing.
	if json.Unmarshal(d.Parameters, &own) != nil || own.AdditionalProperties == nil || *own.AdditionalProperties || len(own.PatternProperties) > 0 {
		return
	}
	for path, source := range program.Expressions(d) {
		for _, m := range parameterRE.FindAllStringSubmatch(program.WithoutText(source), -1) {
			if _, declared := own.Properties[m[1]]; !declared {
				near := document.Suggest(m[1], slices.Sorted(maps.Keys(own.Properties)))
				r.At(path, "unknown_parameter", "the definition takes no parameter %q%s", m[1], near)
			}
		}
	}
}
