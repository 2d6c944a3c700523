package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	// slowResponse is a round trip that is too slow if it happens twice in a row.
	slowResponse = 2 * time.Second

	// AWS refuses signatures whose time is off by more than maxClockSkew. A smaller
	// skew than notableClockSkew is no finding, since the Date of a response has only
	// whole seconds.
	maxClockSkew     = 5 * time.Minute
	notableClockSkew = 30 * time.Second

	// Two sweeps have missed a timer that has been due for longer than overdueAfter.
	overdueAfter = 3 * time.Minute

	// maxNamesShown is the number of names in a finding.
	maxNamesShown = 3
)

// serviceCheck checks the service over HTTP.
type serviceCheck struct {
	*client.Client
	report         *Report
	transport      *timingTransport
	now            func() time.Time
	commandVersion string
	working        *bool               // an execution may have jobs; nil until it is read
	workerPools    map[string][]string // the ids of the live workers, by pool without its region
}

// timingTransport records the duration of the last request and the offset of the
// service's clock.
type timingTransport struct {
	next http.RoundTripper
	now  func() time.Time

	duration    time.Duration
	clockOffset time.Duration // service's clock minus this one
	hasDate     bool          // a response had a Date
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

// checkAll does all checks of the service. It stops if the next check would fail too.
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
	s.checkWorkerPools(ctx)
	s.checkTables(ctx)
	s.checkSubscriptions(ctx)
	s.checkFollowUps(ctx)
	s.checkUnacknowledged(ctx)
}

// checkTables finds rows of pipes that their tables rejected.
func (s *serviceCheck) checkTables(ctx context.Context) {
	n, healthy := 0, true
	for t, err := range s.Tables(ctx) {
		var tried []workflow.DeliveryAttempt
		if err == nil {
			tried, err = s.TableDeliveries(ctx, t.Name)
		}
		if err != nil {
			s.reportUnchecked("tables", err)
			return
		}
		n++
		failed := slices.DeleteFunc(tried, func(a workflow.DeliveryAttempt) bool { return a.Delivered })
		if len(failed) > 0 {
			healthy = false
			s.report.warn("tables", "\"lockstep tables deliveries "+t.Name+"\" lists them; remove the cause, then \"lockstep tables retry "+t.Name+"\".",
				"rows of %s are not stored in the table %s, the newest because: %s", pluralize(len(failed), "step"), t.Name, render.OneLine(failed[0].Error))
		}
	}
	if healthy {
		s.report.pass("tables", "%s, which took all their rows", pluralize(n, "table"))
	}
}

// checkSubscriptions finds subscriptions that are suspended, or whose deliveries are given up.
func (s *serviceCheck) checkSubscriptions(ctx context.Context) {
	n, healthy := 0, true
	for v, err := range s.Subscriptions(ctx) {
		if err != nil {
			s.reportUnchecked("subscriptions", err)
			return
		}
		n++
		switch {
		case v.Suspended != nil:
			healthy = false
			s.report.warn("subscriptions", "Mend its receiver, then \"lockstep subscriptions resume "+v.Name+"\".", "%s is suspended since %s: %s", v.Name, render.Time(&v.Suspended.At), render.OneLine(v.Suspended.Reason))
		case v.Dead > 0:
			healthy = false
			s.report.warn("subscriptions", "\"lockstep subscriptions deliveries "+v.Name+"\" says why; mend its receiver, then \"lockstep redrive --queue hooks-out\".", "the last %d to %s were given up", v.Dead, v.Name)
		}
	}
	if healthy {
		s.report.pass("subscriptions", "%s, none suspended", pluralize(n, "subscription"))
	}
}

// maxEndsRead is how many ended executions of each status are examined for what their ends could not
// start.
const maxEndsRead = 20

