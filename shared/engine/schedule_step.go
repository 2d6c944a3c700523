package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// makeSchedule makes or removes the schedule of a step run. Whoever comes later with the same step run, or an
// older one of the execution, changes nothing. refused says why it never can be.
func (w *workspace) makeSchedule(ctx context.Context, step *spec.ScheduleStep, r *workflow.StepRun, parameters json.RawMessage) (refused, err error) {
	var in spec.ScheduleParameters
	if err := json.Unmarshal(parameters, &in); err != nil || !definition.ValidScheduleName(in.Name) {
		return workflow.Invalid("the schedule cannot be made", []workflow.Issue{{Path: "name", Code: "format", Message: "the name is a letter, then letters, digits, - and _, at most 64"}}), nil
	}
	if !step.Remove {
		if err := definition.CheckCron(in.Cron, in.Zone); err != nil {
			return workflow.Invalid("the schedule cannot be made", []workflow.Issue{{Path: "cron", Code: "cron", Message: err.Error()}}), nil
		}
	}
	s, err := w.scheduleOfStep(ctx, step, in.Name)
	if err != nil {
		return nil, err
	}
	name := s.Name
	on := s.Cron != nil && s.Removed == nil
	by := spec.ScheduleMaker{Execution: w.id, StepRun: r.Seq}
	switch {
	case s.Made(by), step.Remove && !on:
		return nil, nil
	case on && s.MadeBy == nil:
		return workflow.Errorf(workflow.CodeConflict, "the schedule %s is that of the definition", name), nil
	case on && s.MadeBy.Execution != w.id && !step.Replace:
		return workflow.Errorf(workflow.CodeConflict, "execution %s has made the schedule %s: with replace: true another one may change it", s.MadeBy.Execution, name), nil
	}
	now := w.e.now().UTC()
	s.SetMaker(by)
	if step.Remove {
		s.Removed, s.Paused = &spec.ScheduleHalt{By: "execution " + w.id, At: now}, nil
	} else {
		d, err := w.resolveWorkflow(ctx, views.StartRequest{Workflow: step.Workflow})
		if workflow.Is(err, workflow.CodeNotFound) || workflow.Is(err, workflow.CodeInvalid) {
			return err, nil
		}
		if err != nil {
			return nil, err
		}
		if issues := sealedIssues(d.Definition, in.Parameters); len(issues) > 0 {
			return workflow.Invalid("the schedule cannot be made", issues), nil
		}
		s.Workflow, s.Follows, s.Removed, s.Problem = d.Ref(), step.Workflow, nil, ""
		s.Cron = &spec.Cron{Name: in.Name, Schedule: in.Cron, Zone: in.Zone, Concurrency: step.Concurrency, Parameters: in.Parameters}
	}
	if s.FiringAt.IsZero() { // else the scheduler ends first what it has begun
		if s.NextAt = (time.Time{}); step.Remove {
			s.Cron = nil
		} else if s.Paused == nil {
			if s.NextAt, err = definition.NextFireTime(s.Cron, now); err != nil {
				return nil, err
			}
		}
	}
	ok, err := w.ports.Schedules.PutSchedule(ctx, s)
	if err == nil && !ok { // the execution may have gone on: it looks again
		err = workflow.Errorf(workflow.CodeUnavailable, "schedule %s was changed meanwhile", name)
	}
	return nil, err
}

// sealedIssues lists the sealed parameters of a definition to which a schedule gives values: it would store
// them for everybody to read.
func sealedIssues(d *spec.Definition, parameters json.RawMessage) (issues []workflow.Issue) {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(parameters, &given) // whether they fit is found out when it fires
	for _, name := range workflow.SealedProperties(d.Parameters) {
		if given[name] != nil {
			issues = append(issues, workflow.Issue{Path: "parameters." + name, Code: "sealed", Message: fmt.Sprintf("parameters.%s of %s is sealed: only a request can give it", name, d.Ref())})
		}
	}
	return issues
}

// scheduleOfStep reads the schedule that a step calls by a name.
func (w *workspace) scheduleOfStep(ctx context.Context, step *spec.ScheduleStep, name string) (s spec.Schedule, err error) {
	ref, err := workflow.ParseRef(step.Workflow)
	if err != nil {
		return s, err
	}
	return w.ports.Schedules.Schedule(ctx, w.tenant, spec.ScheduleName(ref.FullName(), name))
}

// hasMadeSchedule reports whether a step run has made or removed its schedule.
func (w *workspace) hasMadeSchedule(ctx context.Context, step *spec.ScheduleStep, r *workflow.StepRun, parameters json.RawMessage) (bool, error) {
	var in spec.ScheduleParameters
	if err := json.Unmarshal(parameters, &in); err != nil || !definition.ValidScheduleName(in.Name) {
		return false, nil
	}
	s, err := w.scheduleOfStep(ctx, step, in.Name)
	return s.Made(spec.ScheduleMaker{Execution: w.id, StepRun: r.Seq}), err
}

// scheduledDefinition is the definition that a schedule starts: an exact reference.
func (w *workspace) scheduledDefinition(ctx context.Context, s *spec.Schedule) (ref workflow.Ref, err error) {
	if s.Follows == "" {
		return s.Workflow, nil
	}
	d, err := w.resolveWorkflow(ctx, views.StartRequest{Workflow: s.Follows})
	if err != nil {
		return ref, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return d.Ref(), nil
}
