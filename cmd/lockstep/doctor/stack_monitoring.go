package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
)

// sweepWindow is how far back a sweep has to be found: they come every minute, and are
// counted some minutes later.
const sweepWindow = 10 * time.Minute

// checkDeadLetters sees that the queues are empty on which dead letters wait.
func (s *stackCheck) checkDeadLetters() {
	dead := map[string]bool{}
	for _, q := range s.queues {
		if q.DeadLetterARN != "" {
			dead[q.DeadLetterARN] = true
		}
	}
	for _, p := range s.Resources { // the schedule's belong to no queue
		if p.Type == aws.TypeQueue && strings.Contains(p.LogicalID, "Dlq") {
			for _, q := range s.queues {
				if q.URL == p.PhysicalID {
					dead[q.ARN] = true
				}
			}
		}
	}
	var arns []string
	for arn := range dead {
		arns = append(arns, arn)
	}
	slices.Sort(arns)
	for _, arn := range arns {
		if q := s.queues[arn]; q.VisibleMessages > 0 {
			s.report.fail("dead-letter queues", "docs/runbooks/README.md#dead-letters: find the cause, then \"lockstep redrive\".", "%s on %s", pluralize(q.VisibleMessages, "message"), q.Name)
		}
	}
	if !s.report.hasProblems("dead-letter queues") {
		s.report.pass("dead-letter queues", "%s, all empty", pluralize(len(arns), "queue"))
	}
}

// checkSchedule sees that the sweeper is run.
func (s *stackCheck) checkSchedule(ctx context.Context) {
	rules := 0
	for _, name := range s.PhysicalIDs(aws.TypeRule) {
		r, err := s.Rule(ctx, name)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("schedule", "Deploy the stack again under another name, or make the rule again with the same.", "the rule %s of the stack is not there", name)
			rules++
			continue
		case err != nil:
			s.reportUnchecked("schedule", err)
			return
		}
		sweeper := s.sweepFunction(r)
		if sweeper == nil {
			continue // a rule of somebody else's
		}
		rules++
		if !r.Enabled {
			s.report.fail("schedule", "Enable it: \"aws events enable-rule --name "+name+"\". No run is woken until then.", "the rule %s is disabled", name)
			continue
		}
		s.checkSweeps(ctx, r, sweeper.Name)
	}
	if rules == 0 {
		s.report.fail("schedule", "Deploy the stack again: no run is woken whose alarm has rung.", "no rule runs the sweeper")
	}
}

// sweepFunction is the function of the engine that a rule runs, nil if none.
func (s *stackCheck) sweepFunction(r aws.Rule) *aws.Function {
	for i := range s.functions {
		if slices.Contains(r.Targets, s.functions[i].ARN) {
			return &s.functions[i]
		}
	}
	return nil
}

func (s *stackCheck) checkSweeps(ctx context.Context, r aws.Rule, sweeper string) {
	now := s.now()
	n, err := s.Invocations(ctx, sweeper, now.Add(-sweepWindow), now)
	switch {
	case err != nil:
		s.reportUnchecked("schedule", err)
	case n > 0:
		s.report.pass("schedule", "%s is enabled, %s in the last %d minutes", r.Schedule, pluralize(n, "sweep"), int(sweepWindow.Minutes()))
	case now.Sub(s.ChangedAt) < sweepWindow:
		s.report.warn("schedule", "Look again in ten minutes: the stack has just been deployed.", "no sweep has been counted yet")
	default:
		s.report.fail("schedule", "docs/runbooks/README.md#sweep-not-running", "no sweep in the last %d minutes, although the rule is enabled", int(sweepWindow.Minutes()))
	}
}

func (s *stackCheck) checkAlarms(ctx context.Context) {
	names := s.PhysicalIDs(aws.TypeAlarm)
	alarms, err := s.Alarms(ctx, names)
	if err != nil {
		s.reportUnchecked("alarms", err)
		return
	}
	known, withoutActions := map[string]bool{}, []string(nil)
	for _, a := range alarms {
		known[a.Name] = true
		if !a.HasActions {
			withoutActions = append(withoutActions, a.Name)
		}
		if a.State == "ALARM" {
			description, runbook, _ := strings.Cut(a.Description, " Runbook: ")
			s.report.fail("alarms", runbook, "%s (%s, since %s)", description, a.Name, a.StateUpdatedAt.UTC().Format(time.RFC3339))
		}
	}
	for _, name := range names {
		if !known[name] {
			s.report.fail("alarms", "Deploy the stack again under another name, or make the alarm again with the same.", "the alarm %s of the stack is not there", name)
		}
	}
	switch {
	case len(names) == 0:
		s.report.warn("alarms", "Deploy the engine's alarms with it.", "the stack has none")
	case withoutActions != nil:
		s.report.warn("alarms", "Set AlarmTopic, or -c alarmTopicArn=, to an SNS topic that somebody reads.", "nobody is told of %d of %s: %s", len(withoutActions), pluralize(len(alarms), "alarm"), summarizeNames(withoutActions))
	}
	if !s.report.hasProblems("alarms") {
		s.report.pass("alarms", "%s, none of them raised", pluralize(len(alarms), "alarm"))
	}
}
