package doctor

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	// slowResponse is a round trip that people notice, twice in a row.
	slowResponse = 2 * time.Second

	// AWS refuses signatures whose time is further off than maxClockSkew. The Date of
	// an answer is in whole seconds, hence what is no difference.
	maxClockSkew     = 5 * time.Minute
	notableClockSkew = 30 * time.Second

	// An alarm that rang longer ago than this has been missed by two sweeps.
	overdueAfter = 3 * time.Minute

	// maxNamesShown is how many names a finding tells.
	maxNamesShown = 3
)

// serviceCheck is what is asked over HTTP.
type serviceCheck struct {
	*client.Client
	report         *Report
	transport      *timingTransport
	now            func() time.Time
	commandVersion string // the command's version
}

// timingTransport remembers what passes: when the last answer came, and what time the service
// had then.
type timingTransport struct {
	next http.RoundTripper
	now  func() time.Time

	duration    time.Duration
	clockOffset time.Duration // of the service's clock from this one
	hasDate     bool          // the service has said its time
}

// RoundTrip sends the request.
func (t *timingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := t.now()
	res, err := t.next.RoundTrip(r)
	t.duration = t.now().Sub(sent)
	if err != nil {
		return res, err
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		t.clockOffset, t.hasDate = date.Sub(sent.Add(t.duration/2)), true
	}
	return res, nil
}

// checkAll asks everything there is to ask over HTTP.
func (s *serviceCheck) checkAll(ctx context.Context, url string) {
	if !s.checkAddress(ctx, url) {
		return
	}
	s.checkClock()
	if !s.checkPermissions(ctx) {
		return
	}
	s.checkVersion(ctx)
	s.checkDeadLetters(ctx)
	s.checkSweep(ctx)
	s.checkWorkers(ctx)
	s.checkPools(ctx)
	s.checkUnacknowledged(ctx)
}

// checkAddress reports whether there is anything to talk to.
func (s *serviceCheck) checkAddress(ctx context.Context, url string) bool {
	took := time.Duration(-1)
	for range 2 { // the first request may have to wait for a function to start
		err := s.Health(ctx)
		var unreachable *client.UnreachableError
		switch {
		case errors.As(err, &unreachable):
			s.report.unreachable = err
			s.report.fail("address", "Is it the address that the stack's output ApiUrl says, and the service running? --url or LOCKSTEP_URL names it.", "%v", err)
			return false
		case err != nil:
			s.report.fail("address", "See that the address is that of a Lockstep service; if it is, the log of the function api says why.", "%s does not take requests: %v", url, err)
			return workflow.Is(err, workflow.CodeUnavailable)
		}
		if took < 0 || s.transport.duration < took {
			took = s.transport.duration
		}
	}
	if took > slowResponse {
		s.report.warn("address", "Look at the duration and the throttles of the function api on the dashboard.", "%s answers, but takes %s", url, took.Round(time.Millisecond))
		return true
	}
	s.report.pass("address", "%s answers in %s", url, took.Round(100*time.Microsecond))
	return true
}

func (s *serviceCheck) checkClock() {
	off := s.transport.clockOffset.Abs().Round(time.Second)
	switch {
	case !s.transport.hasDate:
		s.report.warn("clock", "", "the service does not say what time it has")
	case off > maxClockSkew:
		s.report.fail("clock", "Set this machine's clock, by NTP for example: AWS refuses signatures that are more than five minutes off.", "this clock and the service's differ by %s", off)
	case off > notableClockSkew:
		s.report.warn("clock", "Set this machine's clock, by NTP for example: at five minutes AWS refuses what it signs.", "this clock and the service's differ by %s", off)
	default:
		s.report.pass("clock", "this clock and the service's agree")
	}
}

func (s *serviceCheck) checkVersion(ctx context.Context) {
	build, err := s.Version(ctx)
	switch {
	case err != nil:
		s.reportUnchecked("version", err)
	case build.Version != s.commandVersion:
		s.report.warn("version", "Install the command of the service's release: an older one does not know everything that a newer service answers.",
			"the command is %s, the service %s", s.commandVersion, build.Version)
	default:
		s.report.pass("version", "the command and the service are both %s", build.Version)
	}
}

func (s *serviceCheck) checkDeadLetters(ctx context.Context) {
	messages, queues := 0, 0
	for q, err := range s.DeadLetters(ctx, "", 1) {
		if err != nil {
			s.reportUnchecked("dead letters", err)
			return
		}
		queues++
		messages += q.Messages
		if q.Messages > 0 {
			s.report.fail("dead letters", "\"lockstep redrive --list --queue "+q.Queue+"\" says why; repair the cause, then \"lockstep redrive\".",
				"%s of this tenant on %s", pluralize(q.Messages, "message"), q.Queue)
		}
	}
	if messages == 0 {
		s.report.pass("dead letters", "none of this tenant on %s", pluralize(queues, "queue"))
	}
}

