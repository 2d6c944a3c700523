package definition

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// waitKinds are the fields of a wait of which it must have exactly one.
var waitKinds = []string{"for", "until", "when", "input", "approval", "signal"}

// wait reads what a step waits for.
func (r *reader) wait(w *spec.Wait) yamldoc.Field {
	var oneKind []yamldoc.Schema
	for _, k := range waitKinds {
		oneKind = append(oneKind, yamldoc.Schema{"required": []string{k}})
	}
	return yamldoc.Named("wait", r.Object(yamldoc.Fields{
		"for":       r.duration(&w.For, time.Millisecond, workflow.MaxStepWait),
		"until":     r.notBefore(&w.Until),
		"when":      r.expr(&w.When),
		"deadline":  r.duration(&w.Deadline, time.Millisecond, workflow.MaxStepWait),
		"onTimeout": r.onTimeout(&w.OnTimeout, false),
		"input":     yamldoc.Optional(&w.Input, r.waitInput),
		"approval":  yamldoc.Optional(&w.Approval, r.waitApproval),
		"signal":    yamldoc.Optional(&w.Signal, r.waitSignal),
	}).Finally(func(n ast.Node, path string) {
		kind := ""
		for _, k := range waitKinds {
			switch {
			case !r.Has(path + "." + k):
			case kind != "":
				r.ReportAt(path+"."+k, "conflict", "a wait has one kind only: it already has %s", kind)
			default:
				kind = k
			}
		}
		switch kind {
		case "":
			r.Report(n, path, "required", "say what to wait for: %s", strings.Join(waitKinds, ", "))
		case "for", "until":
			r.refuse(path, "a wait for a time ends well when the time has come", "deadline", "onTimeout")
		case "input", "approval", "signal":
			r.refuse(path, "it belongs into "+kind, "deadline", "onTimeout")
		}
	}).WithSchema(yamldoc.Schema{"oneOf": oneKind}))
}

// refuse reports fields that an object must not have.
func (r *reader) refuse(path, why string, fields ...string) {
	for _, name := range fields {
		if r.Has(path + "." + name) {
			r.ReportAt(path+"."+name, "conflict", "%s", why)
		}
	}
}

// onTimeout reads fail, or how to continue instead: with a step or, if answers is set, with an
// assumed answer.
func (r *reader) onTimeout(into **spec.OnTimeout, answers bool) yamldoc.Field {
	var fail string
	return yamldoc.ScalarOr(yamldoc.Enum(r.Reader, &fail, "fail"), yamldoc.Optional(into, func(o *spec.OnTimeout) yamldoc.Field {
		if !answers {
			return r.Object(yamldoc.Fields{"next": r.target(&o.Next).Required("want fail or {next: LABEL}")})
		}
		return r.Object(yamldoc.Fields{
			"next":   r.target(&o.Next),
			"answer": r.Raw(&o.Answer, false),
		}).Finally(func(n ast.Node, path string) {
			switch next, answer := r.Has(path+".next"), r.Has(path+".answer"); {
			case next && answer:
				r.ReportAt(path+".answer", "conflict", "after a time-out the execution goes on with next or with an answer, not both")
			case !next && !answer:
				r.Report(n, path, "required", "want fail, {next: LABEL} or {answer: VALUE}")
			}
		}).WithSchema(yamldoc.Schema{"oneOf": []yamldoc.Schema{{"required": []string{"next"}}, {"required": []string{"answer"}}}})
	}))
}

// Limits of questions to people.
const (
	maxReminders = 10
	maxWho       = 100
)

// askFields returns the fields that all questions to people have.
func (r *reader) askFields(a *spec.Ask) yamldoc.Fields {
	return yamldoc.Fields{
		"title":    r.shortText(&a.Title),
		"show":     r.Raw(&a.Show, false),
		"who":      yamldoc.Optional(&a.Who, r.who),
		"deadline": r.duration(&a.Deadline, time.Millisecond, workflow.MaxStepWait),
		"remind":   yamldoc.List(r.Reader, &a.Remind, maxReminders, r.waitDuration),
		"escalate": yamldoc.List(r.Reader, &a.Escalate, maxReminders, r.escalation),
	}
}

