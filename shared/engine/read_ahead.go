package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Reading ahead saves time. If an execution over a few entities read one thing after the other, the
// reads would take most of its time. So everything that it will certainly need, and that depends on
// nothing still unknown, is read at the same time. Such a read may turn out to be too early: if it
// failed or does not fit, it is repeated where the value is needed.

// maxReadAhead is the largest number of entities whose locks are read ahead.
const maxReadAhead = 25

// startAhead says for which definition's execution a start has read everything ahead; zero if for none. While it is
// reading, the id of the execution is not decided: the key of the request may name another one.
type startAhead struct {
	of      workflow.Ref
	reading bool
}

// readAhead reads what a new execution over a few named entities needs until it has its locks: its
// blocks, its entities and their lock items. The execution may be refused because of any of them,
// but hardly ever is.
func (w *workspace) readAhead(ctx context.Context, s *workflow.Selector) {
	x := w.execution
	if s == nil || len(s.IDs) == 0 || len(s.IDs) > maxReadAhead || len(s.Groups) > 0 || s.Query != "" || lifecycle.MustCheckIn(x) || x.Hold || !x.NotBefore.IsZero() {
		return
	}
	r, program, err := w.resolveProgram(ctx)
	if err != nil || r.Problem != nil || len(program.Acquisitions) > 0 || program.Config.StartWhen != "" {
		return
	}
	if program.Config.Rate != nil && !x.Probe { // the rate comes first, and what is above it reads nothing more
		return
	}
	in, err := w.startInput(ctx)
	if err != nil {
		return
	}
	keys := make([]workflow.EntityKey, len(s.IDs))
	for i, id := range s.IDs {
		keys[i] = workflow.EntityKey{Type: s.Type, ID: id}
	}
	w.together(ctx,
		func(ctx context.Context) {
			if w.resolveBlocks(ctx, r, program) == nil {
				w.facts.Resolution, w.program, w.planner = r, program, nil
			}
		},
		func(ctx context.Context) {
			if found, err := w.discover(ctx, program, in, nil); err == nil {
				w.facts.Discovery = found
			}
		},
		func(ctx context.Context) {
			if reading, err := w.locker().ReadItems(ctx, w.tenant, keys, false); err == nil {
				w.locksAhead = reading
			}
		},
	)
	if w.facts.Resolution == nil || w.facts.Resolution.Problem != nil {
		w.facts.Discovery, w.locksAhead = nil, nil
	}
}

// resolveAndReadAhead resolves a request's workflow and, while the versions of the definition are read,
// reads ahead for the version to which the same reference has resolved last. If there is a newer one,
// what was read is forgotten.
func (w *workspace) resolveAndReadAhead(ctx context.Context, c workflow.Caller, req views.StartRequest) (d *definitions.Definition, err error) {
	ref, err := req.Ref()
	guess := w.e.definitions.Guess(w.tenant, ref)
	if err != nil || guess == nil {
		return w.resolveWorkflow(ctx, req)
	}
	w.ahead.reading = true
	w.together(ctx,
		func(ctx context.Context) { d, err = w.resolveWorkflow(ctx, req) },
		func(ctx context.Context) { w.readAheadFor(ctx, c, req, guess) },
	)
	w.ahead.reading = false
	if d == nil && err == nil { // the time was over before
		err = ctx.Err()
	}
	if err != nil || d.Ref() != guess.Ref() {
		w.forgetAhead()
	}
	return d, err
}

// readAheadFor reads ahead what an execution of a definition would need that the request asks for.
func (w *workspace) readAheadFor(ctx context.Context, c workflow.Caller, req views.StartRequest, d *definitions.Definition) {
	in, err := validateStart(d.Definition, req)
	if err != nil || d.Config.Rate != nil {
		return
	}
	x := w.requested(ctx, c, req, d.Ref(), false)
	x.Tenant, x.ID = w.tenant, w.id
	w.execution, w.input = lifecycle.NewExecution(x, w.e.now()), &in
	w.readAhead(ctx, in.Selector)
	w.ahead.of = d.Ref()
}

// forgetAhead forgets what was read ahead.
func (w *workspace) forgetAhead() {
	w.execution, w.input, w.program, w.planner, w.locksAhead, w.facts, w.ahead = nil, nil, nil, nil, nil, lifecycle.Facts{}, startAhead{}
}

// together makes calls at the same time.
func (w *workspace) together(ctx context.Context, calls ...func(context.Context)) {
	_ = parallel.Each(ctx, w.e.Parallelism, len(calls), func(ctx context.Context, i int) error { // the calls keep their errors
		calls[i](ctx)
		return nil
	})
}

// create writes a new execution and reads, at the same time, the executions that its lock items
// name. It takes no lock before the execution is written.
func (w *workspace) create(ctx context.Context, x *workflow.Execution) (ok bool, err error) {
	ahead := w.locksAhead
	if ahead == nil {
		return w.ports.Store.Create(ctx, x)
	}
	w.together(ctx,
		func(ctx context.Context) {
			if w.locker().ReadOwners(ctx, w.tenant, x.ID, ahead) != nil {
				w.locksAhead = nil
			}
		},
		func(ctx context.Context) { ok, err = w.ports.Store.Create(ctx, x) },
	)
	return ok, err
}

// loadWithPacks loads the execution and reads, at the same time, the packs of the step run that the
// wake-up names. If that step run has only one pack, the pack was finished before the wake-up was
// sent, and a finished pack does not change. So it is read weakly, which costs half as much; whoever
// does not find it finished reads again. The wake-up does not say how often the step has run, so
// this assumes once.
func (w *workspace) loadWithPacks(ctx context.Context, l workflow.Wakeup) (err error) {
	if l.StepRunSeq == 0 || l.Lane != nil {
		return w.load(ctx)
	}
	ahead := &dispatch.Ahead{StepRun: workflow.StepRunKey{Tenant: w.tenant, Execution: w.id, Ordinal: 1, Seq: l.StepRunSeq}}
	w.together(ctx,
		func(ctx context.Context) {
			ahead.Packs, _ = w.ports.Packs.ShardPacksWeakly(ctx, ahead.StepRun, 0) // on an error they are read again
		},
		func(ctx context.Context) { err = w.load(ctx) },
	)
	w.packsAhead = ahead
	return err
}
