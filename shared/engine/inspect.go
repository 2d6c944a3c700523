package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Inspection is a look at an execution that changes nothing: what its views are
// made of.
type Inspection struct {
	w     *workspace
	packs map[int][]*workflow.Pack // by RunSeq, as far as read
}

// Inspect loads an execution for reading.
func (e *Engine) Inspect(ctx context.Context, tenant, id string) (*Inspection, error) {
	w := e.newWorkspace(tenant, id)
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	if !w.execution.DiscardedAt.IsZero() {
		return nil, workflow.Errorf(workflow.CodeNotFound, "execution %s has been removed: its retention is over", id)
	}
	return &Inspection{w, map[int][]*workflow.Pack{}}, nil
}

// InspectLoaded reads on from an execution that has been loaded already.
func (e *Engine) InspectLoaded(x *workflow.Execution) *Inspection {
	w := e.newWorkspace(x.Tenant, x.ID)
	w.execution = x
	return &Inspection{w, map[int][]*workflow.Pack{}}
}

// Execution is the state item as read.
func (i *Inspection) Execution() *workflow.Execution { return i.w.execution }

// Ports are the ports the inspection reads through.
func (i *Inspection) Ports() port.Ports { return i.w.ports }

// Input is what the starter gave.
func (i *Inspection) Input(ctx context.Context) (*workflow.Input, error) { return i.w.startInput(ctx) }

// Entities is the scope, in its fixed order.
func (i *Inspection) Entities(ctx context.Context) ([]workflow.ScopeEntity, error) {
	return i.w.loadEntities(ctx, i.w.execution.Scope)
}

// PlannedJobs is the jobs of a step run.
func (i *Inspection) PlannedJobs(ctx context.Context, r *workflow.StepRun) ([]workflow.JobInput, error) {
	p, err := i.w.ensurePlanner(ctx)
	if err != nil {
		return nil, err
	}
	planned, err := p.Plan(ctx, i.w.execution, r)
	return planned.Jobs, err
}

// Packs is all packs of a step run, read once.
func (i *Inspection) Packs(ctx context.Context, r *workflow.StepRun) (packs []*workflow.Pack, err error) {
	if known, ok := i.packs[r.Seq]; ok {
		return known, nil
	}
	packs, err = i.w.dispatcher().ReadPacks(ctx, &dispatch.StepRun{Tenant: i.w.tenant, Execution: i.w.id, Step: r})
	if err == nil {
		i.packs[r.Seq] = packs
	}
	return packs, err
}

// ShardPacks is the packs of one shard of a step run's lanes.
func (i *Inspection) ShardPacks(ctx context.Context, r *workflow.StepRun, shard int) ([]*workflow.Pack, error) {
	key := workflow.StepRunKey{Tenant: i.w.tenant, Execution: i.w.id, Ordinal: r.Ordinal, Seq: r.Seq}
	return i.w.ports.Packs.ShardPacks(ctx, key, shard)
}

// Program is the run's program. One that cannot be had any more is a problem.
func (i *Inspection) Program(ctx context.Context) (*spec.Program, error) {
	if i.w.facts.Resolution == nil {
		if err := i.w.fetchResolution(ctx); err != nil {
			return nil, err
		}
	}
	return i.w.facts.Resolution.Program, nil
}

// LockDeadline is until when a run that waits for locks waits.
func (e *Engine) LockDeadline(x *workflow.Execution) time.Time {
	return x.LockSince.Add(e.Policy.LockTimeout)
}