func (r *reader) waitDuration(into *workflow.Duration) yamldoc.Field {
	return r.duration(into, time.Millisecond, workflow.MaxStepWait)
}

// checkAsk checks that reminders and escalations come one after another, before the deadline.
func (r *reader) checkAsk(a *spec.Ask, path string) {
	limit := a.Deadline
	if limit == 0 {
		limit = workflow.Duration(workflow.MaxStepWait)
	}
	var last workflow.Duration
	check := func(at string, d workflow.Duration) {
		if d > 0 && (d <= last || d >= limit) {
			r.ReportAt(at, "order", "want times one after the other, before the deadline, %s", limit.Std())
		}
		last = d
	}
	for i, d := range a.Remind {
		check(fmt.Sprintf("%s.remind[%d]", path, i), d)
	}
	last = 0
	for i := range a.Escalate {
		check(fmt.Sprintf("%s.escalate[%d].after", path, i), a.Escalate[i].After)
	}
}

func (r *reader) waitInput(w *spec.WaitInput) yamldoc.Field {
	fields := r.askFields(&w.Ask)
	fields["schema"], fields["onTimeout"] = r.schema(&w.Schema), r.onTimeout(&w.OnTimeout, true)
	return r.Object(fields).Finally(func(_ ast.Node, path string) { r.checkAsk(&w.Ask, path) })
}

func (r *reader) waitApproval(w *spec.WaitApproval) yamldoc.Field {
	w.Need = 1
	fields := r.askFields(&w.Ask)
	fields["by"] = yamldoc.List(r.Reader, &w.By, maxWho, r.id)
	fields["need"] = r.Integer(&w.Need, 1, workflow.MaxAnswers)
	fields["onTimeout"], fields["onReject"] = r.onTimeout(&w.OnTimeout, true), r.onTimeout(&w.OnReject, false)
	return r.Object(fields).Finally(func(_ ast.Node, path string) {
		r.checkAsk(&w.Ask, path)
	})
}

func (r *reader) waitSignal(w *spec.WaitSignal) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"name": r.checkedText(&w.Name, yamldoc.Schema{"pattern": workflow.SignalNamePattern}, "format",
			"want a letter or _, then letters, digits, _ . and -, at most 64", workflow.ValidSignalName).Required("name the signal"),
		"schema":    r.schema(&w.Schema),
		"when":      r.expr(&w.When),
		"deadline":  r.waitDuration(&w.Deadline),
		"onTimeout": r.onTimeout(&w.OnTimeout, true),
	})
}

func (r *reader) who(w *workflow.Who) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"actors":     yamldoc.List(r.Reader, &w.Actors, maxWho, r.actor),
		"roles":      yamldoc.List(r.Reader, &w.Roles, maxWho, r.id),
		"notStarter": r.Bool(&w.NotStarter),
	})
}

// actor reads the name of a person, or a string with tokens that results in one.
func (r *reader) actor(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"minLength": 1, "maxLength": 256}, "format", "want 1 to 256 characters",
		func(s string) bool { return s != "" && len(s) <= 256 })
}

func (r *reader) escalation(e *spec.Escalation) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"after":  r.waitDuration(&e.After).Required("say when: after"),
		"actors": yamldoc.List(r.Reader, &e.Actors, maxWho, r.actor),
		"roles":  yamldoc.List(r.Reader, &e.Roles, maxWho, r.id),
		"start": yamldoc.Optional(&e.Start, func(s *spec.EscalationStart) yamldoc.Field {
			return r.Object(yamldoc.Fields{
				"workflow":   r.reference(&s.Workflow).Required("name the workflow"),
				"parameters": r.Raw(&s.Parameters, true),
			})
		}),
	})
}