// checkFollowUps finds, among the newest executions that have ended, those whose end could not start
// what it should. It lists them by status, so that it does not read all those that still run.
func (s *serviceCheck) checkFollowUps(ctx context.Context) {
	var failing []string
	read, why, of := 0, "", ""
	for _, status := range []sm.Status{sm.StatusCompleted, sm.StatusFailed, sm.StatusCancelled} {
		listed := 0
		for x, err := range s.Executions(ctx, views.ExecutionFilter{Status: status}) {
			if err == nil && listed == maxEndsRead {
				of = fmt.Sprintf(" (the newest %d of each status)", maxEndsRead)
				break
			}
			if err == nil {
				x, err = s.Execution(ctx, x.ID)
			}
			if err != nil {
				s.reportUnchecked("follow-ups", err)
				return
			}
			listed++
			if f := x.FollowUpFailure; f != nil {
				failing, why = append(failing, x.ID), cmp.Or(why, f.Error)
			}
		}
		read += listed
	}
	if len(failing) > 0 {
		s.report.warn("follow-ups", "\"lockstep status ID\" says why, and when it is tried again: publish what is missing.",
			"of the ends of %s%s, these have not started what they should: %s; one of them because: %s", pluralize(read, "execution"), of, summarizeNames(failing), render.OneLine(why))
		return
	}
	s.report.pass("follow-ups", "none failed, of the ends of %s%s", pluralize(read, "execution"), of)
}

// checkAddress reports whether the service answers requests.
func (s *serviceCheck) checkAddress(ctx context.Context, url string) bool {
	took := time.Duration(-1)
	for range 2 { // the first request may include a cold start
		err := s.Health(ctx)
		var unreachable *client.UnreachableError
		switch {
		case errors.As(err, &unreachable):
			s.report.unreachable = err
			s.report.fail("address", "Check that the service is running and that the address is the stack's output ApiUrl; set it with --url or LOCKSTEP_URL.", "%v", err)
			return false
		case err != nil:
			s.report.fail("address", "Check that the address is that of a Lockstep service; if it is, see the log of the function api.", "%s does not take requests: %v", url, err)
			return workflow.Is(err, workflow.CodeUnavailable)
		}
		if took < 0 || s.transport.duration < took {
			took = s.transport.duration
		}
	}
	if took > slowResponse {
		s.report.warn("address", "Check the duration and the throttles of the function api on the dashboard.", "%s answers, but takes %s", url, took.Round(time.Millisecond))
		return true
	}
	s.report.pass("address", "%s answers in %s", url, took.Round(100*time.Microsecond))
	return true
}

func (s *serviceCheck) checkClock() {
	off := s.transport.clockOffset.Abs().Round(time.Second)
	switch {
	case !s.transport.hasDate:
		s.report.warn("clock", "", "the service sends no Date header")
	case off > maxClockSkew:
		s.report.fail("clock", "Set this machine's clock, for example with NTP: AWS refuses signatures that are more than five minutes off.", "this clock and the service's clock differ by %s", off)
	case off > notableClockSkew:
		s.report.warn("clock", "Set this machine's clock, for example with NTP: AWS refuses signatures that are more than five minutes off.", "this clock and the service's clock differ by %s", off)
	default:
		s.report.pass("clock", "this clock and the service's clock agree")
	}
}

func (s *serviceCheck) checkVersion(ctx context.Context) {
	build, err := s.Version(ctx)
	switch {
	case err != nil:
		s.reportUnchecked("version", err)
	case build.Version != s.commandVersion:
		s.report.warn("version", "Install the command of the service's release: an older command does not understand everything that a newer service returns.",
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
			s.report.fail("dead letters", "\"lockstep redrive --list --queue "+q.Queue+"\" shows the reason; remove the cause, then \"lockstep redrive\".",
				"%s of this tenant on %s", pluralize(q.Messages, "message"), q.Queue)
		}
	}
	if messages == 0 {
		s.report.pass("dead letters", "none of this tenant on %s", pluralize(queues, "queue"))
	}
}

