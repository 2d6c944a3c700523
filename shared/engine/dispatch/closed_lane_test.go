package dispatch_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A lane that another handler closes goes on nowhere: what follows its jobs in a pipeline must not be executed if
// they were not. The handler that continues the lane knows an earlier version of the execution.
func TestAdvanceLane_LeavesClosedLanes(t *testing.T) {
	const lane = 1
	closeLane := func(f *fixture) {
		ok, err := f.ports.Packs.PutCancelled(f.Context(), &workflow.Pack{
			Key: f.key(lane, 1), State: workflow.PackCancelled, FinishedAt: f.Now(), Jobs: []workflow.JobRecord{{Index: lane, Code: workflow.JobCodeNotExecuted}},
		})
		if err != nil || !ok {
			f.Fatal(ok, err)
		}
	}
	for name, test := range map[string]struct {
		before func(f *fixture)
		goesOn bool
	}{
		"before anybody has claimed it": {before: closeLane},
		"between its read and the end of a lane without jobs": {before: func(f *fixture) {
			f.r.LaneJobs = func(context.Context, int) ([]workflow.JobInput, error) {
				closeLane(f)
				return nil, nil
			}
		}},
		"while a worker has it": {before: func(f *fixture) {
			p := f.writePack(lane, 1, workflow.PackClaimed, lane, workflow.JobCodeStarted)
			f.close()
			p.State, p.FinishedAt, p.Jobs[0].Code, p.CancelRequested = workflow.PackFinished, f.Now(), workflow.JobCodeNotExecuted, true
			if ok, _, err := f.ports.Packs.Finish(f.Context(), p); err != nil || !ok {
				f.Fatal(ok, err)
			}
		}},
		"never, and it has ended": {goesOn: true, before: func(f *fixture) {
			f.writePack(lane, 1, workflow.PackFinished, lane, workflow.JobCodeOK)
		}},
		"never, and another handler skips it": {goesOn: true, before: func(f *fixture) {
			f.r.LaneJobs = func(ctx context.Context, _ int) ([]workflow.JobInput, error) {
				_, err := f.ports.Packs.PutCancelled(ctx, &workflow.Pack{Key: f.key(lane, 1), State: workflow.PackFinished, FinishedAt: f.Now()})
				return nil, err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3, 1, nil)
			test.before(f)
			got, err := f.d.AdvanceLane(f.Context(), f.r, lane, f.Now(), &workflow.Cost{})
			if err != nil || got.Recorded != test.goesOn || got.Over != test.goesOn || !test.goesOn && !got.Decides {
				t.Errorf("got %+v, %v", got, err)
			}
			if sent := laneNumbers(f.drainQueue()); len(sent) > 0 {
				t.Errorf("sent packs of lanes %v", sent)
			}
		})
	}
}
