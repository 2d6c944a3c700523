package doctor

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/cloud"
	"github.com/lockstep-run/lockstep/shared/topology"
)

const (
	// leastReceives is how often a message has to be received at least before it
	// is given up: a function that is throttled receives it for nothing.
	leastReceives = 5

	// deadLetterDays is how long dead letters have to wait for somebody.
	deadLetterDays = 14
)

// checkFunctions looks at the engine's functions, and at those of others that work
// on its queues.
func (s *stack) checkFunctions(ctx context.Context) {
	all := append(slices.Clone(s.functions), s.others...)
	var looped, stopped, bounded []string
	for _, f := range all {
		switch {
		case f.State == "Failed", f.Update == "Failed":
			s.report.fail("functions", "Repair what it says, and deploy again.", "%s is %s, its last update %s: %s", f.Name, f.State, f.Update, f.Reason)
		case f.State == "Pending", f.Update == "InProgress":
			s.report.warn("functions", "Look again in a minute.", "%s is being changed", f.Name)
		}
		loops, err := s.Loops(ctx, f.Name)
		if err != nil {
			s.unasked("functions", err)
			return
		}
		if !loops {
			looped = append(looped, f.Name)
		}
		n, reserved, err := s.Reserved(ctx, f.Name)
		switch {
		case err != nil:
			s.unasked("functions", err)
			return
		case reserved && n == 0:
			stopped = append(stopped, f.Name)
		case reserved && s.maps(f):
			bounded = append(bounded, f.Name)
		}
	}
	if looped != nil {
		s.report.fail("functions", "Deploy the stack again; if a function is yours, set its RecursiveLoop to Allow.", "in a run of many steps, which it takes for a loop, Lambda would stop %s", some(looped))
	}
	const release = "\"aws lambda delete-function-concurrency --function-name NAME\""
	if stopped != nil {
		s.report.fail("functions", "Let it run again: "+release+".", "a concurrency of 0 is reserved, so that nothing runs of %s", some(stopped))
	}
	if bounded != nil {
		s.report.fail("functions", "Bound the mapping instead, by its MaximumConcurrency: "+release+".", "a concurrency is reserved, and what it refuses ends among the dead letters, of %s", some(bounded))
	}
	if !s.report.found("functions") {
		s.report.good("functions", "%s, ready and allowed to pass work on in a loop", many(len(all), "function"))
	}
}

// maps reports whether a function is given the messages of a queue.
func (s *stack) maps(f cloud.Function) bool {
	for _, all := range s.served {
		if slices.ContainsFunc(all, func(m served) bool { return m.by.ARN == f.ARN }) {
			return true
		}
	}
	return false
}

