package engine

import (
	"context"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// workspace is the workspace of one look at one execution: the state as loaded, the
// facts fetched so far, and what was read on the way and cannot change.
type workspace struct {
	payloads

	e      *Engine
	ports  port.Ports
	tenant string
	id     string

	execution        *workflow.Execution
	facts            lifecycle.Facts
	pendingCost      workflow.Cost      // consumed, not yet written down
	inline           bool               // driven by whoever starts the run
	stale            bool               // the execution has gone on without us: reload
	command          *lifecycle.Command // what an operator asked for, until it is committed
	commandCommitted bool               // the operator's command has been committed
	limitReached     bool               // the next commit stops what a bound forbids
	now              time.Time          // of the decision that is being made, facts and all

	program  *definitions.Program // once resolved
	planner  *planner.Planner
	recorder recorder
}

func (e *Engine) newWorkspace(tenant, id string) *workspace {
	w := &workspace{e: e, ports: e.OpenPorts(), tenant: tenant, id: id}
	w.payloads = payloads{store: w.ports.Store, tenant: tenant, executionID: id, nonce: e.Nonce}
	w.recorder = recorder{logger: e.Log, tracer: e.Tracer, recordMetric: e.RecordMetric, tenant: tenant, executionID: id}
	return w
}

// startInput is what the starter gave.
func (w *workspace) startInput(ctx context.Context) (*workflow.Input, error) {
	return w.loadInput(ctx, w.execution.Input)
}

func (w *workspace) load(ctx context.Context) (err error) {
	w.execution, err = w.ports.Store.Load(ctx, w.tenant, w.id)
	w.recorder.SetExecution(w.execution)
	return err
}

// reload starts over from the stored state, after a lost race. What is immutable
// stays, and so does a command that has not been committed; the engine's own
// order to break the run does not. Plans go: one that was made together with the
// commit that failed carries tokens and attributes of locks that the run may
// have let go and taken anew since.
func (w *workspace) reload(ctx context.Context, conflicts *int) error {
	if *conflicts++; *conflicts > w.e.MaxConflictRetries {
		return workflow.Errorf(workflow.CodeConflict, "execution %s keeps changing", w.id)
	}
	w.e.Backoff(*conflicts)
	x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
	if err != nil {
		return err
	}
	if x.Workflow != w.execution.Workflow || !maps.Equal(x.Blocks, w.execution.Blocks) || !maps.Equal(x.Workflows, w.execution.Workflows) {
		// Somebody else has pinned the run, perhaps to other versions.
		w.facts.Resolution, w.program, w.planner = nil, nil, nil
	}
	w.execution, w.stale, w.facts.Command, w.now = x, false, w.command, w.e.now()
	w.recorder.SetExecution(x)
	w.facts.Plans = nil
	w.planner.ClearCache()
	w.clearStaleFacts()
	return nil
}

// clearStaleFacts forgets the facts that a commit or a reload makes old.
func (w *workspace) clearStaleFacts() {
	f := &w.facts
	f.Blocker, f.Locks, f.Reports, f.Child, f.Discovery, f.Readiness, f.Unreferenced, f.Discarded = nil, nil, nil, nil, nil, nil, nil, false
}

func (w *workspace) dispatcher() *dispatch.Dispatcher {
	limits := w.e.Dispatch
	return &dispatch.Dispatcher{Packs: w.ports.Packs, Sender: w.ports.Sender, Limits: limits}
}

// fetch learns the fact that the decider needs for the draft.
func (w *workspace) fetch(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	switch n.Kind {
	case lifecycle.NeedResolution:
		return w.fetchResolution(ctx)
	case lifecycle.NeedReadiness:
		return w.fetchReadiness(ctx)
	case lifecycle.NeedDiscovery:
		return w.fetchDiscovery(ctx, draft)
	case lifecycle.NeedBlocker:
		return w.fetchBlocker(ctx)
	case lifecycle.NeedLocks:
		return w.fetchLocks(ctx)
	case lifecycle.NeedPlan:
		return w.fetchPlan(ctx, n, draft)
	case lifecycle.NeedReport, lifecycle.NeedClose:
		return w.fetchReport(ctx, n)
	case lifecycle.NeedChild, lifecycle.NeedChildCancel:
		return w.fetchChild(ctx, n)
	case lifecycle.NeedUpdatesApplied:
		return w.fetchUpdatesApplied(ctx)
	case lifecycle.NeedUnreferenced, lifecycle.NeedDiscarded:
		return retention{ports: w.ports, now: w.now, parallelism: w.e.Parallelism}.fetch(ctx, n.Kind, w.execution, &w.facts)
	}
	return workflow.Errorf(workflow.CodeInternal, "the decider asks for an unknown fact %q", n.Kind)
}
