package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxCommits bounds the commits of one wake-up. An execution with very many steps without jobs
// continues in another invocation.
const maxCommits = 64

// workspace is what one wake-up, request or query knows about one execution: the state as loaded,
// the facts fetched so far, and cached reads of values that cannot change.
type workspace struct {
	e      *Engine
	ports  port.Ports
	tenant string
	id     string // of the execution

	execution        *workflow.Execution
	facts            lifecycle.Facts
	pendingCost      workflow.Cost      // consumed, but not committed yet
	inline           bool               // a request advances the execution: a start, or an operator's command
	stale            bool               // another handler has changed the execution: reload it
	command          *lifecycle.Command // an operator's command, until it is committed
	commandCommitted bool
	committed        bool      // this work has committed a change of the execution
	publishedRead    bool      // the timer was due and events had not been published
	lapsed           bool      // work that was due before the command has been committed
	answer           *answer   // the content of a CommandAnswer
	limitReached     bool      // the next commit stops the execution at a limit
	askingLanes      []int     // lanes of children that have started, or stopped, asking a person something
	ofTimer          bool      // the execution's own timer has sent the wake-up
	sawAsks          bool      // children were asking a person when this wake-up first looked
	deadlocked       []string  // older executions of the circles that this execution breaks when it ends
	attemptRecorded  bool      // the wake-up counts as a failure until it succeeds
	attempt          attempt   // while attemptRecorded
	boundsScope      bool      // it waits for memory, as wake-ups do
	room             int64     // weight acquired from Engine.large
	now              time.Time // time of the decision being made, and of all its facts

	unplanned     map[lifecycle.Need]*lifecycle.Report // reports about a lane that cannot be planned; nil if there is none
	unplannedLane workflow.Wakeup                      // the wake-up that finds the planning error again

	ahead      startAhead       // what a start has read ahead
	locksAhead *locking.Reading // locks that the execution takes first; nil if they were not read ahead
	packsAhead *dispatch.Ahead  // packs of the step run that a wake-up names; nil if they were not read ahead

	input  *workflow.Input                       // nil until read
	scopes map[string][]workflow.ScopeEntity     // entities of the scopes read so far, by key
	chunks map[scopeChunk][]workflow.ScopeEntity // chunks of scopes that were read in parts

	program  *definitions.Program // nil until resolved
	planner  *planner.Planner     // nil until needed
	recorder recorder
}

func (e *Engine) newWorkspace(tenant, id string) *workspace {
	w := &workspace{e: e, ports: e.OpenPorts(), tenant: tenant, id: id}
	w.ports.Registry = e.definitions.Reader(w.ports.Registry, e.now)
	w.recorder = recorder{logger: e.Log, tracer: e.Tracer, recordMetric: e.RecordMetric, tenant: tenant, executionID: id}
	return w
}

func (w *workspace) dispatcher() *dispatch.Dispatcher {
	return &dispatch.Dispatcher{Packs: w.ports.Packs, Sender: w.ports.Sender, Limits: w.e.Dispatch, Ahead: w.packsAhead}
}