func (s *stack) checkTables(ctx context.Context) {
	var unsafe, lasting, bare []string
	kept := s.Protected // data, where anything of it is protected
	for _, role := range topology.Tables {
		name, known := s.tables[role]
		if !known {
			s.report.fail("tables", "Deploy the stack again.", "no function knows the table %s", role)
			continue
		}
		t, err := s.Table(ctx, name)
		switch {
		case cloud.Gone(err):
			s.report.fail("tables", "Restore it to a moment when it was there: docs/deploying.md.", "the table %s (%s) is not there", name, role)
			continue
		case err != nil:
			s.unasked("tables", err)
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
		if !t.Restores {
			unsafe = append(unsafe, name)
		}
		if kept = kept || t.Protected; !t.Protected {
			bare = append(bare, name)
		}
		if t.Expiring != topology.AttrTTL {
			lasting = append(lasting, name)
		}
	}
	if unsafe != nil {
		s.report.fail("tables", "Turn point-in-time recovery on: \"aws dynamodb update-continuous-backups\".", "not to be restored to a moment: %s", some(unsafe))
	}
	if lasting != nil {
		s.report.fail("tables", "Turn expiry on: \"aws dynamodb update-time-to-live\".", "items do not expire by %q in %s", topology.AttrTTL, some(lasting))
	}
	if kept && bare != nil {
		s.report.warn("tables", "Protect them: \"aws dynamodb update-table --deletion-protection-enabled\". A table that was restored is not by itself.", "the install keeps its data, and anybody may delete %s", some(bare))
	}
	if !s.report.found("tables") {
		s.report.good("tables", "%s, active, can be restored to any moment, items expire", many(len(s.tables), "table"))
	}
}

func orMissing(status string) string {
	if status == "" {
		return "missing"
	}
	return status
}

// worked are the queues that are worked on.
func (s *stack) worked() []cloud.Queue {
	var all []cloud.Queue
	for _, q := range s.queues {
		if slices.ContainsFunc(s.sources, func(url string) bool { return short(url) == q.Name }) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b cloud.Queue) int { return compare(a.Name, b.Name) })
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
func (s *stack) checkMappings() {
	mapped, polled := 0, 0
	for _, q := range s.worked() {
		s.checkQueue(q)
		all := s.served[q.ARN]
		switch mapped += len(all); {
		case len(all) == 0 && s.looks(q):
			s.report.fail("mappings", "Deploy the stack again.", "nobody works on %s: it has no mapping", q.Name)
		case len(all) == 0:
			polled++
		}
		idle := !slices.ContainsFunc(all, func(m served) bool { return !m.off() })
		for _, m := range all {
			s.checkMapping(q, m, idle)
		}
	}
	if !s.report.found("mappings") {
		s.report.good("mappings", "%s enabled, %s without a function, for workers that poll", many(mapped, "mapping"), many(polled, "queue"))
	}
	if !s.report.found("queues") {
		s.report.good("queues", "%s, time-outs and dead letters as they have to be", many(len(s.worked()), "queue"))
	}
}

// checkMapping looks at one mapping of a queue, all of which may be idle.
func (s *stack) checkMapping(q cloud.Queue, m served, idle bool) {
	enable := "Enable it: \"aws lambda update-event-source-mapping --enabled --uuid " + m.ID + "\"."
	switch {
	case m.off() && idle:
		s.report.fail("mappings", enable, "nobody works on %s: its mapping to %s is %s", q.Name, short(m.Function), m.State)
	case m.off():
		s.report.warn("mappings", enable, "the mapping of %s to %s is %s; another one is not", q.Name, short(m.Function), m.State)
	case m.State != "Enabled":
		s.report.warn("mappings", "Look again in a minute.", "the mapping of %s to %s is %s", q.Name, short(m.Function), m.State)
	}
	if !m.Partial {
		s.report.fail("mappings", "Set ReportBatchItemFailures on the mapping: without it a message that is left for later is deleted.", "the messages of %s do not fail one by one", q.Name)
	}
	if want := topology.VisibilityFactor * m.by.Timeout; q.Visibility < want {
		s.report.fail("queues", "Set the queue's visibility time-out to six times the function's time-out, or deploy again.",
			"messages of %s are hidden for %d s, and %s may take %d s: want %d s", q.Name, q.Visibility, m.by.Name, m.by.Timeout, want)
	}
}

// looks reports whether the queue is the one of the function lifecycle.
func (s *stack) looks(q cloud.Queue) bool {
	return slices.ContainsFunc(s.functions, func(f cloud.Function) bool { return short(f.Environment[topology.EnvQueueLifecycle]) == q.Name })
}

func (s *stack) checkQueue(q cloud.Queue) {
	dead, known := s.queues[q.DeadTo]
	switch {
	case q.DeadTo == "":
		s.report.fail("queues", "Deploy the stack again: what the queue gives up on is lost.", "%s has no queue for its dead letters", q.Name)
	case !known:
		s.report.warn("queues", "See that it is there, and watched.", "the dead letters of %s go to %s, which is no queue of the stack", q.Name, short(q.DeadTo))
	case dead.Retention < deadLetterDays*24*3600:
		s.report.warn("queues", "Set its retention to 14 days: time to come back, repair and redrive.", "%s keeps dead letters for %d s only", dead.Name, dead.Retention)
	}
	if q.DeadTo != "" && q.Receives < leastReceives {
		s.report.fail("queues", "Set maxReceiveCount to 5 at least, or deploy again.", "%s gives a message up after %s", q.Name, many(q.Receives, "receive"))
	}
}