// checkSweep checks that the sweeper runs. If it does not, timers stay overdue.
func (s *serviceCheck) checkSweep(ctx context.Context) {
	v, err := s.NextSweep(ctx)
	if err != nil {
		s.reportUnchecked("sweep", err)
		return
	}
	var late []string
	oldest := time.Duration(0)
	add := func(name string, since time.Time) {
		if age := v.AsOf.Sub(since); age > overdueAfter {
			late, oldest = append(late, name), max(oldest, age)
		}
	}
	for _, x := range v.Executions {
		add("execution "+x.Execution, x.Since)
	}
	for _, c := range v.Schedules {
		add("schedule "+c.Schedule, c.FireTime)
	}
	for _, w := range v.Workers {
		add("worker "+w.Worker, w.Since)
	}
	const next = "Check that the rule is enabled and that the function sweeper has no errors; \"lockstep sweep\" lists what is due."
	switch {
	case len(late) == 0:
		s.report.pass("sweep", "nothing is overdue")
	case oldest > topology.StuckAfterSeconds*time.Second:
		s.report.fail("sweep", next, "no sweep for %s of %s", oldest.Round(time.Minute), summarizeNames(late))
	default:
		s.report.warn("sweep", next, "no sweep for %s of %s", oldest.Round(time.Second), summarizeNames(late))
	}
}

// silentAfter is how long a worker that has missed two heartbeats (worker.heartbeat, 20 s) has been
// silent. The service calls it UNREACHABLE later.
const silentAfter = time.Minute

func (s *serviceCheck) checkWorkers(ctx context.Context) {
	online, now := 0, s.now().Add(s.transport.clockOffset)
	var unreachable, silent []string
	s.workerPools = map[string][]string{}
	for w, err := range s.Workers(ctx) {
		if err != nil {
			s.reportUnchecked("workers", err)
			return
		}
		switch w.State {
		case sm.WorkerDraining:
		case sm.WorkerUnreachable, sm.WorkerOffline:
			unreachable = append(unreachable, w.ID+" ("+string(w.State)+")")
		default:
			online++
			pool, _, _ := strings.Cut(w.Pool, "@")
			s.workerPools[pool] = append(s.workerPools[pool], w.ID)
			switch {
			case w.LastHeartbeat == nil && now.Sub(w.RegisteredAt) > silentAfter:
				silent = append(silent, w.ID+" (none since it registered at "+render.Time(&w.RegisteredAt)+")")
			case w.LastHeartbeat != nil && now.Sub(*w.LastHeartbeat) > silentAfter:
				silent = append(silent, w.ID+" (since "+render.Time(w.LastHeartbeat)+")")
			}
		}
	}
	if len(unreachable) > 0 {
		s.report.warn("workers", "Restart them, or ignore them: the service removes them after a day.", "no heartbeat from %s", summarizeNames(unreachable))
	}
	if len(silent) > 0 {
		s.report.warn("workers", "Check that they run and send heartbeats (POST /workers/ID/heartbeat), which polls do not replace: without any they get no packs after a while.", "no recent heartbeat from %s", summarizeNames(silent))
	}
	switch {
	case len(unreachable)+len(silent) > 0:
	case online == 0:
		s.report.pass("workers", "no polling workers are registered")
	default:
		s.report.pass("workers", "%s, all with a recent heartbeat", pluralize(online, "polling worker"))
	}
}

// checkWorkerPools finds workers in pools that no block names: they get no jobs.
func (s *serviceCheck) checkWorkerPools(ctx context.Context) {
	pools := []string{topology.PoolDefault}
	for b, err := range s.Blocks(ctx) {
		if err != nil {
			s.reportUnchecked("pools", err)
			return
		}
		pools = append(pools, cmp.Or(b.Pool, topology.PoolDefault))
	}
	slices.Sort(pools)
	pools = slices.Compact(pools)
	for _, pool := range slices.Sorted(maps.Keys(s.workerPools)) {
		if !slices.Contains(pools, pool) {
			s.report.warn("pools", "Register the worker with a pool of its blocks, or the blocks with this pool.", "%s: no block names the pool %s%s", summarizeNames(s.workerPools[pool]), pool, workflow.DidYouMean(pool, pools))
		}
	}
}