// Advance handles one lifecycle message: it advances the execution as far as it goes now. On an
// error the message should be delivered again. An execution that does not exist is not an error: a
// message can outlive its execution, or arrive before it if a start was interrupted.
func (e *Engine) Advance(ctx context.Context, l workflow.Wakeup) (err error) {
	w := e.newWorkspace(l.Tenant, l.Execution)
	defer w.keepCost()
	if l.DeadLetter != nil {
		return w.recordDeadLetter(ctx, *l.DeadLetter, l.Cost)
	}
	w.pendingCost.Add(l.Cost)
	w.ofTimer = l.OfTimer
	if err := w.loadWithPacks(ctx, l); err != nil {
		if workflow.Is(err, workflow.CodeNotFound) {
			w.recorder.Log(ctx, slog.LevelWarn, "wake-up for an execution that does not exist")
			return nil
		}
		return err
	}
	ctx, end := w.recorder.StartAdvanceSpan(ctx, l.Reason)
	defer func() { end(err) }()
	w.boundsScope = e.EntitiesAtOnce > 0
	defer w.releaseMemory()
	defer func() { err = w.requeueForMemory(ctx, l, err) }()
	if !w.lanesReadParts(ctx, l) {
		if err := w.acquireMemory(ctx); err != nil {
			return err
		}
	}
	if l.Redelivered {
		unfinished, err := w.recordAttempt(ctx)
		if err != nil {
			return err
		}
		w.attemptRecorded = true
		if c := breakCommand(w.execution, e.now(), e.StallTimeout, reasonUnfinished); unfinished && c != nil {
			return outOfTime(ctx, w.advance(ctx, c))
		}
	}
	if r := w.execution.StepRunBySeq(l.StepRunSeq); l.Lane != nil && r != nil && r.IsSet() {
		if err := w.startNext(ctx, r, *l.Lane); err != nil {
			return outOfTime(ctx, err)
		}
		w.clearFailureStreak(ctx)
		return nil // nothing else has changed
	}
	decides := true
	if l.Lane != nil {
		decides, err = w.sendLane(ctx, l)
	}
	w.askingLanes = l.Children
	if w.facts.FromParent = l.FromParent; err == nil && decides {
		err = w.advance(ctx, nil)
	}
	if err == nil {
		w.clearFailureStreak(ctx)
		return nil
	}
	if errors.Is(err, errNoRoom) {
		w.withdrawAttempt(ctx)
		return err
	}
	if err = outOfTime(ctx, err); workflow.Is(err, workflow.CodeUnavailable) {
		return err
	}
	w.keepCost() // breakStalled may commit it
	return e.breakStalled(ctx, l, err)
}

// breakTimeout is the time to end an execution at the end of a wake-up that failed.
const breakTimeout = 2 * time.Second

// breakStalled ends an execution whose wake-ups, this one included, have failed for too long. If
// they have not, it returns the error of the wake-up. The context of the wake-up may have expired,
// so breakStalled has a timeout of its own. It only has to make the write that ends the execution;
// other wake-ups do the closing that follows.
func (e *Engine) breakStalled(ctx context.Context, l workflow.Wakeup, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakTimeout)
	defer cancel()
	w := e.newWorkspace(l.Tenant, l.Execution)
	defer w.keepCost()
	if err := w.load(ctx); err != nil {
		return cause
	}
	c := breakCommand(w.execution, e.now(), e.StallTimeout, workflow.Truncate(port.Reason(cause), workflow.MaxReasonBytes))
	if c == nil {
		return cause
	}
	return outOfTime(ctx, w.advance(ctx, c))
}

// advance decides and commits until all that is left is to wait. A command becomes part of the
// first decision that is committed.
func (w *workspace) advance(ctx context.Context, c *lifecycle.Command) error {
	defer func() { w.recorder.Flush(ctx, w.e.now()) }()
	err := w.advanceUntilIdle(ctx, c)
	w.announce(ctx)
	if workflow.Is(err, workflow.CodeConflict) && w.unplanned != nil {
		return errors.Join(err, w.ports.Sender.SendWakeups(ctx, 0, w.unplannedLane))
	}
	return err
}

