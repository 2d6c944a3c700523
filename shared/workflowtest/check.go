package workflowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// checkRefused compares an error with the code with which something should be refused.
func (p *play) checkRefused(path, want, what string, err error) {
	var e *workflow.Error
	switch {
	case err == nil:
		p.fail(path, "want %s to be refused with %s, and it was accepted", what, want)
	case want == "":
		p.fail(strings.TrimSuffix(path, ".refused"), "%s was refused: %s", what, described(err))
	case !errors.As(err, &e) || string(e.Code) != want:
		p.fail(path, "want %s to be refused with %s, and it was with: %s", what, want, described(err))
	}
}

// described returns an error with its code and its issues.
func described(err error) string {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Message + " (" + string(e.Code) + ")"
	for _, i := range e.Issues {
		text += "; " + i.String()
	}
	return text
}

// check reads the outcome of the execution and compares it.
func (p *play) check(ctx context.Context, r *Result) error {
	x, err := p.query.Execution(ctx, author, p.id)
	if err != nil {
		return err
	}
	end := p.Now()
	if x.EndedAt != nil {
		end = *x.EndedAt
	}
	r.Execution, r.State, r.Status, r.Took = x.ID, string(x.State), string(x.Status), workflow.Duration(end.Sub(p.started))
	if x.Outcome != nil {
		r.Outcome = string(*x.Outcome)
	}
	failure, cause, waiting := "", "", ""
	if x.Error != nil {
		failure = x.Error.Code
		r.Error = &workflow.Failure{Code: x.Error.Code, Message: x.Error.Message}
		if x.Error.Step != nil {
			r.Error.Step = *x.Error.Step
		}
		if x.Error.Entity != nil {
			r.Error.Entity = *x.Error.Entity
		}
	}
	if x.Cause != nil {
		cause = string(*x.Cause)
	}
	if x.Waiting != nil {
		waiting = string(x.Waiting.Kind)
	}
	want := &p.test.expect
	for _, field := range []struct{ name, want, got string }{
		{"status", want.status, r.Status}, {"state", want.state, r.State}, {"outcome", want.outcome, r.Outcome}, {"cause", want.cause, cause},
		{"error", want.failure, failure}, {"waiting", want.waiting, waiting},
	} {
		if field.want != "" && field.want != field.got {
			p.fail("expect."+field.name, "want %s, got %s%s", field.want, orNone(field.got), because(r, x.FailedEntities))
		}
	}
	if x.Status == statemachines.StatusFailed && want.status+want.state+want.outcome+want.cause+want.failure == "" {
		p.fail("expect", "nothing says that it fails%s", because(r, x.FailedEntities))
	}
	if want.within > 0 && (x.EndedAt == nil || r.Took > want.within) {
		p.fail("expect.within", "want the end within %s, got %s", want.within.Std(), map[bool]string{true: "no end", false: r.Took.Std().String()}[x.EndedAt == nil])
	}
	if r.Steps, err = p.steps(ctx); err != nil {
		return err
	}
	if r.FollowUps, err = p.followUps(ctx); err != nil {
		return err
	}
	p.checkFollowUps(r.FollowUps)
	for _, compare := range []func(context.Context) error{p.checkValues, p.checkEntities, p.checkLocks} {
		if err := compare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// because returns why an execution, or else some of its entities, failed.
func because(r *Result, failed []workflow.EntityFailure) string {
	if r.Error == nil {
		var all strings.Builder
		for _, f := range failed {
			fmt.Fprintf(&all, "; %s ended %s in step %s with %s: %s", f.Entity, f.Outcome, f.Step, f.Code, f.Message)
		}
		return all.String()
	}
	text := "; it failed with " + r.Error.Code + ": " + r.Error.Message
	if r.Error.Step != "" {
		text += " (step " + strings.TrimSpace(r.Error.Step+" "+r.Error.Entity) + ")"
	}
	return text
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// steps returns the labels of the steps that the execution has entered, in order.
func (p *play) steps(ctx context.Context) ([]string, error) {
	labels := []string{}
	for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
		list, err := p.query.Steps(ctx, author, p.id, page)
		if err != nil {
			return nil, err
		}
		for _, s := range list.Items {
			if s.Kind == nil || *s.Kind == workflow.JobExecute {
				labels = append(labels, s.Step)
			}
		}
		if page.Token = list.NextToken; page.Token == "" {
			return labels, nil
		}
	}
}

// checkCalls compares what was executed, in order.
func (p *play) checkCalls(r *Result) {
	want := &p.test.expect
	for _, list := range []struct {
		name      string
		want, got []string
	}{{"steps", want.steps, r.Steps}, {"jobs", want.jobs, r.Jobs}, {"rollbacks", want.rollbacks, r.Rollbacks}} {
		if want.given[list.name] {
			p.compareLists("expect."+list.name, list.want, list.got)
		}
	}
	for i, used := range p.used {
		if !used {
			p.fail("answers["+strconv.Itoa(i)+"]", "no call of a block has had this answer")
		}
	}
}

// compareLists reports the first difference between two lists.
func (p *play) compareLists(path string, want, got []string) {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			p.fail(path, "want %d, got %d: after the last also %q", len(want), len(got), got[i])
			return
		case i >= len(got):
			p.fail(path+"["+strconv.Itoa(i)+"]", "want %q, got nothing more", want[i])
			return
		case want[i] != got[i]:
			p.fail(path+"["+strconv.Itoa(i)+"]", "want %q, got %q", want[i], got[i])
			return
		}
	}
}

