package catalog

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

var resultExpression = regexp.MustCompile(`(?:^|[^.\w])([a-z]\w*)\.result\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(\()?`)

// checkResults warns of expressions that read what a step's result never has, by the
// schema of its block. A condition that does would skip every entity.
func (w *warner) checkResults(d *spec.Definition) error {
	steps := map[string]*spec.Step{}
	for _, s := range d.FlatSteps() {
		steps[s.Label] = s
	}
	for path, source := range program.Expressions(d) {
		for _, m := range resultExpression.FindAllStringSubmatch(program.StripHas(program.StripStrings(source)), -1) {
			s := steps[m[1]]
			if s == nil || s.FunctionBlock == "" {
				continue
			}
			b, err := w.newestBlock(s.FunctionBlock)
			if err != nil {
				return err
			}
			if b == nil {
				continue
			}
			read := strings.Split(m[2], ".")
			if m[3] != "" {
				read = read[:len(read)-1] // the last is a function
			}
			if name, near := unknownField(b.ResultSchema, read); name != "" {
				w.warn(path, "unknown_result", "the result of step %q has no %q by the schema of block %s%s", m[1], name, b.Ref(), near)
			}
		}
	}
	return nil
}

// objectSchema is what of a schema says which fields there are. Where anything else
// has a say in it, nothing is known.
type objectSchema struct {
	Properties           map[string]json.RawMessage `json:"properties"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	PatternProperties    json.RawMessage            `json:"patternProperties"`
	Ref                  json.RawMessage            `json:"$ref"`
	DynamicRef           json.RawMessage            `json:"$dynamicRef"`
	AllOf                json.RawMessage            `json:"allOf"`
	AnyOf                json.RawMessage            `json:"anyOf"`
	OneOf                json.RawMessage            `json:"oneOf"`
	If                   json.RawMessage            `json:"if"`
	DependentSchemas     json.RawMessage            `json:"dependentSchemas"`
}

func (o *objectSchema) allowsUnknown() bool {
	for _, other := range []json.RawMessage{o.PatternProperties, o.Ref, o.DynamicRef, o.AllOf, o.AnyOf, o.OneOf, o.If, o.DependentSchemas} {
		if other != nil {
			return true
		}
	}
	more := string(o.AdditionalProperties)
	return more != "" && more != "false" || more == "" && len(o.Properties) == 0
}

// unknownField is the first of the fields read, one within the other, that a schema
// does not have, with what it may have meant; "" if it has them or leaves it open.
func unknownField(schema json.RawMessage, read []string) (name, suggestion string) {
	for _, name := range read {
		var o objectSchema
		if json.Unmarshal(schema, &o) != nil || o.allowsUnknown() {
			return "", ""
		}
		property, ok := o.Properties[name]
		if !ok {
			return name, yamldoc.Suggest(name, slices.Sorted(maps.Keys(o.Properties)))
		}
		schema = property
	}
	return "", ""
}

// checkSharedLocks warns of blocks that change something in a run that shares its locks:
// such a run is refused when it starts.
func (w *warner) checkSharedLocks(d *spec.Definition, paths []string) {
	if d.Config.LockMode != workflow.LockShared {
		return
	}
	check := func(written, path string) {
		if b := w.blocks[written]; b != nil && !b.Pure {
			w.warn(path, "not_pure", "block %s is not pure, and with lockMode shared every run fails", b.Ref())
		}
	}
	for i, s := range d.FlatSteps() {
		check(s.FunctionBlock, paths[i]+".functionBlock")
	}
	acquires := program.AcquirePaths(d)
	for i, a := range d.Acquisitions() {
		check(a.Block, acquires[i]+".block")
	}
}

// checkCronSeconds warns of a schedule that is finer than the clock that starts it.
func (w *warner) checkCronSeconds(d *spec.Definition, source []byte) {
	if d.Cron == nil || len(strings.Fields(d.Cron.Schedule)) == 5 {
		return
	}
	path := "cron.schedule" // which stands at the root, or in triggers
	if definition.LocateIssues(source, []workflow.Issue{{Path: path}})[0].Line == 0 {
		path = "triggers." + path
	}
	w.warn(path, "seconds", "the schedule has a field of seconds, and a deployed service looks at the clock once a minute: write five fields")
}