func (w *workspace) advanceUntilIdle(ctx context.Context, c *lifecycle.Command) error {
	w.command, w.facts.Command = c, c
	conflicts := 0
	w.readClock(ctx)
	for commits := 0; ; {
		if err := w.readDecidingOutcomes(ctx); err != nil {
			return err
		}
		d, err := lifecycle.Decide(w.execution, w.facts, w.e.Policy, w.now)
		if err != nil {
			return err
		}
		if d.Need != nil {
			if err := w.fetch(ctx, *d.Need, d.Uncommitted); err != nil {
				if errors.Is(err, errLargeSearch) {
					return w.leaveSearch(ctx)
				}
				if !port.Permanent(err) || w.facts.Command != nil {
					return err
				}
				// Repeating will not help, so the execution fails.
				w.recorder.Log(ctx, slog.LevelError, "execution cannot continue", observe.Err(err))
				w.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: port.Reason(err)}
			}
			if w.stale {
				if err := w.reload(ctx, &conflicts); err != nil {
					return err
				}
			}
			continue
		}
		if d.Next == nil && d.CommandPending {
			return workflow.Errorf(workflow.CodeInternal, "what is due before the command of execution %s changes nothing", w.id)
		}
		if d.Next == nil {
			return nil
		}
		ok, err := w.commit(ctx, d)
		if err != nil {
			return err
		}
		if !ok {
			if err := w.reloadAfterLostCommit(ctx, d, &conflicts); err != nil {
				return err
			}
			continue
		}
		err = w.dispatchStepRun(ctx, d)
		if err != nil {
			// The commit stands; its timer repeats the effects that failed.
			w.recorder.Warn(ctx, "effects of the commit failed; the timer will retry", err)
		}
		if d.CommandPending {
			continue
		}
		if err != nil || d.Idle && w.facts.Reports == nil { // else a lane cannot be planned
			return nil //nolint:nilerr // see above
		}
		if commits++; commits >= maxCommits || w.exceedsInlineLimit() {
			next := w.unplannedLane
			if w.unplanned == nil {
				next = wakeup(w.execution, "continue")
			}
			return w.sendWithCost(ctx, next)
		}
	}
}

// fetch fetches the fact that the decider needs. draft is the execution as decided so far; it is
// not committed.
func (w *workspace) fetch(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	if err := w.acquireMemory(ctx); err != nil {
		return err
	}
	switch n.Kind {
	case lifecycle.NeedCheckIn:
		return w.fetchCheckIn(ctx)
	case lifecycle.NeedParent:
		return w.fetchParent(ctx)
	case lifecycle.NeedResolution:
		return w.fetchResolution(ctx)
	case lifecycle.NeedReadiness:
		return w.fetchReadiness(ctx)
	case lifecycle.NeedCondition:
		return w.fetchCondition(ctx, n, draft)
	case lifecycle.NeedAnswer:
		return w.fetchAnswer(ctx, n)
	case lifecycle.NeedSignal:
		return w.fetchSignal(ctx, n, draft)
	case lifecycle.NeedEscalated:
		return w.fetchEscalated(ctx, n)
	case lifecycle.NeedDiscovery:
		return w.fetchDiscovery(ctx, draft)
	case lifecycle.NeedBlocker:
		return w.fetchBlocker(ctx)
	case lifecycle.NeedLocks:
		err := w.fetchLocks(ctx)
		w.readClock(ctx) // taking locks may take long, and later times count from here
		return err
	case lifecycle.NeedRoute:
		return w.fetchRoute(ctx, n, draft)
	case lifecycle.NeedOutput:
		return w.fetchOutput(ctx, draft)
	case lifecycle.NeedJoin:
		return w.fetchJoin(ctx, n, draft)
	case lifecycle.NeedAgain:
		return w.fetchAgain(ctx, n, draft)
	case lifecycle.NeedPlan:
		return w.fetchPlan(ctx, n, draft)
	case lifecycle.NeedReport, lifecycle.NeedFailure, lifecycle.NeedClose:
		err := w.fetchReport(ctx, n)
		w.readClockAfterReport(ctx)
		return err
	case lifecycle.NeedChild, lifecycle.NeedChildClose:
		return w.fetchChild(ctx, n)
	case lifecycle.NeedChildren, lifecycle.NeedFailedChildren, lifecycle.NeedChildrenClose:
		return w.fetchChildren(ctx, n)
	case lifecycle.NeedEntities:
		return w.fetchEntities(ctx)
	case lifecycle.NeedKeptJobs:
		return w.fetchKeptJobs(ctx)
	case lifecycle.NeedOutdated:
		return w.fetchOutdated(ctx, draft)
	case lifecycle.NeedOutcomes:
		return w.fetchOutcomes(ctx, n, draft)
	case lifecycle.NeedUpdatesApplied:
		return w.fetchUpdatesApplied(ctx)
	case lifecycle.NeedPublished:
		return w.fetchPublished(ctx)
	case lifecycle.NeedUnreferenced:
		return w.fetchUnreferenced(ctx)
	case lifecycle.NeedDiscarded:
		return w.fetchDiscarded(ctx)
	}
	return workflow.Errorf(workflow.CodeInternal, "unknown need %q", n.Kind)
}

