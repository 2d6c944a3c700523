package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxPreviewed bounds how many entities a preview reads attributes and locks of, because one
// request must be answered in time. The other entities are only counted.
const maxPreviewed = 10_000

// Preview describes what an execution would do, as far as that is known without starting one. It is
// made from reads only.
type Preview struct {
	Ref     workflow.Ref                    // exact
	Program *definitions.Program            // nil if Problem says why it cannot be resolved
	Blocks  map[string]workflow.Block       // by reference, as written in the definition
	Policy  lifecycle.Policy                // the engine's policy
	Region  string                          // region whose pools would get the jobs; "" for none
	Probe   bool                            // only the pure steps at the beginning would be executed
	Problem *workflow.Failure               // ends the execution before its first step; nil for none
	Start   lifecycle.Readiness             // result of notBefore and startWhen
	Counts  map[string]int                  // number of entities, by type
	First   []workflow.ScopeEntity          // the first entities in their order, with their attributes
	Locked  []workflow.BlockedBy            // which of these the execution would wait for, and who holds them
	Owners  map[string]workflow.OwnerStatus // status of the executions that hold or have reserved them
	Steps   []PreviewedStep                 // by node; empty if there is a Problem
	Ways    *spec.Ways                      // paths through the program with these parameters

	// UncalledBlocks are blocks that acquire further entities, each with the label of its step; ""
	// for the definition. Which entities these are is unknown until the blocks are called.
	UncalledBlocks []UncalledBlock
}

// UncalledBlock is a block that acquires entities.
type UncalledBlock struct{ Step, Block string }

// PreviewedStep is one step. Plan counts the jobs for the entities that were read, as they are now.
// It assumes that every part listed in Unknown is true.
type PreviewedStep struct {
	Plan           lifecycle.Plan
	ConditionKnown bool
	Unknown        []string        // any of "condition", "assert", "parameters", "set", "switch", "items", "waves" and "wait"
	SkippedBy      string          // label of the surrounding step whose condition is false; "" for none
	Waves          []workflow.Wave // waves of a rollout, for the entities that were read
	NotEvaluated   bool            // the expressions of earlier steps have used up the cost of one request
}

// Preview returns what a start with this request would do. It refuses what a start refuses, with
// the same errors, and stores nothing.
func (e *Engine) Preview(ctx context.Context, c workflow.Caller, req views.StartRequest) (*Preview, error) {
	w := e.newWorkspace(c.Tenant, e.NewID())
	w.now = e.now()
	d, err := w.resolveWorkflow(ctx, req)
	if err != nil {
		return nil, err
	}
	in, err := validateStart(d.Definition, req)
	if err != nil {
		return nil, err
	}
	if req.Signal == nil {
		if err := w.refuseHeldKey(ctx, d.Ref(), req.Key); err != nil {
			return nil, err
		}
	}
	w.execution = &workflow.Execution{Tenant: w.tenant, ID: w.id, Workflow: d.Ref(), CreatedBy: c.Actor, CreatedAt: w.now, Labels: req.Labels, NotBefore: req.NotBefore}
	w.execution.Rollback, w.execution.Timeout, w.execution.Region = req.Rollback, req.Timeout, req.Region
	w.execution.Limits = req.Limits
	w.execution.Probe = req.Mode == views.ModeProbe
	p := &Preview{Ref: d.Ref(), Probe: w.execution.Probe, Policy: e.Policy, Counts: map[string]int{}}
	if err := w.fetchResolution(ctx); err != nil {
		return nil, err
	}
	p.Program, p.Blocks, p.Region = w.program, w.facts.Resolution.Blocks, req.Region
	if w.program != nil {
		p.Region = w.program.Config.Region // the start may have set a region
	}
	if p.Problem = w.facts.Resolution.Invalid(); p.Problem != nil {
		return p, nil
	}
	if err := w.previewStart(ctx, p, d, in); err != nil || p.Problem != nil {
		return p, err
	}
	search := &entitySearch{tenant: w.tenant, registry: w.ports.Registry, program: w.program, parameters: in.Parameters, maxEntities: e.MaxEntities, maxCost: e.MaxPlanCost, foresee: true}
	found, err := search.findAll(ctx, in.Selector, nil)
	if err != nil {
		return nil, err
	}
	for _, i := range search.uncalled {
		a := &w.program.Acquisitions[i]
		p.UncalledBlocks = append(p.UncalledBlocks, UncalledBlock{w.program.LabelOf(a.Origin, a.StepIndex), a.Block})
	}
	if p.Problem = found.problem; p.Problem != nil {
		return p, nil
	}
	for _, entity := range found.entities {
		p.Counts[entity.Key.Type]++
	}
	if err := w.previewEntities(ctx, p, found.entities); err != nil {
		return nil, err
	}
	return p, w.previewSteps(ctx, p, in)
}