// checkSweep sees whether the alarm clock is served: what rang long ago has been
// missed.
func (s *serviceCheck) checkSweep(ctx context.Context) {
	v, err := s.NextSweep(ctx)
	if err != nil {
		s.reportUnchecked("sweep", err)
		return
	}
	var late []string
	oldest := time.Duration(0)
	note := func(name string, since time.Time) {
		if age := v.AsOf.Sub(since); age > overdueAfter {
			late, oldest = append(late, name), max(oldest, age)
		}
	}
	for _, x := range v.Executions {
		note("run "+x.Execution, x.Since)
	}
	for _, c := range v.Schedules {
		note("schedule "+c.Schedule, c.FireTime)
	}
	for _, w := range v.Workers {
		note("worker "+w.Worker, w.Since)
	}
	const next = "See that the rule is enabled and the function sweeper runs without errors; \"lockstep sweep\" lists what is due."
	switch {
	case len(late) == 0:
		s.report.pass("sweep", "nothing is overdue")
	case oldest > topology.StuckAfterSeconds*time.Second:
		s.report.fail("sweep", next, "nothing has looked for %s at %s", oldest.Round(time.Minute), summarizeNames(late))
	default:
		s.report.warn("sweep", next, "nothing has looked for %s at %s", oldest.Round(time.Second), summarizeNames(late))
	}
}

func (s *serviceCheck) checkWorkers(ctx context.Context) {
	online := 0
	var silent []string
	for w, err := range s.Workers(ctx) {
		if err != nil {
			s.reportUnchecked("workers", err)
			return
		}
		switch w.State {
		case sm.WorkerUnreachable, sm.WorkerOffline:
			silent = append(silent, w.ID+" ("+string(w.State)+")")
		default:
			online++
		}
	}
	if len(silent) > 0 {
		s.report.warn("workers", "Start them again, or leave them: the service forgets them after a day.", "no heartbeat from %s", summarizeNames(silent))
		return
	}
	s.report.pass("workers", "%s, all of them heard from", pluralize(online, "polling worker"))
}

func (s *serviceCheck) checkPools(ctx context.Context) {
	n, bad := 0, false
	for p, err := range s.Pools(ctx) {
		if err != nil {
			s.reportUnchecked("pools", err)
			return
		}
		n++
		switch {
		case p.Waiting == nil:
			bad = true
			s.report.warn("pools", "Add the pool to the stack, or register the blocks under another one: their jobs end with UNCLAIMED.", "blocks are registered for the pool %s, which has no queue", p.Pool)
		case *p.Waiting > 0 && len(p.Claims) == 0 && (p.Claimed == nil || *p.Claimed == 0):
			bad = true
			s.report.warn("pools", "See that its workers run; look again, for a moment proves little.", "%s for the pool %s, and nobody works on any", pluralize(*p.Waiting, "message"), p.Pool)
		}
	}
	if !bad {
		s.report.pass("pools", "%s, no work is left lying", pluralize(n, "pool"))
	}
}

// checkUnacknowledged says which runs keep their locks until somebody has looked at them.
func (s *serviceCheck) checkUnacknowledged(ctx context.Context) {
	var waiting []string
	for _, state := range []sm.ExecutionState{sm.ExecutionFailedUnsafe, sm.ExecutionCancelled} {
		for x, err := range s.Executions(ctx, views.ExecutionFilter{State: state}) {
			if err != nil {
				s.reportUnchecked("runs", err)
				return
			}
			if x.Waiting != nil && x.Waiting.Kind == views.WaitAcknowledge {
				waiting = append(waiting, x.ID)
			}
			if len(waiting) > 100 {
				break
			}
		}
	}
	if len(waiting) > 0 {
		s.report.warn("runs", "\"lockstep status ID\" says what happened; \"lockstep acknowledge ID\" releases its locks.", "somebody has to look at %s", summarizeNames(waiting))
		return
	}
	s.report.pass("runs", "none waits for somebody to look at it")
}

// reportUnchecked is a check that could not be made.
func (s *serviceCheck) reportUnchecked(check string, err error) {
	s.report.skip(check)
	if workflow.Is(err, workflow.CodeForbidden) {
		s.report.warn(check, "Ask with other credentials.", "not checked: these credentials may not ask for it")
		return
	}
	s.report.fail(check, "The log of the function api says why, under the request's id.", "%v", err)
}

// summarizeNames is the first few names, and how many there are.
func summarizeNames(names []string) string {
	if len(names) > maxNamesShown {
		return strings.Join(names[:maxNamesShown], ", ") + " and " + pluralize(len(names)-maxNamesShown, "other")
	}
	return strings.Join(names, ", ")
}