func (s *serviceCheck) checkPools(ctx context.Context) {
	n, healthy := 0, true
	for p, err := range s.Pools(ctx) {
		if err != nil {
			s.reportUnchecked("pools", err)
			return
		}
		n++
		switch {
		case p.Unclaimed != nil:
			healthy = false
			s.warnUnclaimed(p)
		case topology.RegionOf(p.Pool) != "" && !p.Queue: // a worker is alive, and no jobs wait
		case !p.Queue:
			healthy = false
			s.report.warn("pools", "Add the pool to the stack, or register the blocks with another pool: their jobs end with UNCLAIMED.", "blocks are registered for the pool %s, which has no queue", p.Pool)
		case p.Waiting != nil && *p.Waiting > 0 && len(p.Claims) == 0 && (p.Claimed == nil || *p.Claimed == 0) && s.atWork(ctx):
			healthy = false
			s.report.warn("pools", "Check that its workers run, and repeat the check: this was a single sample.", "%s for the pool %s, and no worker has claimed any", pluralize(*p.Waiting, "message"), p.Pool)
		}
	}
	if healthy {
		s.report.pass("pools", "%s, none with work that nobody claims", pluralize(n, "pool"))
	}
}

// atWork reports whether any execution may have jobs: it has not ended and does more than wait. If
// none may, the messages of a pool belong to executions that have ended; workers drop them, or they
// expire.
func (s *serviceCheck) atWork(ctx context.Context) bool {
	if s.working != nil {
		return *s.working
	}
	working := false
	for x, err := range s.Executions(ctx, views.ExecutionFilter{Active: true}) {
		if err != nil || x.Waiting == nil || x.Waiting.Kind == workflow.WaitWorker || x.Waiting.Kind == workflow.WaitRetry {
			working = true // or unknown
			break
		}
	}
	s.working = &working
	return working
}

// warnUnclaimed reports the pool and region in which jobs wait, since when, and what to do.
func (s *serviceCheck) warnUnclaimed(p views.PoolView) {
	what := fmt.Sprintf("%s of %s for the pool %s", pluralize(p.Unclaimed.Jobs, "job"), pluralize(p.Unclaimed.Executions, "execution"), p.Pool)
	next := "Check that its workers run (\"lockstep workers\")"
	if !p.Queue {
		next = "Add the pool to the stack, or register the blocks with another pool"
	}
	if pool, region, found := strings.Cut(p.Pool, "@"); found {
		what = fmt.Sprintf("%s of %s for the pool %s in the region %s", pluralize(p.Unclaimed.Jobs, "job"), pluralize(p.Unclaimed.Executions, "execution"), pool, region)
		next = fmt.Sprintf("Start workers of the pool with the setting worker.region (LOCKSTEP_WORKER_REGION=%s), or add the pool in this region to the stack (on a local stack name it in the setting regions), "+
			"or cancel the executions (\"lockstep list --active --region %s\") and start them in another region (--region)", region, region)
	}
	s.report.warn("pools", next+": jobs that nobody claims end with UNCLAIMED.", "%s, and no worker has claimed any since %s", what, render.Time(&p.Unclaimed.Since))
}

// maxUnacknowledged bounds how many executions to acknowledge are told apart.
const maxUnacknowledged = 100

// checkUnacknowledged finds executions that wait for an operator: those whose rollback can be
// retried, those that keep their locks until somebody acknowledges them, and those that hold none.
func (s *serviceCheck) checkUnacknowledged(ctx context.Context) {
	var undoing, locking, free []string
	more := false
	for _, state := range []sm.ExecutionState{sm.ExecutionFailedUnsafe, sm.ExecutionCancelled} {
		for x, err := range s.Executions(ctx, views.ExecutionFilter{State: state}) {
			if err != nil {
				s.reportUnchecked("runs", err)
				return
			}
			if x.Waiting == nil || x.Waiting.Kind != workflow.WaitAcknowledge {
				continue
			}
			if more = len(undoing)+len(locking)+len(free) == maxUnacknowledged; more {
				break
			}
			switch {
			case x.FailedRollback != nil && x.FailedRollback.Obstacle == nil:
				undoing = append(undoing, x.ID)
			case x.Kept != nil && *x.Kept == 0:
				free = append(free, x.ID)
			default:
				locking = append(locking, x.ID)
			}
		}
	}
	others := ""
	if more {
		others = fmt.Sprintf("; more than %d wait to be acknowledged: \"lockstep list --state FAILED_UNSAFE\" and \"lockstep list --state CANCELLED\" list all", maxUnacknowledged)
	}
	if len(undoing) > 0 {
		s.report.warn("runs", "\"lockstep status ID\" shows what has failed; mend it, then \"lockstep retry ID --rollback\" undoes the rest; or undo it by hand, then \"lockstep acknowledge ID\".", "the rollback of these has failed: %s%s", summarizeNames(undoing), others)
	}
	if len(locking) > 0 {
		s.report.warn("runs", "\"lockstep status ID\" shows what happened; \"lockstep acknowledge ID\" releases its locks.", "these wait to be acknowledged: %s%s", summarizeNames(locking), others)
	}
	if len(free) > 0 {
		s.report.warn("runs", "\"lockstep status ID\" shows what remains; \"lockstep acknowledge ID\" says that somebody has looked.", "these wait to be acknowledged, and hold no locks: %s%s", summarizeNames(free), others)
	}
	if len(undoing)+len(locking)+len(free) == 0 {
		s.report.pass("runs", "none waits to be acknowledged")
	}
}

