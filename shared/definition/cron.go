package definition

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that zones are known wherever the binary runs

	"github.com/adhocore/gronx"
	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func (r *reader) cron(into **spec.Cron) document.Field {
	return document.Pointer(into, func(c *spec.Cron) document.Field {
		return document.Named("cron", r.Object(document.Fields{
			"schedule": r.Text(&c.Schedule).With(document.Shape{"pattern": `^\s*(\S+\s+){4,5}\S+\s*$`}).Then(r.Reader, func(n ast.Node, path string) {
				if !validSchedule(c.Schedule) {
					r.Issue(n, path, "cron", "%s", wrongSchedule(c.Schedule))
				}
			}).Required("say when to run"),
			"zone":                r.zone(&c.Zone),
			"concurrency":         r.Flag(&c.Concurrency),
			"parameters":          r.Raw(&c.Parameters, true),
			"executeOnParameters": document.Pointer(&c.On, r.selector),
			"disabled":            r.Flag(&c.Disabled),
		}))
	})
}

// validSchedule accepts the five classic fields, and before them one of seconds;
// nothing that the library knows besides: years and names such as @daily.
func validSchedule(s string) bool {
	fields := strings.Fields(s)
	return (len(fields) == 5 || len(fields) == 6 && !yearly.MatchString(fields[5])) && gronx.IsValid(s)
}

// scheduleFields are the fields of a schedule, with the numbers that each takes.
var scheduleFields = []struct {
	name      string
	low, high int
}{{"second", 0, 59}, {"minute", 0, 59}, {"hour", 0, 23}, {"day", 1, 31}, {"month", 1, 12}, {"weekday", 0, 6}}

var numbersRE = regexp.MustCompile(`(^|[^0-9A-Za-z/])([0-9]+)`) // those after / are steps

// wrongSchedule says what is wrong with a schedule: which of its numbers is out
// of range, if that is what it is.
func wrongSchedule(s string) string {
	fields := strings.Fields(s)
	if len(fields) < 5 || len(fields) > 6 {
		return "want five fields: minute, hour, day, month, weekday"
	}
	var wrong []string
	for i, field := range fields {
		of := scheduleFields[i+len(scheduleFields)-len(fields)]
		for _, m := range numbersRE.FindAllStringSubmatch(field, -1) {
			if n, err := strconv.Atoi(m[2]); err != nil || n < of.low || n > of.high {
				wrong = append(wrong, fmt.Sprintf("the %s %s is out of range: want %d to %d", of.name, m[2], of.low, of.high))
			}
		}
	}
	if len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	for i, field := range fields { // each by itself, to find the one that cannot be read
		alone := []string{"*", "*", "*", "*", "*", "*"}[:len(fields)]
		if alone[i] = field; !gronx.IsValid(strings.Join(alone, " ")) {
			return fmt.Sprintf("the %s %q cannot be read: want *, numbers, ranges such as 1-5, lists, or steps such as */10", scheduleFields[i+len(scheduleFields)-len(fields)].name, field)
		}
	}
	return "want five fields: minute, hour, day, month, weekday"
}

// yearly is what the library takes for a year in the sixth field.
var yearly = regexp.MustCompile(`\d{4}`)

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
	})
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
	}).Read(n, path)
}

// errNever is of a schedule such as the 31st of February.
var errNever = errors.New("the schedule never comes")

// NextRun is when a schedule comes next after a time, in UTC. Where clocks go
// forward, what falls into the missing hour does not happen that day; where they
// go back, it happens once.
func NextRun(c *spec.Cron, after time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(c.Zone) // none is UTC
	if err != nil {
		return time.Time{}, err
	}
	next, err := gronx.NextTickAfter(c.Schedule, after.In(zone), false)
	if err != nil || !next.After(after) {
		return time.Time{}, errNever
	}
	return next.UTC(), nil
}
