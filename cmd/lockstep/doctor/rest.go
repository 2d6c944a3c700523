package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/cloud"
)

// lately is how far back a sweep has to be found: they come every minute, and are
// counted some minutes later.
const lately = 10 * time.Minute

// checkDeadLetters sees that the queues are empty on which dead letters wait.
func (s *stack) checkDeadLetters() {
	dead := map[string]bool{}
	for _, q := range s.queues {
		if q.DeadTo != "" {
			dead[q.DeadTo] = true
		}
	}
	for _, p := range s.Parts { // the schedule's belong to no queue
		if p.Kind == cloud.KindQueue && strings.Contains(p.Name, "Dlq") {
			for _, q := range s.queues {
				if q.URL == p.ID {
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
		if q := s.queues[arn]; q.Waiting > 0 {
			s.report.fail("dead-letter queues", "docs/runbooks/README.md#dead-letters: find the cause, then \"lockstep redrive\".", "%s on %s", many(q.Waiting, "message"), q.Name)
		}
	}
	if !s.report.found("dead-letter queues") {
		s.report.good("dead-letter queues", "%s, all empty", many(len(arns), "queue"))
	}
}

// checkSchedule sees that the sweeper is run.
func (s *stack) checkSchedule(ctx context.Context) {
	rules := 0
	for _, name := range s.Of(cloud.KindRule) {
		r, err := s.Rule(ctx, name)
		switch {
		case cloud.Gone(err):
			s.report.fail("schedule", "Deploy the stack again under another name, or make the rule again with the same.", "the rule %s of the stack is not there", name)
			rules++
			continue
		case err != nil:
			s.unasked("schedule", err)
			return
		}
		sweeper := s.target(r)
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

// target is the function of the engine that a rule runs, nil if none.
func (s *stack) target(r cloud.Rule) *cloud.Function {
	for i := range s.functions {
		if slices.Contains(r.Targets, s.functions[i].ARN) {
			return &s.functions[i]
		}
	}
	return nil
}

func (s *stack) checkSweeps(ctx context.Context, r cloud.Rule, sweeper string) {
	now := s.now()
	n, err := s.Invocations(ctx, sweeper, now.Add(-lately), now)
	switch {
	case err != nil:
		s.unasked("schedule", err)
	case n > 0:
		s.report.good("schedule", "%s is enabled, %s in the last %d minutes", r.Schedule, many(n, "sweep"), int(lately.Minutes()))
	case now.Sub(s.Changed) < lately:
		s.report.warn("schedule", "Look again in ten minutes: the stack has just been deployed.", "no sweep has been counted yet")
	default:
		s.report.fail("schedule", "docs/runbooks/README.md#sweep-not-running", "no sweep in the last %d minutes, although the rule is enabled", int(lately.Minutes()))
	}
}

func (s *stack) checkAlarms(ctx context.Context) {
	names := s.Of(cloud.KindAlarm)
	alarms, err := s.Alarms(ctx, names)
	if err != nil {
		s.unasked("alarms", err)
		return
	}
	known, untold := map[string]bool{}, []string(nil)
	for _, a := range alarms {
		known[a.Name] = true
		if !a.Notifies {
			untold = append(untold, a.Name)
		}
		if a.State == "ALARM" {
			says, runbook, _ := strings.Cut(a.Says, " Runbook: ")
			s.report.fail("alarms", runbook, "%s (%s, since %s)", says, a.Name, a.Since.UTC().Format(time.RFC3339))
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
	case untold != nil:
		s.report.warn("alarms", "Set AlarmTopic, or -c alarmTopicArn=, to an SNS topic that somebody reads.", "nobody is told of %d of %s: %s", len(untold), many(len(alarms), "alarm"), some(untold))
	}
	if !s.report.found("alarms") {
		s.report.good("alarms", "%s, none of them raised", many(len(alarms), "alarm"))
	}
}