// checkValues compares the output and the results of steps.
func (p *play) checkValues(ctx context.Context) error {
	want := &p.test.expect
	if want.output == nil && want.results == nil {
		return nil
	}
	r, err := p.query.Result(ctx, author, p.id)
	if err != nil {
		return err
	}
	if want.output != nil {
		p.compareValues("expect.output", want.output, r.Output)
	}
	for _, step := range p.fields("expect.results", want.results) {
		got, ok := r.Steps[step.name]
		if !ok {
			p.fail("expect.results."+step.name, "want %s, and step %q has no result", step.value, step.name)
			continue
		}
		p.compareValues("expect.results."+step.name, step.value, resultOf(got))
	}
	return nil
}

// resultOf returns the result of a step, or those of its entities by id.
func resultOf(s views.StepResult) json.RawMessage {
	if s.RunOn == workflow.RunOnGlobal {
		return s.Result
	}
	raw, err := workflow.EncodeJSON(s.Results)
	if err != nil {
		return nil
	}
	return raw
}

func (p *play) compareValues(path string, want, got json.RawMessage) {
	if !reflect.DeepEqual(decode(want), decode(got)) {
		if got == nil {
			got = json.RawMessage("null")
		}
		p.fail(path, "want %s, got %s", want, got)
	}
}

// field is one field of an expected object.
type field struct {
	name  string
	value json.RawMessage
}

// fields returns the fields of an object, in the order of their names.
func (p *play) fields(path string, object json.RawMessage) (all []field) {
	if object == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(object, &values); err != nil {
		p.fail(path, "want an object")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, field{name, values[name]})
	}
	return all
}

// checkEntities compares the outcomes of entities, and their attributes in the inventory.
func (p *play) checkEntities(ctx context.Context) error {
	for _, e := range p.fields("expect.entities", p.test.expect.entities) {
		path := "expect.entities." + e.name
		key, ok := parseKey(e.name)
		if !ok {
			p.fail(path, "want TYPE/ID, such as device/sw-1")
			continue
		}
		var want string
		if err := json.Unmarshal(e.value, &want); err != nil {
			p.fail(path, "want one of %v", workflow.EntityOutcomes())
			continue
		}
		executions, err := p.query.EntityExecutions(ctx, author, key)
		if err != nil {
			p.fail(path, "%s", described(err))
			continue
		}
		got := ""
		for _, x := range executions {
			if x.ID == p.id && x.EntityOutcome != nil {
				got = string(*x.EntityOutcome)
			}
		}
		if got != want {
			p.fail(path, "want %s, got %s", want, orNone(got))
		}
	}
	for _, e := range p.fields("expect.attributes", p.test.expect.attributes) {
		path := "expect.attributes." + e.name
		key, _ := parseKey(e.name)
		entity, err := p.catalog.Entity(ctx, author, key)
		if err != nil {
			p.fail(path, "%s", described(err))
			continue
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(entity.Attributes, &got); err != nil {
			return err
		}
		for _, attribute := range p.fields(path, e.value) {
			p.compareValues(path+"."+attribute.name, attribute.value, got[attribute.name])
		}
	}
	return nil
}

// checkLocks compares the entities that the execution still holds.
func (p *play) checkLocks(ctx context.Context) error {
	if !p.test.expect.given["locked"] {
		return nil
	}
	got := []string{}
	for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
		list, err := p.query.Locks(ctx, author, page)
		if err != nil {
			return err
		}
		for _, l := range list.Items {
			if l.HeldBy != nil && *l.HeldBy == p.id {
				got = append(got, l.Entity.String())
			}
		}
		if page.Token = list.NextToken; page.Token == "" {
			break
		}
	}
	slices.Sort(got)
	p.compareLists("expect.locked", slices.Sorted(slices.Values(p.test.expect.locked)), got)
	return nil
}
