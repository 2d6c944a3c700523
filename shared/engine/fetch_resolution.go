package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// definition returns the compiled definition with an exact reference.
func (w *workspace) definition(ctx context.Context, ref workflow.Ref) (*definitions.Definition, error) {
	return w.e.definitions.Definition(ctx, w.ports.Registry, w.tenant, ref)
}

// fetchResolution answers NeedResolution: the execution's program, and each block that it names at
// the pinned version. If nothing is pinned yet, that is the newest version that matches.
func (w *workspace) fetchResolution(ctx context.Context) error {
	r, program, err := w.resolveProgram(ctx)
	if err == nil && r.Problem == nil {
		err = w.resolveBlocks(ctx, r, program)
	}
	if err != nil {
		return err
	}
	w.facts.Resolution, w.program, w.planner = r, program, nil
	return nil
}

// resolveProgram resolves the program, without its blocks.
func (w *workspace) resolveProgram(ctx context.Context) (*lifecycle.Resolution, *definitions.Program, error) {
	r := &lifecycle.Resolution{Blocks: map[string]workflow.Block{}}
	program, problem, err := w.e.definitions.Program(ctx, w.ports.Registry, w.tenant, w.execution.Workflow, w.execution.Workflows)
	if r.Problem = problem; err != nil || problem != nil {
		return r, nil, err
	}
	program.Config.Rollback = cmp.Or(w.execution.Rollback, program.Config.Rollback)
	program.Config.Timeout = cmp.Or(w.execution.Timeout, program.Config.Timeout)
	program.Config.Limits = w.execution.Limits.Lower(program.Config.Limits)
	program.Config.Region = cmp.Or(w.execution.Region, program.Config.Region)
	r.Program, r.Workflows = &program.Program, program.Workflows
	return r, program, nil
}

// resolveBlocks adds the blocks of a program to its resolution.
func (w *workspace) resolveBlocks(ctx context.Context, r *lifecycle.Resolution, program *definitions.Program) (err error) {
	for i := range program.Nodes {
		n := &program.Nodes[i]
		if r.Problem == nil {
			r.Problem = w.unknownEndpoint(n.Endpoint(), n.Label)
		}
		if r.Problem == nil && n.FunctionBlock != "" {
			err = w.resolveBlock(ctx, r, n.FunctionBlock, n.Label, n.BlockRunsOn())
		}
		if r.Problem == nil && err == nil {
			r.Problem = sealedProblem(program, n, r.Blocks[n.FunctionBlock], program.Secrets(i))
		}
		if r.Problem == nil && err == nil && n.Compensate != nil && n.Compensate.FunctionBlock != "" {
			err = w.resolveBlock(ctx, r, n.Compensate.FunctionBlock, n.Label, n.BlockRunsOn())
			if r.Problem == nil && err == nil {
				r.Problem = sealedProblem(program, n, r.Blocks[n.Compensate.FunctionBlock], program.CompensationSecrets(i))
			}
		}
		if err != nil {
			return err
		}
	}
	for i := range program.Acquisitions {
		a := &program.Acquisitions[i]
		if r.Problem == nil && a.Block != "" {
			err = w.resolveBlock(ctx, r, a.Block, program.LabelOf(a.Origin, a.StepIndex), "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unknownEndpoint returns the failure of an execution that has not begun and calls an endpoint that
// this stage does not have; nil otherwise. Once the execution has begun, the jobs that call the
// endpoint fail instead.
func (w *workspace) unknownEndpoint(name, label string) *workflow.Failure {
	issue := w.e.Endpoints.Check(name, "")
	if issue == nil || w.execution.State != sm.ExecutionNew {
		return nil
	}
	return &workflow.Failure{Code: workflow.FailureEndpoint, Step: label, Message: fmt.Sprintf("step %q: %s", label, issue.Message)}
}

// resolveBlock adds the block of a step or of an acquisition. For an acquisition runOn is empty.
func (w *workspace) resolveBlock(ctx context.Context, r *lifecycle.Resolution, blockRef, label, runOn string) error {
	b, known := r.Blocks[blockRef]
	if !known {
		resolved, problem, err := w.e.definitions.Block(ctx, w.ports.Registry, w.tenant, blockRef, label, w.execution.Blocks[blockRef])
		if err != nil {
			return err
		}
		if r.Problem = problem; problem != nil {
			return nil
		}
		b = resolved
		r.Blocks[blockRef] = b
	}
	if b.HTTP != nil {
		if r.Problem = w.unknownEndpoint(b.HTTP.Endpoint, label); r.Problem != nil {
			return nil
		}
	}
	if runOn != "" && b.RunOn != "" && b.RunOn != runOn {
		r.Problem = &workflow.Failure{Code: "BLOCK_MISMATCH", Step: label,
			Message: fmt.Sprintf("step %q runs on %s, but block %s runs on %s", label, runOn, b.Ref(), b.RunOn)}
	}
	return nil
}

// sealedProblem is the failure of an execution whose step passes a sealed parameter on to a block that
// does not say that it takes one, or that has it from a definition that is embedded; nil for any other.
func sealedProblem(program *definitions.Program, n *spec.Node, b workflow.Block, places []workflow.SecretPlace) *workflow.Failure {
	for _, p := range workflow.SealedPlaces(places) {
		if program.Origins[n.Origin].NodeIndex >= 0 {
			return &workflow.Failure{Code: workflow.FailureSealed, Step: n.Label, Message: fmt.Sprintf("step %q passes on a sealed parameter of a definition that is embedded: only a request can give it", n.Label)}
		}
		if len(p.Path) != 1 || !slices.Contains(workflow.SealedProperties(b.ParameterSchema), p.Path[0]) {
			return &workflow.Failure{Code: workflow.FailureSealed, Step: n.Label, Message: fmt.Sprintf("step %q passes a sealed parameter on to parameters.%s of block %s, which is not a property with x-sealed there", n.Label, strings.Join(p.Path, "."), b.Ref())}
		}
	}
	return nil
}
