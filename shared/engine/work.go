package engine

import (
	"context"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/beside"
	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/retention"
	"github.com/lockstep-run/lockstep/shared/engine/telling"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// work is the workspace of one look at one execution: the state as loaded, the
// facts fetched so far, and what was read on the way and cannot change.
type work struct {
	beside.Beside

	e      *Engine
	ports  port.Ports
	tenant string
	id     string

	x       *workflow.Execution
	facts   lifecycle.Facts
	pending workflow.Cost      // consumed, not yet written down
	inline  bool               // driven by whoever starts the run
	stale   bool               // the execution has gone on without us: reload
	command *lifecycle.Command // what an operator asked for, until it is committed
	done    bool               // the operator's command has been committed
	stopped bool               // the next commit stops what a bound forbids
	now     time.Time          // of the decision that is being made, facts and all

	program *library.Program // once resolved
	planner *planner.Planner
	telling telling.Teller
}

func (e *Engine) work(tenant, id string) *work {
	w := &work{e: e, ports: e.Open(), tenant: tenant, id: id}
	w.Beside = beside.Beside{Store: w.ports.Store, Tenant: tenant, Execution: id, Nonce: e.Nonce}
	w.telling = telling.Teller{Log: e.Log, Trace: e.Trace, Measure: e.Measure, Tenant: tenant, Execution: id}
	return w
}

// given is what the starter gave.
func (w *work) given(ctx context.Context) (*workflow.Input, error) { return w.Input(ctx, w.x.Input) }

func (w *work) load(ctx context.Context) (err error) {
	w.x, err = w.ports.Store.Load(ctx, w.tenant, w.id)
	w.telling.Saw(w.x)
	return err
}

// reload starts over from the stored state, after a lost race. What is immutable
// stays, and so does a command that has not been committed; the engine's own
// order to break the run does not. Plans go: one that was made together with the
// commit that failed carries tokens and attributes of locks that the run may
// have let go and taken anew since.
func (w *work) reload(ctx context.Context, lost *int) error {
	if *lost++; *lost > w.e.Tries {
		return workflow.Errorf(workflow.CodeConflict, "execution %s keeps changing", w.id)
	}
	w.e.Pause(*lost)
	x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
	if err != nil {
		return err
	}
	if x.Workflow != w.x.Workflow || !maps.Equal(x.Blocks, w.x.Blocks) || !maps.Equal(x.Workflows, w.x.Workflows) {
		// Somebody else has pinned the run, perhaps to other versions.
		w.facts.Resolved, w.program, w.planner = nil, nil, nil
	}
	w.x, w.stale, w.facts.Command, w.now = x, false, w.command, w.e.now()
	w.telling.Saw(x)
	w.facts.Plans = nil
	w.planner.Forget()
	w.settled()
	return nil
}

// settled forgets the facts that a commit or a reload makes old.
func (w *work) settled() {
	f := &w.facts
	f.Blocker, f.Locks, f.Reports, f.Child, f.Discovered, f.Ready, f.Unneeded, f.Discarded = nil, nil, nil, nil, nil, nil, nil, false
}

func (w *work) delivery() *delivery.Delivery {
	limits := w.e.Delivery
	return &delivery.Delivery{Packs: w.ports.Packs, Board: w.ports.Board, Limits: limits}
}

// fetch learns the fact that the decider needs for the draft.
func (w *work) fetch(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	switch n.Kind {
	case lifecycle.NeedResolved:
		return w.resolve(ctx)
	case lifecycle.NeedReady:
		return w.ready(ctx)
	case lifecycle.NeedDiscovered:
		return w.discover(ctx, draft)
	case lifecycle.NeedBlocker:
		return w.await(ctx)
	case lifecycle.NeedLocks:
		return w.hold(ctx)
	case lifecycle.NeedPlan:
		return w.plan(ctx, n, draft)
	case lifecycle.NeedReport, lifecycle.NeedClosing:
		return w.report(ctx, n)
	case lifecycle.NeedChild, lifecycle.NeedChildEnd:
		return w.child(ctx, n)
	case lifecycle.NeedApplied:
		return w.apply(ctx)
	case lifecycle.NeedUnneeded, lifecycle.NeedDiscarded:
		return retention.Retention{Ports: w.ports, Now: w.now, Flight: w.e.Parallel}.Learn(ctx, n.Kind, w.x, &w.facts)
	}
	return workflow.Errorf(workflow.CodeInternal, "the decider asks for an unknown fact %q", n.Kind)
}
