package plan

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ForRollback says which jobs of an executed run a rollback wave has to undo, from
// the run's own plan and what its packs say: every job that was executed or may
// have been, with the result of its latest attempt that has one.
//
// held has the lock tokens of today, which may be newer than those under which
// the run was executed. An entity that is not held any more cannot be undone.
func ForRollback(executed JobPlan, packs []*workflow.Pack, held map[workflow.EntityKey]int64) JobPlan {
	final := LatestRecords(packs)
	var p JobPlan
	for _, j := range executed.Jobs {
		rec, ok := final[j.Index]
		if !ok || !rec.Executed() {
			continue
		}
		undo := j
		if j.Entity != nil {
			if undo.Token, ok = held[*j.Entity]; !ok {
				return JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseStepFailed, Problem: &workflow.Failure{
					Code: "ENTITY_NOT_HELD", Entity: j.Entity.String(),
					Message: fmt.Sprintf("%s is not part of the run any more, so what was done to it cannot be undone", j.Entity),
				}}}
			}
		}
		undo.Index, undo.Result, undo.ResultRef = len(p.Jobs), rec.Result, rec.ResultRef
		p.Jobs = append(p.Jobs, undo)
	}
	p.Plan.Jobs = len(p.Jobs)
	return p
}

// LatestRecords merges the packs of a step run into one record per job. A later attempt
// replaces an earlier one, unless it was not executed; a result stays until a
// later attempt has one, and one that is stored says beside which pack.
func LatestRecords(packs []*workflow.Pack) map[int]workflow.JobRecord {
	ordered := slices.Clone(packs)
	slices.SortFunc(ordered, func(a, b *workflow.Pack) int { return a.Key.Attempt - b.Key.Attempt })
	latest := make(map[int]workflow.JobRecord)
	for _, p := range ordered {
		for _, rec := range p.Jobs {
			old, seen := latest[rec.Index]
			if seen && old.Code.Executed() && !rec.Executed() {
				continue
			}
			if rec.ResultRef != nil {
				rec.ResultRef = rec.ResultRef.InPack(p.Key)
			}
			if rec.Result == nil && rec.ResultRef == nil {
				rec.Result, rec.ResultRef = old.Result, old.ResultRef
			}
			latest[rec.Index] = rec
		}
	}
	return latest
}

// CountResults tallies a run's jobs. Jobs without a record have not been executed, or, in
// a run of a stretch whose every lane is over, were skipped. name gives a job's
// "type/id", or "" for a global call.
func CountResults(jobs int, latest map[int]workflow.JobRecord, entityName func(index int) string) workflow.Counts {
	var t workflow.Counts
	for i := range jobs {
		rec := latest[i]
		switch rec.Code {
		case workflow.JobCodeOK:
			t.OK++
		case workflow.JobCodeFail:
			t.Failed++
			if !rec.Executed() {
				t.Unsent++
			}
			if t.Failure == nil && rec.Failure != nil {
				why := *rec.Failure
				why.Entity = entityName(i)
				t.Failure = &why
			}
		case workflow.JobCodeUnknown:
			t.Unknown++
			if t.UnknownEntity == "" {
				t.UnknownEntity = entityName(i)
			}
		default:
			t.NotExecuted++
		}
	}
	return t
}
