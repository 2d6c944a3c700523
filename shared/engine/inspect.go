package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Inspection reads one execution and changes nothing. The views are built from it.
type Inspection struct {
	w        *workspace
	packs    map[int][]*workflow.Pack // by StepRunSeq, as far as read
	children map[int]childLanes       // the same for sets of children
}

func newInspection(w *workspace) *Inspection {
	return &Inspection{w, map[int][]*workflow.Pack{}, map[int]childLanes{}}
}

// Inspect loads an execution for reading. If it is missing, or its retention is over, it returns
// CodeNotFound.
func (e *Engine) Inspect(ctx context.Context, tenant, id string) (*Inspection, error) {
	w := e.newWorkspace(tenant, id)
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	if !w.execution.DiscardedAt.IsZero() {
		return nil, workflow.Errorf(workflow.CodeNotFound, "execution %s has been removed: its retention is over", id)
	}
	return newInspection(w), nil
}

// InspectLoaded inspects an execution that has been loaded already.
func (e *Engine) InspectLoaded(x *workflow.Execution) *Inspection {
	w := e.newWorkspace(x.Tenant, x.ID)
	w.execution = x
	return newInspection(w)
}

// Execution returns the state item as read.
func (i *Inspection) Execution() *workflow.Execution { return i.w.execution }

// Ports returns the ports that the inspection reads through.
func (i *Inspection) Ports() port.Ports { return i.w.ports }

// Input returns the input of the start request.
func (i *Inspection) Input(ctx context.Context) (*workflow.Input, error) { return i.w.startInput(ctx) }

// Entities returns the scope, in its fixed order.
func (i *Inspection) Entities(ctx context.Context) ([]workflow.ScopeEntity, error) {
	return i.w.loadEntities(ctx, i.w.execution.Scope)
}

// AllEntities returns the whole scope, including entities that do not take part in this try.
func (i *Inspection) AllEntities(ctx context.Context) ([]workflow.ScopeEntity, error) {
	return i.w.loadAllEntities(ctx, i.w.execution.Scope)
}

// PlannedJobs returns the jobs of a step run.
func (i *Inspection) PlannedJobs(ctx context.Context, r *workflow.StepRun) ([]workflow.JobInput, error) {
	p, err := i.w.ensurePlanner(ctx)
	if err != nil {
		return nil, err
	}
	planned, err := p.Plan(ctx, i.w.execution, r)
	return planned.Jobs, err
}

// Question returns what a step run asks people.
func (i *Inspection) Question(ctx context.Context, r *workflow.StepRun) (*workflow.Question, error) {
	return i.w.question(ctx, r)
}

// NextStep plans the step before which a probe has stopped. step is nil if the probe has executed
// all steps.
func (i *Inspection) NextStep(ctx context.Context) (step *spec.Node, block *workflow.Block, planned plan.JobPlan, err error) {
	p, err := i.w.ensurePlanner(ctx)
	x := i.w.execution
	if err != nil || x.PC >= len(p.Program.Nodes) {
		return nil, nil, planned, err
	}
	step = &p.Program.Nodes[x.PC]
	planned, err = p.Plan(ctx, x, &workflow.StepRun{Seq: x.StepRunSeq + 1, Try: x.Try, StepIndex: x.PC, Kind: workflow.JobExecute})
	if b, ok := p.Blocks[step.FunctionBlock]; ok {
		block = &b
	}
	return step, block, planned, err
}

// Packs returns all packs of a step run. It reads them only once.
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

// ChildLanes returns the lanes of a set of children that are done, and those of them that did not end
// well. It reads them only once.
func (i *Inspection) ChildLanes(ctx context.Context, r *workflow.StepRun) (done, failed map[int]bool, err error) {
	lanes, known := i.children[r.Seq]
	if !known {
		if lanes, err = i.w.readChildLanes(ctx, r); err != nil {
			return nil, nil, err
		}
		i.children[r.Seq] = lanes
	}
	return lanes.done, lanes.failed, nil
}

// LanePacks returns the packs of one lane of a step run.
func (i *Inspection) LanePacks(ctx context.Context, r *workflow.StepRun, lane int) ([]*workflow.Pack, error) {
	key := workflow.StepRunKey{Tenant: i.w.tenant, Execution: i.w.id, Ordinal: r.Ordinal, Seq: r.Seq}
	return i.w.ports.Packs.LanePacks(ctx, key, lane, lane)
}

// ShardPacks returns the packs of one shard of a step run's lanes.
func (i *Inspection) ShardPacks(ctx context.Context, r *workflow.StepRun, shard int) ([]*workflow.Pack, error) {
	key := workflow.StepRunKey{Tenant: i.w.tenant, Execution: i.w.id, Ordinal: r.Ordinal, Seq: r.Seq}
	return i.w.ports.Packs.ShardPacks(ctx, key, shard)
}

// Program returns the execution's program; nil if it can no longer be resolved.
func (i *Inspection) Program(ctx context.Context) (*spec.Program, error) {
	if i.w.facts.Resolution == nil {
		if err := i.w.fetchResolution(ctx); err != nil {
			return nil, err
		}
	}
	return i.w.facts.Resolution.Program, nil
}

// LockDeadline returns when an execution that waits for locks gives up.
func (e *Engine) LockDeadline(x *workflow.Execution) time.Time {
	return x.LockSince.Add(e.Policy.LockTimeout)
}
