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

func (s *stack) checkFunctions(ctx context.Context) {
	n := len(s.report.Findings)
	var stopped []string
	for _, f := range s.functions {
		switch {
		case f.State == "Failed", f.Update == "Failed":
			s.report.fail("functions", "Repair what it says, and deploy again.", "%s is %s, its last update %s: %s", f.Name, f.State, f.Update, f.Reason)
		case f.State == "Pending", f.Update == "InProgress":
			s.report.warn("functions", "Look again in a minute.", "%s is being changed", f.Name)
		}
		loops, err := s.Loops(ctx, f.Name)
		switch {
		case err != nil:
			s.unasked("functions", err)
			return
		case !loops:
			stopped = append(stopped, f.Name)
		}
	}
	if stopped != nil {
		s.report.fail("functions", "Deploy the stack again; if a function is yours, set its RecursiveLoop to Allow.", "in a run of many steps, which it takes for a loop, Lambda would stop %s", some(stopped))
	}
	if !s.report.found("functions", n) {
		s.report.good("functions", "%s, ready and allowed to pass work on in a loop", many(len(s.functions), "function"))
	}
}

func (s *stack) checkTables(ctx context.Context) {
	n := len(s.report.Findings)
	var unsafe, lasting []string
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
	if !s.report.found("tables", n) {
		s.report.good("tables", "%s, active, can be restored to any moment, items expire", many(len(s.tables), "table"))
	}
}

func orMissing(status string) string {
	if status == "" {
		return "missing"
	}
	return status
}

// findQueues reads all of the stack's queues, and those of its functions that are
// another stack's.
func (s *stack) findQueues(ctx context.Context) {
	s.queues = map[string]cloud.Queue{}
	urls := append(s.Of(cloud.KindQueue), s.sources...)
	slices.Sort(urls)
	for _, url := range slices.Compact(urls) {
		q, err := s.Queue(ctx, url)
		switch {
		case cloud.Gone(err):
			s.report.fail("queues", "Deploy the stack again under another name, or make the queue again with the same: CloudFormation does not see that it is gone.", "the queue %s is not there", short(url))
		case err != nil:
			s.unasked("queues", err)
		default:
			s.queues[q.ARN] = q
		}
	}
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

// checkMappings sees that each queue is worked on, by a function whose time-out
// its attributes follow.
func (s *stack) checkMappings(ctx context.Context) {
	n, mapped := len(s.report.Findings), map[string]cloud.Function{}
	for _, id := range s.Of(cloud.KindMapping) {
		m, err := s.Mapping(ctx, id)
		switch {
		case cloud.Gone(err):
			s.report.fail("mappings", "Deploy the stack again with another concurrency, and then with this one: CloudFormation makes it anew.", "the event source mapping %s of the stack is not there", id)
			continue
		case err != nil:
			s.unasked("mappings", err)
			return
		}
		if _, ours := s.queues[m.Queue]; !ours {
			continue
		}
		switch {
		case m.State == "Disabled", m.State == "Disabling", m.State == "Deleting":
			s.report.fail("mappings", "Enable it: \"aws lambda update-event-source-mapping --enabled --uuid "+id+"\".", "nobody works on %s: its mapping is %s", short(m.Queue), m.State)
		case m.State != "Enabled":
			s.report.warn("mappings", "Look again in a minute.", "the mapping of %s is %s", short(m.Queue), m.State)
		}
		if !m.Partial {
			s.report.fail("mappings", "Set ReportBatchItemFailures on the mapping: without it a message that is left for later is deleted.", "the messages of %s do not fail one by one", short(m.Queue))
		}
		f, err := s.Function(ctx, m.Function)
		if err != nil {
			s.unasked("mappings", err)
			return
		}
		mapped[m.Queue] = f
	}
	polled := 0
	for _, q := range s.worked() {
		f, served := mapped[q.ARN]
		switch {
		case !served && s.looks(q):
			s.report.fail("mappings", "Deploy the stack again.", "nobody works on %s: it has no mapping", q.Name)
		case !served:
			polled++
		case q.Visibility < topology.VisibilityFactor*f.Timeout:
			s.report.fail("queues", "Set the queue's visibility time-out to six times the function's time-out, or deploy again.",
				"messages of %s are hidden for %d s, and %s may take %d s: want %d s", q.Name, q.Visibility, f.Name, f.Timeout, topology.VisibilityFactor*f.Timeout)
		}
		s.checkQueue(q)
	}
	if !s.report.found("mappings", n) {
		s.report.good("mappings", "%s enabled, %s without a function, for workers that poll", many(len(mapped), "mapping"), many(polled, "queue"))
	}
	if !s.report.found("queues", 0) {
		s.report.good("queues", "%s, time-outs and dead letters as they have to be", many(len(s.worked()), "queue"))
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
