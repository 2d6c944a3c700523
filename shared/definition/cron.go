package definition

import (
	"errors"
	"time"
	_ "time/tzdata" // so that zones are known wherever the binary runs

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/cron"
	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func (r *reader) cron(into **spec.Cron) document.Field {
	return document.Pointer(into, func(c *spec.Cron) document.Field {
		return document.Named("cron", r.Object(document.Fields{
			"schedule":            r.timetable(&c.Schedule).Required("say when to run"),
			"zone":                r.zone(&c.Zone),
			"concurrency":         r.Flag(&c.Concurrency),
			"parameters":          r.Raw(&c.Parameters, true),
			"executeOnParameters": document.Pointer(&c.On, r.selector),
			"disabled":            r.Flag(&c.Disabled),
		}))
	})
}

// timetable reads the five classic fields, and before them perhaps one of seconds;
// nothing else that cron libraries know.
func (r *reader) timetable(into *string) document.Field {
	return r.Text(into).With(document.Shape{"pattern": `^\s*(\S+\s+){4,5}\S+\s*$`}).Then(r.Reader, func(n ast.Node, path string) {
		if _, err := cron.Parse(*into); err != nil {
			r.Issue(n, path, "cron", "%v", err)
		}
	})
}

func (r *reader) zone(into *string) document.Field {
	return r.checked(into, document.Shape{"minLength": 1}, "zone", "want a time zone such as Europe/Zurich", func(s string) bool {
		_, err := time.LoadLocation(s)
		return err == nil && s != "" && s != "Local" // which is another one on every machine
	}).Then(r.Reader, func(ast.Node, string) {
		if *into == "UTC" {
			*into = "" // the default, written out
		}
	})
}

func (r *reader) selector(s *workflow.Selector) document.Field {
	return r.Object(document.Fields{
		"type":   r.id(&s.Type),
		"ids":    r.ids(&s.IDs),
		"groups": r.ids(&s.Groups),
		"query": r.expr(&s.Query).Then(r.Reader, func(n ast.Node, path string) {
			if _, err := expr.CompileQuery(s.Query); err != nil {
				r.Issue(n, path, "expression", "%v", err)
			}
		}),
	}).Then(r.Reader, r.saysWhich)
}

// saysWhich checks that a selector that names a type says which entities of it.
func (r *reader) saysWhich(n ast.Node, path string) {
	given := func(name string) bool { return r.Given(path + "." + name) }
	if given("type") && !given("ids") && !given("groups") && !given("query") {
		r.Issue(n, path, "required", "%s", workflow.SayWhich)
	}
}

// selectorShape is a selector whose values may be tokens.
var selectorShape = document.Shape{
	"type": "object", "additionalProperties": false,
	"properties": document.Shape{
		"type": document.Shape{"type": "string"}, "query": document.Shape{"type": "string"},
		"ids": listOrToken, "groups": listOrToken,
	},
}

var listOrToken = document.Shape{"anyOf": []document.Shape{
	{"type": "string", "pattern": tokenPattern},
	{"type": "array", "items": document.Shape{"type": "string"}, "maxItems": maxIDs},
}}

// selectorNames checks the names of a selector whose values may be tokens; the
// values are checked when they are known.
func (r *reader) selectorNames(n ast.Node, path string) {
	var s workflow.Selector
	var text string
	list := func(into *[]string) document.Field {
		return document.Either(r.Text(&text), document.List(r.Reader, into, maxIDs, r.Text))
	}
	r.Object(document.Fields{
		"type": r.Text(&s.Type), "query": r.Text(&s.Query),
		"ids": list(&s.IDs), "groups": list(&s.Groups),
	}).Then(r.Reader, r.saysWhich).Read(n, path)
}

// errNever is of a schedule such as the 31st of February.
var errNever = errors.New("the schedule never comes")

// NextRun is when a schedule comes next after a time, in UTC; see [cron.Schedule.Next]
// for the days on which clocks change.
func NextRun(c *spec.Cron, after time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(c.Zone) // none is UTC
	if err != nil {
		return time.Time{}, err
	}
	s, err := cron.Parse(c.Schedule)
	if err != nil {
		return time.Time{}, err
	}
	next, ok := s.Next(after, zone)
	if !ok {
		return time.Time{}, errNever
	}
	return next, nil
}
