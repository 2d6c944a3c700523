package query

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Result returns the results of the steps of an execution: the last result for each step and
// entity. Results beyond maxPageBytes are left out and Truncated is set; the list of jobs has all
// of them.
func (v *Service) Result(ctx context.Context, c workflow.Caller, id string) (views.ResultView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.ResultView{}, err
	}
	x := i.Execution()
	answer := views.ResultView{ExecutionID: x.ID, State: x.State, Status: x.Status(), Steps: map[string]views.StepResult{}}
	if output := x.GivenOutput(); output != nil {
		if answer.Output, err = loadValue(ctx, i, 0, output); err != nil {
			return answer, err
		}
	}
	program, err := i.Program(ctx)
	if err != nil || program == nil {
		return answer, err
	}
	bytes, lists := len(answer.Output), map[string]*workflow.Value{}
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if r.IsSet() && r.SupersededBy == 0 {
			s := views.StepResult{Status: r.Status, Ordinal: r.Ordinal, RunOn: workflow.RunOnItem, Results: map[string]json.RawMessage{}}
			if r.OnlyFailed && r.List.Same(lists[r.Label]) && answer.Steps[r.Label].Results != nil {
				s.Results = answer.Steps[r.Label].Results
			}
			lists[r.Label] = r.List
			results, err := childResults(ctx, i, r)
			if err != nil {
				return answer, err
			}
			for number, result := range results {
				if string(result) == "null" {
					continue
				}
				if bytes += len(result); bytes > maxPageBytes {
					answer.Truncated = true
					break
				}
				s.Results[strconv.Itoa(number)] = result
			}
			answer.Steps[r.Label] = s
			continue
		}
		if r.Child != nil && r.SupersededBy == 0 && r.Forward() {
			s, err := childResult(ctx, i, r)
			if err != nil {
				return answer, err
			}
			if bytes += len(s.Result); bytes > maxPageBytes {
				answer.Truncated, s.Result = true, nil
			}
			answer.Steps[r.Label] = s
			continue
		}
		if r.Kind != workflow.JobExecute || r.SupersededBy > 0 || r.StepIndex >= len(program.Nodes) {
			continue
		}
		s := views.StepResult{Status: r.Status, Ordinal: r.Ordinal, RunOn: program.Nodes[r.StepIndex].RunOn}
		var jobs []workflow.JobInput
		var packs []*workflow.Pack
		if r.Jobs > 0 && r.Wait == nil {
			if jobs, err = i.PlannedJobs(ctx, r); err == nil {
				packs, err = i.Packs(ctx, r)
			}
			if err != nil {
				return answer, err
			}
		}
		if r.Wait != nil && r.Status == sm.StepCompleted && r.Value != nil { // its result is the answer
			if bytes += valueBytes(r); bytes > maxPageBytes {
				answer.Truncated = true
			} else if s.Result, err = loadValue(ctx, i, r.Seq, r.Value); err != nil {
				return answer, err
			}
		}
		latest := plan.LatestRecords(packs)
		if s.RunOn != workflow.RunOnGlobal {
			// A step run may cover only some of the entities or items. Keep the results of the
			// others, unless its items come from another list.
			if s.Results = answer.Steps[r.Label].Results; s.Results == nil || r.List != nil && !(r.OnlyFailed && r.List.Same(lists[r.Label])) {
				s.Results = map[string]json.RawMessage{}
			}
			lists[r.Label] = r.List
		}
		for _, j := range jobs {
			rec := latest[j.Index]
			if rec.Result == nil && rec.ResultRef == nil {
				continue
			}
			if bytes += resultBytes(rec); bytes > maxPageBytes {
				answer.Truncated = true
				break
			}
			if rec.Result == nil {
				if rec.Result, err = loadStoredResult(ctx, i, rec.ResultRef); err != nil {
					return answer, err
				}
			}
			if key := j.Key(); key == (workflow.EntityKey{}) {
				s.Result = rec.Result
			} else {
				s.Results[key.ID] = rec.Result
			}
		}
		answer.Steps[r.Label] = s
	}
	return answer, nil
}

// childResult returns the result of a step that started another execution: its id, the state in
// which it was last seen, and its output.
func childResult(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) (s views.StepResult, err error) {
	s = views.StepResult{Status: r.Status, Ordinal: r.Ordinal, RunOn: workflow.RunOnGlobal}
	result := map[string]any{"id": r.Child.ID, "state": r.Child.State}
	if value := r.ChildOutput(); value != nil && r.Status == sm.StepCompleted {
		if result["output"], err = loadValue(ctx, i, r.Seq, value); err != nil {
			return s, err
		}
	}
	s.Result, err = workflow.EncodeJSON(result)
	return s, err
}

// loadValue loads a value of a step run, by its number; nil if the value has been deleted.
func loadValue(ctx context.Context, i *engine.Inspection, seq int, value *workflow.Value) (json.RawMessage, error) {
	if value.Stored == nil {
		return value.Inline, nil
	}
	x := i.Execution()
	raw, err := i.Ports().Packs.LoadPayload(ctx, workflow.ValueKey(x.Tenant, x.ID), *value.Stored)
	if workflow.Is(err, workflow.CodeNotFound) {
		return nil, nil
	}
	return raw, err
}

// resultBytes returns the size of a job's result, wherever it is stored.
func resultBytes(rec workflow.JobRecord) int {
	if rec.ResultRef != nil {
		return rec.ResultRef.Bytes
	}
	return len(rec.Result)
}

// loadStoredResult loads a result that is stored separately from its pack; nil if it has been
// deleted.
func loadStoredResult(ctx context.Context, i *engine.Inspection, s *workflow.PayloadRef) (json.RawMessage, error) {
	if s == nil || s.Pack == nil {
		return nil, nil
	}
	result, err := i.Ports().Packs.LoadPayload(ctx, *s.Pack, *s)
	if workflow.Is(err, workflow.CodeNotFound) {
		return nil, nil
	}
	return result, err
}
