package definition

import (
	"encoding/json"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Limits of a definition.
const (
	maxSteps      = 200
	maxNesting    = 5 // of embedded workflows
	maxLabels     = 50
	maxTextLength = 4096 // characters of a description
	maxAcquire    = 20
	maxIDs        = 10_000
	maxInFlight   = 1_000_000
)

// definition reads the root object.
func (r *reader) definition(d *spec.Definition) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"package":        r.name(&d.Package).Required("the field package is required"),
		"name":           r.name(&d.Name).Required("the field name is required"),
		"version":        r.version(&d.Version).Required("the field version is required"),
		"description":    r.shortText(&d.Description),
		"labels":         r.labels(&d.Labels),
		"metadata":       r.metadata(&d.Metadata),
		"parameters":     r.schema(&d.Parameters).Then(r.Reader, func(n ast.Node, path string) { r.checkSealed(n, path, d.Parameters) }),
		"seedEntity":     r.entityType(&d.SeedEntity),
		"acquire":        r.acquires(&d.Acquire),
		"assertNotEmpty": yamldoc.Optional(&d.AssertNotEmpty, r.Bool),
		"config":         r.config(&d.Config),
		"steps":          r.steps(&d.Steps, 0).Required(errNoSteps),
		"output":         r.Raw(&d.Output, true),
		"onEnd":          r.onEnd(&d.OnEnd),
		"pipes":          yamldoc.List(r.Reader, &d.Pipes, spec.MaxPipes, r.pipe),
		"cron":           r.cron(d),
		"triggers": r.Object(yamldoc.Fields{
			"cron":  r.cron(d),
			"http":  yamldoc.List(r.Reader, &d.Triggers.HTTP, spec.MaxTriggers, r.httpTrigger),
			"event": yamldoc.List(r.Reader, &d.Triggers.Event, spec.MaxTriggers, r.eventTrigger),
		}),
	}).Finally(func(ast.Node, string) {
		if r.Has("cron") && r.Has("triggers.cron") {
			r.ReportAt("triggers.cron", "duplicate", "the schedule is already given in cron")
		}
	})
}

// metadata reads an object that is kept and never read.
func (r *reader) metadata(into *json.RawMessage) yamldoc.Field {
	return r.Raw(into, true).Then(r.Reader, func(n ast.Node, path string) {
		if len(*into) > workflow.MaxMetadataBytes {
			r.Report(n, path, "limit", "at most %d bytes as JSON, not %d", workflow.MaxMetadataBytes, len(*into))
		}
	})
}

func (r *reader) labels(into *map[string]string) yamldoc.Field {
	schema := yamldoc.Schema{
		"type": "object", "maxProperties": maxLabels,
		"additionalProperties": yamldoc.Schema{"type": "string", "maxLength": maxTextLength},
	}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		values, ok := r.Mapping(n, path)
		if !ok {
			return
		}
		if len(values) > maxLabels {
			r.Report(n, path, "limit", "at most %d labels", maxLabels)
			return
		}
		*into = map[string]string{}
		for _, v := range values {
			var s string
			r.shortText(&s).Read(v.Value, yamldoc.JoinPath(path, yamldoc.KeyOf(v)))
			(*into)[yamldoc.KeyOf(v)] = s
		}
	})
}

// checkSealed reports properties that cannot be sealed.
func (r *reader) checkSealed(n ast.Node, path string, schema json.RawMessage) {
	if issue := sealedIssue(schema); issue != "" {
		r.Report(n, path, "sealed", "%s", issue)
	}
}

// schema reads a JSON Schema, and compiles it to check that it is one.
func (r *reader) schema(into *json.RawMessage) yamldoc.Field {
	return r.Raw(into, true).Then(r.Reader, func(n ast.Node, path string) {
		if err := schema.Check(*into); err != nil {
			r.Report(n, path, "schema", "%v", err)
		}
	})
}
