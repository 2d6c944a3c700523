package planner

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// standing is what came of a visit and stands in a later try: without the
// entities with which it has been undone, or which an attempt to do so has touched.
func (p *Planner) standing(ctx context.Context, x *workflow.Execution, try int, o *workflow.StepRun, lane int) (*outcome, error) {
	got, err := p.outcome(ctx, x, o, lane)
	if err != nil || o.Try >= try {
		return got, err
	}
	undone := map[workflow.EntityKey]bool{}
	for i := range x.Runs {
		u := &x.Runs[i]
		if u.Kind != workflow.JobRollback || u.Undoes != o.RunSeq || u.Try >= try {
			continue
		}
		touched, err := p.outcome(ctx, x, u, -1)
		if err != nil {
			return nil, err
		}
		for key := range touched.took() {
			if !touched.idle[key] {
				undone[key] = true
			}
		}
	}
	if len(undone) == 0 {
		return got, nil
	}
	left := &outcome{
		results: maps.Clone(got.results), ok: maps.Clone(got.ok), failed: got.failed, idle: got.idle, pending: got.pending, stored: maps.Clone(got.stored),
		updates: slices.DeleteFunc(slices.Clone(got.updates), func(u lanedUpdate) bool { return undone[u.of] }),
	}
	for key := range undone {
		delete(left.results, key)
		delete(left.ok, key)
		delete(left.stored, key)
	}
	return left, nil
}
