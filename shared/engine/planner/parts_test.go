package planner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// keepingSender keeps the jobs of the packs that are sent, by step run.
type keepingSender struct {
	port.Sender
	jobs map[int][]workflow.JobInput
}

func (s *keepingSender) SendPacks(_ context.Context, _ time.Time, packs []*workflow.PackMessage) ([]workflow.PackKey, error) {
	for _, m := range packs {
		if s.jobs == nil {
			s.jobs = map[int][]workflow.JobInput{}
		}
		s.jobs[m.Key.StepRunSeq] = append(s.jobs[m.Key.StepRunSeq], m.Jobs...)
	}
	return nil, nil
}

// holdInChunks gives the execution a scope that can be read in parts: boxes and then devices, of which every
// seventh is not wanted. It returns how many entities have been read without the others.
func (f *fixture) holdInChunks(boxes, devices int, only *workflow.Places) (some *int) {
	var scope []workflow.ScopeEntity
	for i := range boxes + devices {
		key := workflow.EntityKey{Type: "box", ID: fmt.Sprintf("b%06d", i)}
		if i >= boxes {
			key = workflow.EntityKey{Type: "device", ID: fmt.Sprintf("d%06d", i)}
		}
		scope = append(scope, workflow.ScopeEntity{Key: key, Place: i + 1, Token: int64(i), Attributes: json.RawMessage(fmt.Sprintf(`{"name":"%d","wanted":%t}`, i, i%7 > 0))})
	}
	f.execution.Scope = workflow.Scope{Counts: map[string]int{}, Key: "k", PerChunk: 4, Only: only}
	for _, e := range scope {
		if f.execution.Scope.TakesIn(e.Place) {
			f.execution.Scope.Counts[e.Key.Type]++
		}
	}
	f.planner.Entities = func(_ context.Context, s workflow.Scope) (held []workflow.ScopeEntity, _ error) {
		f.reads++
		for _, e := range scope {
			if s.TakesIn(e.Place) {
				held = append(held, e)
			}
		}
		return held, nil
	}
	some = new(int)
	f.planner.SomeEntities = func(_ context.Context, s workflow.Scope, entityType string, from, to int) (found []workflow.ScopeEntity, _ error) {
		for _, place := range s.PlacesOf(entityType, from, to) {
			*some++
			found = append(found, scope[place-1])
		}
		return found, nil
	}
	return some
}

// A lane that is planned from its own entities has the jobs that it has in the plan of all,
// wherever its entities are in the scope, and no other entities are read. What was asked for
// before the pipeline may change any of them: then all are read.
func TestSendLane_PlansFromItsEntitiesWhatThePlanOfAllHas(t *testing.T) {
	const boxes, devices, packSize = 5, 40, 3
	var sparse []int
	for place := 2; place <= boxes+devices; place += 2 {
		sparse = append(sparse, place)
	}
	only := workflow.NewPlaces(sparse...)
	for name, c := range map[string]struct {
		only   *workflow.Places
		before *workflow.StepRun
		whole  bool
	}{
		"all":                  {},
		"some":                 {only: &only},
		"after a step":         {before: &workflow.StepRun{Status: "COMPLETED", Jobs: devices, Counts: workflow.Counts{OK: devices}}},
		"after a step's skips": {before: &workflow.StepRun{Status: "COMPLETED", Jobs: devices - 1, Counts: workflow.Counts{OK: devices - 1}, Skipped: 1}},
		"after asked updates":  {before: &workflow.StepRun{Status: "COMPLETED", Jobs: devices, Counts: workflow.Counts{OK: devices}, HasUpdates: true}, whole: true},
	} {
		source := parallelTwoSteps
		if c.before != nil {
			source = "config: {executionStrategy: {parallel: true}}\nsteps:\n  - {label: zero, functionBlock: p/once:1, runOn: device}\n" + twoSteps[len("steps:\n"):]
		}
		f := newFixture(t, source, devices, true)
		x := f.execution
		if c.before != nil {
			r := &x.StepRuns[0]
			r.Pipeline, r.PackSize, r.Status, r.Jobs, r.Counts, r.Skipped, r.HasUpdates = 0, 1, c.before.Status, c.before.Jobs, c.before.Counts, c.before.Skipped, c.before.HasUpdates
		}
		some := f.holdInChunks(boxes, devices, c.only)
		var lanes []*workflow.StepRun
		for i := range x.StepRuns {
			if r := &x.StepRuns[i]; r.Pipeline > 0 {
				r.Pipeline, r.Jobs, r.PackSize = x.StepRuns[len(x.StepRuns)-2].Seq, x.Scope.Counts["device"], packSize
				lanes = append(lanes, r)
			}
		}
		sent := &keepingSender{}
		f.planner.Dispatcher.Sender = sent
		for lane := range lanes[0].Lanes() {
			if _, err := f.planner.SendLane(f.Context(), x, lanes[0], lane, f.Now(), &workflow.Cost{}); err != nil {
				t.Fatal(name, err)
			}
		}
		if whole := f.reads > 0; whole != c.whole || whole == f.planner.LanesReadParts(x, lanes[0]) || !whole && *some > 2*lanes[0].Jobs {
			t.Errorf("%s: the scope was read %d times, and %d entities", name, f.reads, *some)
		}
		f.planner.ClearCache()
		planned, err := f.planner.Plan(f.Context(), x, lanes[0])
		if err != nil || !c.whole && (len(planned.Jobs) == 0 || len(planned.Jobs) == lanes[0].Jobs) {
			t.Fatal(name, err, len(planned.Jobs))
		}
		if diff := cmp.Diff(planned.Jobs, sent.jobs[lanes[0].Seq], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
