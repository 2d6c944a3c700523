package planner

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// effectiveOutcome is what came of a visit and stands in a later try: without the
// entities with which it has been undone, or which an attempt to do so has touched.
func (p *Planner) effectiveOutcome(ctx context.Context, x *workflow.Execution, try int, o *workflow.StepRun, lane int) (*outcome, error) {
	got, err := p.loadOutcome(ctx, x, o, lane)
	if err != nil || o.Try >= try {
		return got, err
	}
	undone := map[workflow.EntityKey]bool{}
	for i := range x.StepRuns {
		u := &x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Undoes != o.Seq || u.Try >= try {
			continue
		}
		touched, err := p.loadOutcome(ctx, x, u, -1)
		if err != nil {
			return nil, err
		}
		for key := range touched.participants() {
			if !touched.notExecuted[key] {
				undone[key] = true
			}
		}
	}
	if len(undone) == 0 {
		return got, nil
	}
	remaining := &outcome{
		results: maps.Clone(got.results), ok: maps.Clone(got.ok), failed: got.failed, notExecuted: got.notExecuted, pending: got.pending, payloadRefs: maps.Clone(got.payloadRefs),
		updates: slices.DeleteFunc(slices.Clone(got.updates), func(u laneUpdate) bool { return undone[u.jobEntity] }),
	}
	for key := range undone {
		delete(remaining.results, key)
		delete(remaining.ok, key)
		delete(remaining.payloadRefs, key)
	}
	return remaining, nil
}