// previewStart evaluates notBefore and startWhen once.
func (w *workspace) previewStart(ctx context.Context, p *Preview, d *definitions.Definition, in workflow.Input) error {
	at, err := d.NotBefore(in.Parameters)
	if err != nil {
		p.Problem = &workflow.Failure{Code: workflow.CodeInvalid.OfFailure(), Message: err.Error()}
		return nil //nolint:nilerr // the mistake is the definition's: it fails the execution
	}
	if p.Start.NotBefore = w.execution.NotBefore; at.After(p.Start.NotBefore) {
		p.Start.NotBefore = at
	}
	p.Start.Condition, p.Start.Ready = d.Config.StartWhen, true
	if d.Config.StartWhen == "" {
		return nil
	}
	var lookupErr error
	p.Start.Ready, err = d.StartWhen(in.Parameters, w.now, lookupEntities(ctx, w.ports.Registry, w.tenant, &lookupErr))
	if lookupErr != nil {
		return lookupErr
	}
	if err != nil {
		p.Start.Ready, p.Start.Reason = false, err.Error()
	}
	return nil
}

// lookupEntities returns a lookup for the entities that a condition asks for. It stores a read
// error in failed.
func lookupEntities(ctx context.Context, registry port.Registry, tenant string, failed *error) entityLookup {
	return func(entityType, id string) (json.RawMessage, bool) {
		key := workflow.EntityKey{Type: entityType, ID: id}
		entities, err := registry.Entities(ctx, tenant, []workflow.EntityKey{key}, true)
		if err != nil {
			*failed = err
		}
		e, ok := entities[key]
		return e.Attributes, ok
	}
}

// previewEntities reads the first entities, and who has locked them.
func (w *workspace) previewEntities(ctx context.Context, p *Preview, entities []workflow.ScopeEntity) error {
	p.First = entities[:min(len(entities), maxPreviewed)]
	if len(p.First) == 0 {
		return nil
	}
	keys := make([]workflow.EntityKey, len(p.First))
	for i := range p.First {
		keys[i] = p.First[i].Key
	}
	known, err := w.ports.Registry.Entities(ctx, w.tenant, keys, true)
	if err != nil {
		return err
	}
	for i := range p.First {
		p.First[i].Attributes, p.First[i].Place = known[p.First[i].Key].Attributes, i+1
	}
	locks, err := w.ports.Locks.Read(ctx, w.tenant, keys, true)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, l := range locks {
		named[l.Owner], named[l.Reserver] = true, true
		for id := range l.Holders {
			named[id] = true
		}
	}
	delete(named, "")
	if len(named) == 0 {
		return nil
	}
	ids := make([]string, 0, len(named))
	for id := range named {
		ids = append(ids, id)
	}
	if p.Owners, err = w.ports.Store.Heads(ctx, w.tenant, ids); err != nil {
		return err
	}
	request := locking.Request{Tenant: w.tenant, Execution: w.id, Age: w.id, Mode: w.program.Config.LockMode}
	if p.Probe {
		request.Mode = workflow.LockShared
	}
	for _, key := range keys {
		l := locks[key]
		by, blocked := request.Blocker(l, p.Owners)
		if !blocked {
			continue
		}
		by.NeedsPerson = !by.Reservation && p.Owners[by.Execution].NeedsPerson()
		by.Since = l.HeldSince(by.Execution)
		p.Locked = append(p.Locked, by)
	}
	return nil
}

