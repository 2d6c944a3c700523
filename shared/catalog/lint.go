package catalog

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Lint checks a definition without storing it. It returns the warnings of Publish, plus warnings
// that are too strict for a publication because they concern style, or what a block may yet
// declare. longestWait is how long a step may wait under locks before that is worth a warning. The
// error is that of Publish.
func (c *Catalog) Lint(ctx context.Context, caller workflow.Caller, source []byte, longestWait time.Duration) ([]workflow.Issue, error) {
	p, _, err := c.Publish(ctx, caller, source, true)
	if err != nil {
		return nil, err
	}
	d, err := definition.Parse(source)
	if err != nil {
		return nil, err
	}
	w := &warner{ctx: ctx, registry: c.openPorts().Registry, tenant: caller.Tenant, blocks: map[string]*workflow.Block{}}
	paths := program.Paths(d)
	if err := w.checkDeclaredResults(d); err != nil {
		return nil, err
	}
	w.checkLongWaits(d, paths, longestWait, true)
	w.checkNeverRuns(d, paths)
	w.checkOptionalParameters(d)
	published := slices.DeleteFunc(p.Warnings, func(i workflow.Issue) bool { return i.Code == longWait }) // by the limit of Publish
	return definition.LocateIssues(source, append(published, w.issues...)), nil
}

// checkDeclaredResults warns about expressions that read a field of a block's result if the block
// declares no results at all: nobody would notice a misspelling.
func (w *warner) checkDeclaredResults(d *spec.Definition) error {
	steps, warned := stepsByLabel(d), map[string]bool{}
	for path, source := range program.Expressions(d) {
		reads, err := w.resultReads(steps, source)
		if err != nil {
			return err
		}
		for _, r := range reads {
			name := r.fields[0]
			if key := path + " " + r.step + "." + name; len(r.block.ResultSchema) == 0 && !warned[key] {
				warned[key] = true
				w.warn(path, "undeclared_result", "this reads %q of the result of step %q, and block %s has no result schema that declares it", name, r.step, r.block.Ref())
			}
		}
	}
	return nil
}

// checkOptionalParameters warns about steps that read a parameter which a start may leave out, if no has() in the
// definition asks for it: such a start fails in that step.
func (w *warner) checkOptionalParameters(d *spec.Definition) {
	var schema struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(d.Parameters, &schema) != nil {
		return
	}
	asked, read := map[string]bool{}, map[string]string{} // by parameter: the path that reads it first
	for path, source := range program.Expressions(d) {
		source = program.StripStrings(source)
		for _, m := range askedParameter.FindAllStringSubmatch(source, -1) {
			asked[m[1]] = true
		}
		for _, m := range parameterExpression.FindAllStringSubmatch(program.StripHas(source), -1) {
			_, declared := schema.Properties[m[1]]
			if at := read[m[1]]; declared && strings.HasPrefix(path, "steps") && (at == "" || path < at) {
				read[m[1]] = path
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if !asked[name] && !slices.Contains(schema.Required, name) {
			w.warn(read[name], "optional_parameter", "a start without the parameter %q fails here: require it, or write has(parameters.%s) ? parameters.%s : another value", name, name, name)
		}
	}
}

var askedParameter = regexp.MustCompile(`has\(parameters\.([A-Za-z_]\w*)\)`)

// checkNeverRuns warns about steps that execute nothing: their condition is never true, or nothing
// in the definition selects entities of their type. Unreachable steps are reported by every
// publication.
func (w *warner) checkNeverRuns(d *spec.Definition, paths []string) {
	selected := map[string]bool{workflow.RunOnGlobal: true, d.SeedEntity: true}
	for _, a := range d.Acquisitions() {
		selected[a.Type] = true
	}
	for i, s := range d.FlatSteps() {
		if strings.TrimSpace(s.Condition) == "false" {
			w.warn(paths[i]+".condition", "never_true", "step %q never runs: its condition is false", s.Label)
		}
		if s.FunctionBlock != "" && s.Foreach == nil && !selected[s.BlockRunsOn()] {
			w.warn(paths[i]+".runOn", "no_entities", "step %q has no jobs unless whoever starts it selects entities of type %s: it is neither the seedEntity nor acquired", s.Label, s.BlockRunsOn())
		}
	}
}
