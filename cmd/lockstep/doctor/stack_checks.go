package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
	"github.com/lockstep-run/lockstep/shared/topology"
)

const (
	// minReceives is the least maxReceiveCount: a throttled function uses up receives
	// without handling the message.
	minReceives = 5

	// deadLetterDays is the least retention of dead letters.
	deadLetterDays = 14
)

// checkFunctions checks the engine's functions, and those of other stacks that
// consume its queues.
func (s *stackCheck) checkFunctions(ctx context.Context) {
	all := append(slices.Clone(s.functions), s.externalFunctions...)
	var recursionDenied, zeroConcurrency, reservedConcurrency []string
	for _, f := range all {
		switch {
		case f.State == "Failed", f.LastUpdateStatus == "Failed":
			s.report.fail("functions", "Fix the cause and deploy again.", "%s is %s, its last update %s: %s", f.Name, f.State, f.LastUpdateStatus, f.StatusReason)
		case f.State == "Pending", f.LastUpdateStatus == "InProgress":
			s.report.warn("functions", "Check again in a minute.", "%s is being changed", f.Name)
		}
		allowed, err := s.AllowsRecursion(ctx, f.Name)
		if err != nil {
			s.reportUnchecked("functions", err)
			return
		}
		if !allowed {
			recursionDenied = append(recursionDenied, f.Name)
		}
		n, reserved, err := s.ReservedConcurrency(ctx, f.Name)
		switch {
		case err != nil:
			s.reportUnchecked("functions", err)
			return
		case reserved && n == 0:
			zeroConcurrency = append(zeroConcurrency, f.Name)
		case reserved && s.consumesQueue(f):
			reservedConcurrency = append(reservedConcurrency, f.Name)
		}
	}
	if recursionDenied != nil {
		s.report.fail("functions", "Deploy the stack again; for a function of your own, set RecursiveLoop to Allow.", "Lambda takes an execution with many steps for a loop and would stop %s", summarizeNames(recursionDenied))
	}
	const release = "\"aws lambda delete-function-concurrency --function-name NAME\""
	if zeroConcurrency != nil {
		s.report.fail("functions", "Remove the reservation: "+release+".", "reserved concurrency 0 stops %s", summarizeNames(zeroConcurrency))
	}
	if reservedConcurrency != nil {
		s.report.fail("functions", "Limit the mapping's MaximumConcurrency instead: "+release+".", "reserved concurrency turns refused messages into dead letters: %s", summarizeNames(reservedConcurrency))
	}
	if !s.report.hasProblems("functions") {
		s.report.pass("functions", "%s, ready and allowed to call each other in a loop", pluralize(len(all), "function"))
	}
}

// consumesQueue reports whether a function consumes one of the engine's queues.
func (s *stackCheck) consumesQueue(f aws.Function) bool {
	for _, all := range s.consumers {
		if slices.ContainsFunc(all, func(m consumer) bool { return m.function.ARN == f.ARN }) {
			return true
		}
	}
	return false
}

func (s *stackCheck) checkTables(ctx context.Context) {
	var withoutRecovery, withoutTTL, unprotected []string
	dataProtected := s.TerminationProtected // the deployment protects its data
	for _, role := range topology.Tables {
		name, known := s.tables[role]
		if !known {
			s.report.fail("tables", "Deploy the stack again.", "no function has the name of the table %s", role)
			continue
		}
		t, err := s.Table(ctx, name)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("tables", "Restore it to a time when it existed: docs/deploying.md.", "the table %s (%s) does not exist", name, role)
			continue
		case err != nil:
			s.reportUnchecked("tables", err)
			return
		}
		if t.Status != "ACTIVE" && t.Status != "UPDATING" {
			s.report.fail("tables", "See the reason in the AWS console; a disabled customer key is one cause.", "the table %s is %s", name, t.Status)
		}
		for _, index := range topology.Indexes[role] {
			if status := t.Indexes[index.Name]; status != "ACTIVE" && status != "UPDATING" {
				s.report.fail("tables", "Wait for an index that is being created; deploy again to create a missing one.", "the index %s of %s is %s", index.Name, name, orMissing(status))
			}
		}
		if !t.PointInTimeRecovery {
			withoutRecovery = append(withoutRecovery, name)
		}
		if dataProtected = dataProtected || t.DeletionProtected; !t.DeletionProtected {
			unprotected = append(unprotected, name)
		}
		if t.TTLAttribute != topology.AttrTTL {
			withoutTTL = append(withoutTTL, name)
		}
	}
	if withoutRecovery != nil {
		s.report.fail("tables", "Turn point-in-time recovery on: \"aws dynamodb update-continuous-backups\".", "point-in-time recovery is off: %s", summarizeNames(withoutRecovery))
	}
	if withoutTTL != nil {
		s.report.fail("tables", "Turn expiry on: \"aws dynamodb update-time-to-live\".", "items do not expire by %q in %s", topology.AttrTTL, summarizeNames(withoutTTL))
	}
	if dataProtected && unprotected != nil {
		s.report.warn("tables", "Turn deletion protection on: \"aws dynamodb update-table --deletion-protection-enabled\". A restored table does not have it.", "the deployment protects its data, but not %s from deletion", summarizeNames(unprotected))
	}
	if !s.report.hasProblems("tables") {
		s.report.pass("tables", "%s, active, with point-in-time recovery and expiry", pluralize(len(s.tables), "table"))
	}
}