// previewSteps plans every step as the execution would, with the entities as they are now. Steps
// that contain others come first, because they decide which of those are reached.
func (w *workspace) previewSteps(ctx context.Context, p *Preview, in workflow.Input) error {
	nodes := w.program.Nodes
	p.Steps = make([]PreviewedStep, len(nodes))
	pass := &previewPass{workspace: w, Preview: p, parameters: in.Parameters, left: w.e.MaxPlanCost, failed: map[workflow.EntityKey]bool{}}
	routes, skipped := map[int]int{}, map[int]bool{}
	for i := range nodes {
		if !nodes[i].IsContainer() {
			continue
		}
		known, err := pass.step(ctx, i)
		if err != nil {
			return err
		}
		s := &p.Steps[i]
		if skipped[i] = s.SkippedBy != "" || s.ConditionKnown && s.Plan.Skipped > 0; known && len(nodes[i].Cases) > 0 {
			routes[i] = s.Plan.Route
		}
	}
	p.Ways = w.program.Ways(routes, skipped)
	for i := range nodes {
		if nodes[i].IsContainer() {
			continue
		}
		if _, err := pass.step(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// previewPass plans the steps of a preview one after the other.
type previewPass struct {
	*workspace
	*Preview
	parameters json.RawMessage
	left       uint64                      // what is left of the cost that expressions may have
	failed     map[workflow.EntityKey]bool // failed an assertion: they take no part in later steps
}

// step plans one step. routeKnown reports whether the case of a switch is known.
func (w *previewPass) step(ctx context.Context, i int) (routeKnown bool, err error) {
	nodes := w.program.Nodes
	n, s := &nodes[i], &w.Steps[i]
	if n.Parent >= 0 {
		outer := &w.Steps[n.Parent]
		if s.SkippedBy = outer.SkippedBy; s.SkippedBy == "" && outer.ConditionKnown && outer.Plan.Skipped > 0 {
			s.SkippedBy = nodes[n.Parent].Label
		}
		if s.SkippedBy != "" {
			s.ConditionKnown = true
			return false, nil
		}
	}
	if s.NotEvaluated = w.e.MaxPlanCost > 0 && w.left == 0; s.NotEvaluated {
		s.Unknown = []string{"condition", "assert", "parameters"}
		s.Plan.Jobs = w.jobsOf(w.Preview, n)
		return false, nil
	}
	f := w.program.Foresee(ctx, i, w.Blocks, w.parameters, w.workspace.execution, w.e.MaxPlanCost)
	s.ConditionKnown, s.Unknown = f.ConditionKnown(), f.Unknown
	var planned plan.JobPlan
	if request := (plan.Request{NodeIndex: i, Node: n, Excluded: w.failed}); n.Foreach != nil {
		planned = planner.PreviewItems(request, f)
	} else {
		planned = plan.ForStep(request, f, w.First)
	}
	s.Plan = planned.Plan
	if s.ConditionKnown && n.OnEntities() && w.program.FailureHandler(i) < 0 && w.Ways != nil && w.Ways.Reach[i] == spec.ReachAlways {
		for _, u := range planned.Unmet {
			w.failed[u.Entity] = true
		}
	}
	if s.Plan.Jobs > 0 && s.Plan.Problem == nil {
		routeKnown = f.RouteKnown()
		planner.PlanFlow(&s.Plan, n, i, f.Expressions, planner.FlowParts{Set: f.SetKnown(), Switch: routeKnown, Wait: f.WaitKnown()})
		if n.Rollout != nil && f.WavesKnown() {
			s.Waves = planner.PlanWaves(&s.Plan, n, i, w.program.WaveTypes(i), f.Expressions, w.First, w.failed)
		}
	}
	w.left -= min(w.left, f.Cost())
	return routeKnown, ctx.Err()
}

// jobsOf returns the number of jobs of a step without a condition.
func (w *workspace) jobsOf(p *Preview, n *spec.Node) int {
	if !n.OnEntities() {
		return 1
	}
	jobs := 0
	for i := range p.First {
		if p.First[i].Key.Type == n.RunOn {
			jobs++
		}
	}
	return jobs
}