// exceedsInlineLimit reports whether the scope is so large that the request should leave the rest
// of the work to other handlers.
func (w *workspace) exceedsInlineLimit() bool {
	return w.inline && w.execution.Scope.Total() > w.e.InlineMaxEntities
}

func (w *workspace) load(ctx context.Context) (err error) {
	w.execution, err = w.ports.Store.Load(ctx, w.tenant, w.id)
	w.recorder.SetExecution(w.execution)
	return err
}

// readDecidingOutcomes reads the outcomes of the last end where the next decision depends on them: a
// retry, and a rollback that is retried, tell what an operator has released from what is safe. Outcomes
// that are lost refuse a retry. A rollback goes on without them, or it would never end: it leaves alone
// what it cannot tell.
func (w *workspace) readDecidingOutcomes(ctx context.Context) error {
	retry := w.facts.Command != nil && w.facts.Command.Kind == lifecycle.CommandRetry
	if kept := w.execution.Kept; retry && (kept == nil || kept.Len() == 0) { // it locks all its entities again
		return nil
	}
	if !retry && (w.execution.State != sm.ExecutionRollback || w.execution.RollbackTries == 0) {
		return nil
	}
	err := ReadOutcomes(ctx, w.ports.Packs, w.execution)
	if !retry && err != nil && port.Permanent(err) {
		w.recorder.Warn(ctx, "outcomes not read", err)
		return nil
	}
	return err
}

// reloadAfterLostCommit reloads after a commit whose condition did not hold. A commit that lost
// only to new signals does not count as a conflict: as many signals can arrive in a row as the
// mailbox holds, and a wake-up has fewer tries than that.
func (w *workspace) reloadAfterLostCommit(ctx context.Context, d lifecycle.Decision, conflicts *int) error {
	if d.DependsOnSignals {
		x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
		if err != nil {
			return err
		}
		if x.Version == w.execution.Version && x.SignalOrder > w.execution.SignalOrder {
			w.restart(ctx, x)
			return nil
		}
	}
	return w.reload(ctx, conflicts)
}

// reload starts over from the stored state after a lost race.
func (w *workspace) reload(ctx context.Context, conflicts *int) error {
	if *conflicts++; *conflicts > w.e.MaxConflictRetries {
		return workflow.Contended(workflow.CodeConflict, "execution %s", w.id)
	}
	w.e.Backoff(*conflicts)
	x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
	if err != nil {
		return err
	}
	w.restart(ctx, x)
	return nil
}

// restart starts over from a state that was just read. It keeps immutable reads and an uncommitted
// command, but not the engine's own break command: a commit has ended the streak that it was made for, or
// the error that it stands for comes again. It drops plans: a plan made for the failed
// commit carries tokens and attributes of locks that the execution may have released and taken
// again since.
func (w *workspace) restart(ctx context.Context, x *workflow.Execution) {
	if x.Workflow != w.execution.Workflow || !maps.Equal(x.Blocks, w.execution.Blocks) || !maps.Equal(x.Workflows, w.execution.Workflows) {
		// Another handler has pinned the versions, perhaps to different ones.
		w.facts.Resolution, w.program, w.planner = nil, nil, nil
	}
	if w.command != nil && w.command.Kind == lifecycle.CommandBreak && x.FailureStreak == nil {
		w.command = nil
	}
	w.execution, w.stale, w.facts.Command, w.locksAhead = x, false, w.command, nil
	w.readClock(ctx)
	w.recorder.SetExecution(x)
	w.facts.Plans, w.facts.Routes, w.facts.Joins, w.facts.Output = nil, nil, nil, nil
	w.planner.ClearCache()
	w.clearStaleFacts()
}

