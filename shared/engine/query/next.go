package query

import (
	"context"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Next returns what a completed probe would do next: the jobs of the first step that is not pure,
// with the parameters that follow from the probe's results.
func (v *Service) Next(ctx context.Context, c workflow.Caller, id string, p workflow.Page) (views.NextView, error) {
	answer := views.NextView{Items: []views.NextJob{}}
	from, err := parseSequenceToken(p)
	if err != nil {
		return answer, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return answer, err
	}
	x := i.Execution()
	switch {
	case !x.Probe:
		return answer, workflow.Errorf(workflow.CodeConflict, "execution %s is not a probe, and only of a probe is it known what would be done next; one that goes step by step says in front of which step it waits", id)
	case x.State != sm.ExecutionCompleted && x.State != sm.ExecutionCompletedAck:
		return answer, workflow.Errorf(workflow.CodeConflict, "probe %s is in state %s: what would be done next is known once it has completed", id, x.State)
	}
	step, block, planned, err := i.NextStep(ctx)
	if err != nil || step == nil {
		return answer, err
	}
	answer.Step, answer.RunOn, answer.Skipped, answer.Problem = &step.Label, nonZeroPtr(step.RunOn), planned.Plan.Skipped, views.NewFailureView(planned.Plan.Problem)
	if answer.Unmet = planned.Plan.Unmet; answer.Problem == nil {
		answer.Problem = views.NewFailureView(planned.Plan.UnmetFailure)
	}
	if answer.Jobs = planned.Plan.Jobs; block != nil {
		answer.Block = ptr(block.Ref().String())
	}
	bytes := 0
	for at := int(min(from, int64(len(planned.Jobs)))); at < len(planned.Jobs); at++ {
		j := &planned.Jobs[at]
		if len(answer.Items) == pageLimit(p) || bytes > maxPageBytes {
			answer.NextPageToken = ptr(encodePageToken(strconv.Itoa(at)))
			break
		}
		job := views.NextJob{Parameters: j.Parameters}
		if j.Entity != nil {
			job.Entity = ptr(j.Entity.String())
		}
		if j.Item != nil {
			job.Item = &j.Item.Number
		}
		answer.Items = append(answer.Items, job)
		bytes += len(j.Parameters)
	}
	return answer, nil
}