func orMissing(status string) string {
	if status == "" {
		return "missing"
	}
	return status
}

// workQueues returns the engine's queues that have consumers, sorted by name.
func (s *stackCheck) workQueues() []aws.Queue {
	var all []aws.Queue
	for _, q := range s.queues {
		if slices.ContainsFunc(s.queueURLs, func(url string) bool { return lastSegment(url) == q.Name }) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b aws.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// checkMappings checks that each queue has a consumer and that its attributes fit the
// consumer's timeout.
func (s *stackCheck) checkMappings() {
	mapped, polled := 0, 0
	for _, q := range s.workQueues() {
		s.checkQueue(q)
		all := s.consumers[q.ARN]
		switch mapped += len(all); {
		case len(all) == 0 && s.isLifecycleQueue(q):
			s.report.fail("mappings", "Deploy the stack again.", "nothing consumes %s: it has no mapping", q.Name)
		case len(all) == 0:
			polled++
		}
		allDisabled := !slices.ContainsFunc(all, func(m consumer) bool { return !m.disabled() })
		for _, m := range all {
			s.checkMapping(q, m, allDisabled)
		}
	}
	if !s.report.hasProblems("mappings") {
		s.report.pass("mappings", "%s enabled, %s without a function, for polling workers", pluralize(mapped, "mapping"), pluralize(polled, "queue"))
	}
	if !s.report.hasProblems("queues") {
		s.report.pass("queues", "%s, with the right timeouts and dead-letter queues", pluralize(len(s.workQueues()), "queue"))
	}
}

// apiConcurrency is the concurrency that the functions without a mapping need, above all the API: a
// hundred requests a second of a fifth of a second each, plus the sweeper.
const apiConcurrency = 20

// checkConcurrency compares the account's concurrency limit with what the engine may use. If it is
// too small, the functions throttle each other, the API first: its requests are not retried.
func (s *stackCheck) checkConcurrency(ctx context.Context) {
	if slices.Contains(s.report.Unchecked, "mappings") {
		s.report.skip("concurrency") // the mappings are unknown
		return
	}
	have, err := s.Concurrency(ctx)
	if err != nil {
		s.reportUnchecked("concurrency", err)
		return
	}
	need, unlimited := apiConcurrency, []string{}
	for _, q := range s.workQueues() {
		for _, m := range s.consumers[q.ARN] {
			if need += m.MaxConcurrency; m.MaxConcurrency == 0 {
				unlimited = append(unlimited, q.Name)
			}
		}
	}
	const raise = "Ask AWS for a higher quota (Service Quotas, Lambda, Concurrent executions), or lower Concurrency of the construct."
	switch {
	case have < apiConcurrency:
		s.report.fail("concurrency", raise, "the account runs %d invocations at a time, and the API alone needs %d", have, apiConcurrency)
	case len(unlimited) > 0:
		s.report.warn("concurrency", "Set MaximumConcurrency on the mapping.", "nothing limits how many invocations %s takes of the account's %d", summarizeNames(unlimited), have)
	case have < need:
		s.report.warn("concurrency", raise, "the account runs %d invocations at a time, and the mappings and the API may take %d: under load requests are refused", have, need)
	default:
		s.report.pass("concurrency", "the account runs %d invocations at a time, of which mappings and API take at most %d", have, need)
	}
}

// checkMapping checks one mapping of a queue.
func (s *stackCheck) checkMapping(q aws.Queue, m consumer, allDisabled bool) {
	enable := "Enable it: \"aws lambda update-event-source-mapping --enabled --uuid " + m.ID + "\"."
	switch {
	case m.disabled() && allDisabled:
		s.report.fail("mappings", enable, "nothing consumes %s: its mapping to %s is %s", q.Name, lastSegment(m.FunctionARN), m.State)
	case m.disabled():
		s.report.warn("mappings", enable, "the mapping of %s to %s is %s; another mapping is enabled", q.Name, lastSegment(m.FunctionARN), m.State)
	case m.State != "Enabled":
		s.report.warn("mappings", "Check again in a minute.", "the mapping of %s to %s is %s", q.Name, lastSegment(m.FunctionARN), m.State)
	}
	if !m.ReportsBatchItemFailures {
		s.report.fail("mappings", "Set ReportBatchItemFailures on the mapping: without it, messages to be retried are deleted.", "the mapping of %s does not report failed messages one by one", q.Name)
	}
	if want := topology.VisibilityFactor * m.function.Timeout; q.VisibilityTimeout < want {
		s.report.fail("queues", "Set the queue's visibility timeout to six times the function's timeout, or deploy again.",
			"the visibility timeout of %s is %d s, and the timeout of %s is %d s: want %d s", q.Name, q.VisibilityTimeout, m.function.Name, m.function.Timeout, want)
	}
}

// isLifecycleQueue reports whether the queue belongs to the function lifecycle.
func (s *stackCheck) isLifecycleQueue(q aws.Queue) bool {
	return slices.ContainsFunc(s.functions, func(f aws.Function) bool { return lastSegment(f.Environment[topology.EnvQueueLifecycle]) == q.Name })
}

func (s *stackCheck) checkQueue(q aws.Queue) {
	dead, known := s.queues[q.DeadLetterARN]
	switch {
	case q.DeadLetterARN == "":
		s.report.fail("queues", "Deploy the stack again: dead letters of the queue are lost.", "%s has no dead-letter queue", q.Name)
	case !known:
		s.report.warn("queues", "Check that it exists and has an alarm.", "the dead letters of %s go to %s, which is not a queue of the stack", q.Name, lastSegment(q.DeadLetterARN))
	case dead.RetentionPeriod < deadLetterDays*24*3600:
		s.report.warn("queues", "Set its retention to 14 days, so that there is time to find the cause and redrive.", "%s keeps dead letters for only %d s", dead.Name, dead.RetentionPeriod)
	}
	if q.DeadLetterARN != "" && q.MaxReceiveCount < minReceives {
		s.report.fail("queues", "Set maxReceiveCount to at least 5, or deploy again.", "%s gives up on a message after %s", q.Name, pluralize(q.MaxReceiveCount, "receive"))
	}
}

// sweepWindow is the period in which at least one sweep must be counted. A sweep
// runs every minute, and CloudWatch counts it some minutes later.
const sweepWindow = 10 * time.Minute

// checkDeadLetters checks that the dead-letter queues are empty.
func (s *stackCheck) checkDeadLetters() {
	dlqs := map[string]bool{}
	for _, q := range s.queues {
		if q.DeadLetterARN != "" {
			dlqs[q.DeadLetterARN] = true
		}
	}
	for _, r := range s.Resources { // the schedule's dead-letter queue belongs to no queue
		if r.Type == aws.TypeQueue && strings.Contains(r.LogicalID, "Dlq") {
			for _, q := range s.queues {
				if q.URL == r.PhysicalID {
					dlqs[q.ARN] = true
				}
			}
		}
	}
	var arns []string
	for arn := range dlqs {
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

// checkSchedule checks that a rule starts the sweeper.
func (s *stackCheck) checkSchedule(ctx context.Context) {
	rules := 0
	for _, name := range s.PhysicalIDs(aws.TypeRule) {
		r, err := s.Rule(ctx, name)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("schedule", "Deploy the stack again under another name, or create the rule again with the same name.", "the rule %s of the stack does not exist", name)
			rules++
			continue
		case err != nil:
			s.reportUnchecked("schedule", err)
			return
		}
		sweeper := s.sweepFunction(r)
		if sweeper == nil {
			continue // a rule for something else
		}
		rules++
		if !r.Enabled {
			s.report.fail("schedule", "Enable it: \"aws events enable-rule --name "+name+"\". Until then no timer fires.", "the rule %s is disabled", name)
			continue
		}
		s.checkSweeps(ctx, r, sweeper.Name)
	}
	if rules == 0 {
		s.report.fail("schedule", "Deploy the stack again: without it no timer fires.", "no rule starts the sweeper")
	}
}

// sweepFunction returns the engine's function that a rule starts, nil if it starts none.
func (s *stackCheck) sweepFunction(r aws.Rule) *aws.Function {
	for i := range s.functions {
		arn := s.functions[i].ARN
		if slices.ContainsFunc(r.Targets, func(t string) bool { return t == arn || strings.HasPrefix(t, arn+":") }) { // or an alias of it
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
		s.report.warn("schedule", "Check again in ten minutes: the stack has just been deployed.", "no sweep has been counted yet")
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
			s.report.fail("alarms", "Deploy the stack again under another name, or create the alarm again with the same name.", "the alarm %s of the stack does not exist", name)
		}
	}
	switch {
	case len(names) == 0:
		s.report.warn("alarms", "Deploy the engine's alarms with it.", "the stack has no alarms")
	case withoutActions != nil:
		s.report.warn("alarms", "Set AlarmTopic, or -c alarmTopicArn=, to an SNS topic with subscribers.", "%d of %s notify nobody: %s", len(withoutActions), pluralize(len(alarms), "alarm"), summarizeNames(withoutActions))
	}
	if !s.report.hasProblems("alarms") {
		s.report.pass("alarms", "%s, none in state ALARM", pluralize(len(alarms), "alarm"))
	}
}