// reportUnchecked adds a finding for a check that could not be done.
func (s *serviceCheck) reportUnchecked(check string, err error) {
	s.report.skip(check)
	if workflow.Is(err, workflow.CodeForbidden) {
		s.report.warn(check, "Use other credentials.", "not checked: these credentials do not allow it")
		return
	}
	s.report.fail(check, "See the log of the function api for the request's id.", "%v", err)
}

// summarizeNames joins the first few names and counts the others.
func summarizeNames(names []string) string {
	if len(names) > maxNamesShown {
		return strings.Join(names[:maxNamesShown], ", ") + " and " + pluralize(len(names)-maxNamesShown, "other")
	}
	return strings.Join(names, ", ")
}

// unknownExecutionID is a valid id that no execution has: ids contain the time of creation, and
// this one is from 1970.
const unknownExecutionID = "00000000-0000-7000-8000-000000000000"

// checkPermissions finds out what the caller may do. It sends requests that are not valid: if the
// service allows them, it answers invalid, before it does anything or adds them to the audit;
// otherwise it answers forbidden first.
// checkPermissions reports whether the caller may read.
func (s *serviceCheck) checkPermissions(ctx context.Context) bool {
	read := func() error {
		for _, err := range s.Executions(ctx, views.ExecutionFilter{}) {
			return err
		}
		return nil
	}
	probes := []struct {
		action string
		send   func() error
	}{
		{"read", read},
		{"start executions", func() error { _, _, err := s.Start(ctx, views.StartRequest{}); return err }},
		{"publish", func() error { _, _, err := s.Publish(ctx, nil, true); return err }},
		{"import", func() error { _, err := s.ImportEntities(ctx, strings.NewReader("")); return err }},
		{"cancel", func() error {
			_, err := s.Cancel(ctx, unknownExecutionID, views.CancelRequest{Rollback: "-"})
			return err
		}},
		{"redrive", func() error { _, err := s.Redrive(ctx, views.RedriveRequest{Queue: "-"}); return err }},
	}
	var allowed, denied []string
	for i, p := range probes {
		err := p.send()
		var answer *workflow.Error
		switch {
		case workflow.Is(err, workflow.CodeUnauthorized):
			s.report.fail("rights", "Set the credentials that the service requires: those of AWS, or LOCKSTEP_TOKEN.", "the service does not know the caller: %v", err)
			return false
		case workflow.Is(err, workflow.CodeForbidden) && i == 0:
			s.report.fail("rights", "Allow execute-api:Invoke on the API, or use credentials that have it; with AWS credentials, check that they are complete and the clock is right.", "the caller may not even read: %v", err)
			return false
		case workflow.Is(err, workflow.CodeForbidden):
			denied = append(denied, p.action)
		case err != nil && (!errors.As(err, &answer) || answer.Code.HTTPStatus() >= 500):
			s.report.fail("rights", "See the log of the function api.", "cannot find out whether the caller may %s: %v", p.action, err)
			return i > 0
		default:
			allowed = append(allowed, p.action)
		}
	}
	if len(denied) > 0 {
		s.report.warn("rights", "This may be intended. If not, allow execute-api:Invoke on those routes.", "the caller may %s, and may not %s", strings.Join(allowed, ", "), strings.Join(denied, ", "))
		return true
	}
	s.report.pass("rights", "the caller may %s", strings.Join(allowed, ", "))
	return true
}