// clearStaleFacts drops the facts that a commit or a reload makes stale.
func (w *workspace) clearStaleFacts() {
	w.facts = w.facts.Lasting()
	w.facts.Reports = maps.Clone(w.unplanned)
}

// commit writes the decision's state and sends the wake-ups that follow from it: to the parent, to
// executions that wait for the released locks, and to itself for a deadline that is near. ok is
// false if another handler has changed the execution.
func (w *workspace) commit(ctx context.Context, d lifecycle.Decision) (ok bool, err error) {
	next := d.Next
	next.FailureStreak = nil // this wake-up has succeeded
	ctx, end := w.recorder.StartCommitSpan(ctx, w.execution, next)
	defer func() { end(err) }()
	if err := w.prepareCommit(ctx, w.execution, next); err != nil {
		return false, err
	}

	var waiters []string
	if next.Version == 1 {
		ok, err = w.create(ctx, next)
	} else {
		waiters, ok, err = w.ports.Store.Commit(ctx, w.execution.Version, next, workflow.CommitOptions{
			Release: d.WakeWaiters, Consumed: d.Consumed, SignalsSeen: d.DependsOnSignals,
		})
	}
	if err != nil || !ok {
		return ok, err
	}
	w.pendingCost, w.facts.FromParent = workflow.Cost{}, false
	from := w.execution
	w.readClock(ctx)
	w.recorder.RecordTransition(ctx, from, next, d.LimitReached || w.limitReached)
	w.execution, w.limitReached, w.attemptRecorded, w.committed = next, false, false, true
	w.clearStaleFacts()
	if w.lapsed = w.lapsed || d.CommandPending; !d.CommandPending {
		w.commandCommitted = w.commandCommitted || w.command != nil
		w.command, w.facts.Command = nil, nil
	}
	wakeups := w.parentWakeups(ctx, from, next)
	for _, id := range waiters {
		wakeups = append(wakeups, workflow.Wakeup{Tenant: w.tenant, Execution: id, Reason: "released by " + w.id})
	}
	if next.Cause == workflow.CauseLockDeadlock {
		for _, id := range w.deadlocked { // they look whether all circles are broken
			wakeups = append(wakeups, workflow.Wakeup{Tenant: w.tenant, Execution: id, Reason: "deadlock"})
		}
		w.deadlocked = nil
	}
	w.sendWakeups(ctx, "waiters", wakeups)
	w.sendDeadlineWakeup(ctx, from, next, d.DelayedWakeup)
	return true, nil
}

// prepareCommit fills in what every commit carries: the schema version, a fresh commit id, the
// engine's version, a history that fits into the item, and the cost of everything consumed so far.
// seen is the state that next replaces.
func (w *workspace) prepareCommit(ctx context.Context, seen, next *workflow.Execution) error {
	next.Schema, next.Commit, next.EngineVersion = max(seen.Schema, next.Needs()), w.e.Nonce(), w.e.version
	if err := w.offloadHistory(ctx, seen, next); err != nil {
		return err
	}
	if err := w.offloadOutcomes(ctx, next); err != nil {
		return err
	}
	before := seen
	if next.Version == 1 { // nothing is stored yet
		before = &workflow.Execution{}
	}
	next.IndexWrites = next.IndexWritesAfter(before)
	w.pendingCost.Add(w.ports.Meter.Take())
	w.pendingCost.Add(w.e.uncounted.take(w.tenant + "#" + w.id))
	next.Cost.Add(w.pendingCost)
	return nil
}
