package doctor

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
	"github.com/lockstep-run/lockstep/shared/topology"
)

const (
	// minReceives is how often a message has to be received at least before it
	// is given up: a function that is throttled receives it for nothing.
	minReceives = 5

	// deadLetterDays is how long dead letters have to wait for somebody.
	deadLetterDays = 14
)

// checkFunctions looks at the engine's functions, and at those of others that work
// on its queues.
func (s *stackCheck) checkFunctions(ctx context.Context) {
	all := append(slices.Clone(s.functions), s.externalFunctions...)
	var recursionDenied, zeroConcurrency, reservedConcurrency []string
	for _, f := range all {
		switch {
		case f.State == "Failed", f.LastUpdateStatus == "Failed":
			s.report.fail("functions", "Repair what it says, and deploy again.", "%s is %s, its last update %s: %s", f.Name, f.State, f.LastUpdateStatus, f.StatusReason)
		case f.State == "Pending", f.LastUpdateStatus == "InProgress":
			s.report.warn("functions", "Look again in a minute.", "%s is being changed", f.Name)
		}
		loops, err := s.AllowsRecursion(ctx, f.Name)
		if err != nil {
			s.reportUnchecked("functions", err)
			return
		}
		if !loops {
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
		s.report.fail("functions", "Deploy the stack again; if a function is yours, set its RecursiveLoop to Allow.", "in a run of many steps, which it takes for a loop, Lambda would stop %s", summarizeNames(recursionDenied))
	}
	const release = "\"aws lambda delete-function-concurrency --function-name NAME\""
	if zeroConcurrency != nil {
		s.report.fail("functions", "Let it run again: "+release+".", "a concurrency of 0 is reserved, so that nothing runs of %s", summarizeNames(zeroConcurrency))
	}
	if reservedConcurrency != nil {
		s.report.fail("functions", "Bound the mapping instead, by its MaximumConcurrency: "+release+".", "a concurrency is reserved, and what it refuses ends among the dead letters, of %s", summarizeNames(reservedConcurrency))
	}
	if !s.report.hasProblems("functions") {
		s.report.pass("functions", "%s, ready and allowed to pass work on in a loop", pluralize(len(all), "function"))
	}
}

// consumesQueue reports whether a function is given the messages of a queue.
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
	dataProtected := s.TerminationProtected // data, where anything of it is protected
	for _, role := range topology.Tables {
		name, known := s.tables[role]
		if !known {
			s.report.fail("tables", "Deploy the stack again.", "no function knows the table %s", role)
			continue
		}
		t, err := s.Table(ctx, name)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("tables", "Restore it to a moment when it was there: docs/deploying.md.", "the table %s (%s) is not there", name, role)
			continue
		case err != nil:
			s.reportUnchecked("tables", err)
			return
		}
		if t.Status != "ACTIVE" && t.Status != "UPDATING" {
			s.report.fail("tables", "AWS says why in the console; a customer's key that is disabled is one cause.", "the table %s is %s", name, t.Status)
		}
		for _, index := range topology.Indexes[role] {
			if status := t.Indexes[index.Name]; status != "ACTIVE" && status != "UPDATING" {
				s.report.fail("tables", "One that is being made is ready by itself; one that is missing comes with the next deployment.", "the index %s of %s is %s", index.Name, name, orMissing(status))
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
		s.report.fail("tables", "Turn point-in-time recovery on: \"aws dynamodb update-continuous-backups\".", "not to be restored to a moment: %s", summarizeNames(withoutRecovery))
	}
	if withoutTTL != nil {
		s.report.fail("tables", "Turn expiry on: \"aws dynamodb update-time-to-live\".", "items do not expire by %q in %s", topology.AttrTTL, summarizeNames(withoutTTL))
	}
	if dataProtected && unprotected != nil {
		s.report.warn("tables", "Protect them: \"aws dynamodb update-table --deletion-protection-enabled\". A table that was restored is not by itself.", "the install keeps its data, and anybody may delete %s", summarizeNames(unprotected))
	}
	if !s.report.hasProblems("tables") {
		s.report.pass("tables", "%s, active, can be restored to any moment, items expire", pluralize(len(s.tables), "table"))
	}
}

func orMissing(status string) string {
	if status == "" {
		return "missing"
	}
	return status
}

// workQueues are the queues that are worked on.
func (s *stackCheck) workQueues() []aws.Queue {
	var all []aws.Queue
	for _, q := range s.queues {
		if slices.ContainsFunc(s.queueURLs, func(url string) bool { return lastSegment(url) == q.Name }) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b aws.Queue) int { return compare(a.Name, b.Name) })
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// checkMappings sees that each queue is worked on, by functions whose time-outs
// its attributes follow.
func (s *stackCheck) checkMappings() {
	mapped, polled := 0, 0
	for _, q := range s.workQueues() {
		s.checkQueue(q)
		all := s.consumers[q.ARN]
		switch mapped += len(all); {
		case len(all) == 0 && s.isLifecycleQueue(q):
			s.report.fail("mappings", "Deploy the stack again.", "nobody works on %s: it has no mapping", q.Name)
		case len(all) == 0:
			polled++
		}
		idle := !slices.ContainsFunc(all, func(m consumer) bool { return !m.disabled() })
		for _, m := range all {
			s.checkMapping(q, m, idle)
		}
	}
	if !s.report.hasProblems("mappings") {
		s.report.pass("mappings", "%s enabled, %s without a function, for workers that poll", pluralize(mapped, "mapping"), pluralize(polled, "queue"))
	}
	if !s.report.hasProblems("queues") {
		s.report.pass("queues", "%s, time-outs and dead letters as they have to be", pluralize(len(s.workQueues()), "queue"))
	}
}

// checkMapping looks at one mapping of a queue, all of which may be idle.
func (s *stackCheck) checkMapping(q aws.Queue, m consumer, idle bool) {
	enable := "Enable it: \"aws lambda update-event-source-mapping --enabled --uuid " + m.ID + "\"."
	switch {
	case m.disabled() && idle:
		s.report.fail("mappings", enable, "nobody works on %s: its mapping to %s is %s", q.Name, lastSegment(m.FunctionARN), m.State)
	case m.disabled():
		s.report.warn("mappings", enable, "the mapping of %s to %s is %s; another one is not", q.Name, lastSegment(m.FunctionARN), m.State)
	case m.State != "Enabled":
		s.report.warn("mappings", "Look again in a minute.", "the mapping of %s to %s is %s", q.Name, lastSegment(m.FunctionARN), m.State)
	}
	if !m.ReportsBatchItemFailures {
		s.report.fail("mappings", "Set ReportBatchItemFailures on the mapping: without it a message that is left for later is deleted.", "the messages of %s do not fail one by one", q.Name)
	}
	if want := topology.VisibilityFactor * m.function.Timeout; q.VisibilityTimeout < want {
		s.report.fail("queues", "Set the queue's visibility time-out to six times the function's time-out, or deploy again.",
			"messages of %s are hidden for %d s, and %s may take %d s: want %d s", q.Name, q.VisibilityTimeout, m.function.Name, m.function.Timeout, want)
	}
}

// isLifecycleQueue reports whether the queue is the one of the function lifecycle.
func (s *stackCheck) isLifecycleQueue(q aws.Queue) bool {
	return slices.ContainsFunc(s.functions, func(f aws.Function) bool { return lastSegment(f.Environment[topology.EnvQueueLifecycle]) == q.Name })
}

func (s *stackCheck) checkQueue(q aws.Queue) {
	dead, known := s.queues[q.DeadLetterARN]
	switch {
	case q.DeadLetterARN == "":
		s.report.fail("queues", "Deploy the stack again: what the queue gives up on is lost.", "%s has no queue for its dead letters", q.Name)
	case !known:
		s.report.warn("queues", "See that it is there, and watched.", "the dead letters of %s go to %s, which is no queue of the stack", q.Name, lastSegment(q.DeadLetterARN))
	case dead.RetentionPeriod < deadLetterDays*24*3600:
		s.report.warn("queues", "Set its retention to 14 days: time to come back, repair and redrive.", "%s keeps dead letters for %d s only", dead.Name, dead.RetentionPeriod)
	}
	if q.DeadLetterARN != "" && q.MaxReceiveCount < minReceives {
		s.report.fail("queues", "Set maxReceiveCount to 5 at least, or deploy again.", "%s gives a message up after %s", q.Name, pluralize(q.MaxReceiveCount, "receive"))
	}
}
