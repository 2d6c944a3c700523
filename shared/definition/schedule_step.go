package definition

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/cron"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// scheduleStep reads the schedule that a step makes or removes. What of it is evaluated are the parameters of the step.
func (r *reader) scheduleStep(s *spec.Step) yamldoc.Field {
	made, in := &spec.ScheduleStep{}, &spec.ScheduleParameters{}
	return yamldoc.Named("scheduleStep", r.Object(yamldoc.Fields{
		"name":        r.Text(&in.Name).Required("name the schedule"),
		"workflow":    r.reference(&made.Workflow).Required("name the workflow that it starts"),
		"cron":        r.Text(&in.Cron),
		"zone":        r.Text(&in.Zone),
		"parameters":  r.Raw(&in.Parameters, true),
		"concurrency": r.Bool(&made.Concurrency),
		"replace":     r.Bool(&made.Replace),
		"remove":      r.Bool(&made.Remove),
	}).Finally(func(n ast.Node, path string) {
		if !made.Remove && !r.Has(path+".cron") {
			r.Report(n, path+".cron", "required", "say when it starts the workflow: cron; or remove")
		}
		for _, name := range []string{"cron", "zone", "parameters", "concurrency"} {
			if made.Remove && r.Has(path+"."+name) {
				r.ReportAt(path+"."+name, "conflict", "a schedule that is removed has no %s", name)
			}
		}
		literal := func(name, text string) bool { return r.Has(path+"."+name) && !strings.Contains(text, "${") }
		if name := "cron"; literal(name, in.Cron) {
			if err := CheckCron(in.Cron, ""); err != nil {
				r.ReportAt(path+"."+name, "cron", "%v", err)
			}
		}
		if name := "zone"; literal(name, in.Zone) {
			if _, err := loadZone(in.Zone); err != nil {
				r.ReportAt(path+"."+name, "zone", "%v", err)
			}
		}
		if name := "name"; literal(name, in.Name) && !ValidScheduleName(in.Name) {
			r.ReportAt(path+"."+name, "format", "want a letter, then letters, digits, - and _, at most 64")
		}
		raw, err := workflow.EncodeJSON(in)
		if err != nil {
			return // it was read
		}
		s.Schedule, s.Parameters = made, raw
	}))
}

var scheduleNameRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// ValidScheduleName reports whether a schedule of a workflow may have a name.
func ValidScheduleName(name string) bool { return scheduleNameRE.MatchString(name) }

func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // Local differs between machines
		return nil, badZone(name)
	}
	return zone, nil
}

func badZone(name string) error {
	return fmt.Errorf("want a time zone such as Europe/Zurich, not %q", workflow.Truncate(name, 64))
}

// CheckCron says what is wrong with a schedule and its zone, which may be empty.
func CheckCron(schedule, zone string) error {
	if _, err := cron.Parse(schedule); err != nil {
		return err
	}
	if _, err := loadZone(zone); err != nil {
		return err
	}
	_, err := NextFireTime(&spec.Cron{Schedule: schedule, Zone: zone}, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	return err
}
