package definition

import (
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // so that zones are known on every machine

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/cron"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// cron reads the schedule of a definition, or a list of several that have names.
func (r *reader) cron(d *spec.Definition) yamldoc.Field {
	fields := func(c *spec.Cron) yamldoc.Fields {
		return yamldoc.Fields{
			"schedule":            r.cronSchedule(&c.Schedule).Required("say when to run"),
			"zone":                r.zone(&c.Zone),
			"concurrency":         r.Bool(&c.Concurrency),
			"parameters":          r.Raw(&c.Parameters, true),
			"executeOnParameters": yamldoc.Optional(&c.ExecuteOnParameters, r.selector),
			"disabled":            r.Bool(&c.Disabled),
		}
	}
	one := yamldoc.Optional(&d.Cron, func(c *spec.Cron) yamldoc.Field { return yamldoc.Named("cron", r.Object(fields(c))) })
	several := yamldoc.List(r.Reader, &d.Crons, spec.MaxCrons, func(c *spec.Cron) yamldoc.Field {
		named := fields(c)
		named["name"] = r.name(&c.Name).Required("name each of several schedules")
		return yamldoc.Named("namedCron", r.Object(named))
	}).Then(r.Reader, func(n ast.Node, path string) {
		if len(d.Crons) == 0 {
			r.Report(n, path, "required", "1 to %d schedules", spec.MaxCrons)
		}
		for i, c := range d.Crons {
			if first := slices.Index(d.CronNames(), c.Name); first < i && c.Name != "" {
				r.ReportAt(fmt.Sprintf("%s[%d].name", path, i), "duplicate", "the name %q is taken by schedule %d", c.Name, first+1)
			}
		}
	}).WithSchema(yamldoc.Schema{"minItems": 1})
	return yamldoc.Either(func(n ast.Node) bool { _, ok := n.(*ast.SequenceNode); return ok }, several, one)
}

// cronSchedule reads five fields, or six with seconds first. It accepts no extensions of cron
// libraries.
func (r *reader) cronSchedule(into *string) yamldoc.Field {
	return r.Text(into).WithSchema(yamldoc.Schema{"pattern": `^\s*(\S+\s+){4,5}\S+\s*$`}).Then(r.Reader, func(n ast.Node, path string) {
		if _, err := cron.Parse(*into); err != nil {
			r.Report(n, path, "cron", "%v", err)
		}
	})
}

func (r *reader) zone(into *string) yamldoc.Field {
	return r.Text(into).WithSchema(yamldoc.Schema{"minLength": 1}).Then(r.Reader, func(n ast.Node, path string) {
		_, err := loadZone(*into)
		switch {
		case err != nil || *into == "":
			r.Report(n, path, "zone", "%v", badZone(*into))
		case *into == "UTC":
			*into = "" // UTC is the default
		}
	})
}

func (r *reader) selector(s *workflow.Selector) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"type":   r.id(&s.Type),
		"ids":    r.ids(&s.IDs),
		"groups": r.ids(&s.Groups),
		"query": r.expr(&s.Query).Then(r.Reader, func(n ast.Node, path string) {
			if _, err := expr.CompileQuery(s.Query); err != nil {
				r.Report(n, path, "expression", "%v", err)
			}
		}),
	}).Then(r.Reader, r.checkSelector)
}

// checkSelector checks that a selector with a type also selects entities of that type.
func (r *reader) checkSelector(n ast.Node, path string) {
	given := func(name string) bool { return r.Has(path + "." + name) }
	if given("type") && !given("ids") && !given("groups") && !given("query") {
		r.Report(n, path, "required", "%s", workflow.UnspecifiedSelectorHint)
	}
}

// selectorSchema is the schema of a selector whose values may be tokens.
var selectorSchema = yamldoc.Schema{
	"type": "object", "additionalProperties": false,
	"properties": yamldoc.Schema{
		"type": yamldoc.Schema{"type": "string"}, "query": yamldoc.Schema{"type": "string"},
		"ids": listOrToken, "groups": listOrToken,
	},
}

var listOrToken = yamldoc.Schema{"anyOf": []yamldoc.Schema{
	{"type": "string", "pattern": tokenPattern},
	{"type": "array", "items": yamldoc.Schema{"type": "string"}, "maxItems": maxIDs},
}}

// checkSelectorFields checks the field names of a selector whose values may be tokens. The
// values are checked when the tokens are filled.
func (r *reader) checkSelectorFields(n ast.Node, path string) {
	var s workflow.Selector
	var text string
	list := func(into *[]string) yamldoc.Field {
		return yamldoc.ScalarOr(r.Text(&text), yamldoc.List(r.Reader, into, maxIDs, r.Text))
	}
	r.Object(yamldoc.Fields{
		"type": r.Text(&s.Type), "query": r.Text(&s.Query),
		"ids": list(&s.IDs), "groups": list(&s.Groups),
	}).Then(r.Reader, r.checkSelector).Read(n, path)
}

// errNoFireTime is the error for a schedule that never fires, such as one for the 31st of February.
var errNoFireTime = errors.New("the schedule never fires")

// NextFireTime returns the first time after the given one at which a schedule fires, in UTC. See
// [cron.Schedule.Next] for days on which clocks change.
func NextFireTime(c *spec.Cron, after time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(c.Zone) // "" is UTC
	if err != nil {
		return time.Time{}, err
	}
	s, err := cron.Parse(c.Schedule)
	if err != nil {
		return time.Time{}, err
	}
	next, ok := s.Next(after, zone)
	if !ok {
		return time.Time{}, errNoFireTime
	}
	return next, nil
}
