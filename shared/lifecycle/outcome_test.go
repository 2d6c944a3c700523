package lifecycle_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestJudgeEntity judges one entity by what is said of its jobs.
func TestJudgeEntity(t *testing.T) {
	const (
		ok, fail, unknown, none = workflow.JobCodeOK, workflow.JobCodeFail, workflow.JobCodeUnknown, workflow.JobCodeNotExecuted
		succeeded, skipped      = workflow.EntitySucceeded, workflow.EntitySkipped
		safe, left, unsafe      = workflow.EntityFailedSafe, workflow.EntityLeft, workflow.EntityFailedUnsafe
	)
	pure := workflow.StepRun{Pure: true}
	fixed := workflow.StepRun{}
	undoable := workflow.StepRun{Reversible: true}
	again := workflow.StepRun{Reversible: true, Idempotent: true}
	harmless := workflow.StepRun{Reversible: true, UndoHarmless: true}
	timeout := &workflow.Failure{Code: workflow.FailureTimeout, Message: "no answer"}

	type job struct {
		run     workflow.StepRun
		code    workflow.JobCode
		failure *workflow.Failure
		undo    lifecycle.UndoState
		unsent  bool
	}
	for name, c := range map[string]struct {
		jobs            []job
		leave, fails    bool
		handled         bool
		want            workflow.EntityOutcome
		undoable, retry bool
	}{
		"no job":                                {want: skipped},
		"no job in an execution that fails":     {fails: true, want: safe},
		"all OK":                                {jobs: []job{{run: pure, code: ok}, {run: fixed, code: ok}}, want: succeeded},
		"pure failure":                          {jobs: []job{{run: pure, code: fail}}, want: safe},
		"pure failure after an undoable change": {jobs: []job{{run: undoable, code: ok}, {run: pure, code: fail}}, want: unsafe, undoable: true},
		"the same, undone":                      {jobs: []job{{run: undoable, code: ok, undo: lifecycle.Undone}, {run: pure, code: fail}}, want: safe},
		"the same, undoing failed":              {jobs: []job{{run: undoable, code: ok, undo: lifecycle.UndoFailed}, {run: pure, code: fail}}, want: unsafe},
		"the same, left":                        {jobs: []job{{run: undoable, code: ok}, {run: pure, code: fail}}, leave: true, want: left},
		"a change that cannot be undone":        {jobs: []job{{run: fixed, code: ok}, {run: undoable, code: fail}}, want: unsafe},
		"the same, left as it is":               {jobs: []job{{run: fixed, code: ok}, {run: undoable, code: fail}}, leave: true, want: left},
		"a call that was never made":            {jobs: []job{{run: fixed, code: fail, unsent: true}}, want: safe},
		"a failure that cannot be undone":       {jobs: []job{{run: fixed, code: fail}}, want: unsafe},
		"a failure that can be undone":          {jobs: []job{{run: undoable, code: fail}}, want: unsafe, undoable: true},
		"an unknown end":                        {jobs: []job{{run: undoable, code: unknown}}, want: unsafe},
		"an unknown end, undoing is harmless":   {jobs: []job{{run: harmless, code: unknown}}, want: unsafe, undoable: true},
		"an unknown end is not left":            {jobs: []job{{run: harmless, code: unknown}}, leave: true, want: unsafe},
		"a time-out is not left":                {jobs: []job{{run: undoable, code: fail, failure: timeout}}, leave: true, want: unsafe},
		"a time-out without doubt is left":      {jobs: []job{{run: again, code: fail, failure: timeout}}, leave: true, want: left},
		"a handled failure":                     {jobs: []job{{run: undoable, code: fail}}, handled: true, want: succeeded},
		"a handled doubt":                       {jobs: []job{{run: undoable, code: unknown}}, handled: true, want: unsafe},
		"a handled doubt that is undone":        {jobs: []job{{run: undoable, code: ok, undo: lifecycle.UndoFailed}, {run: harmless, code: unknown, undo: lifecycle.Undone}}, handled: true, want: unsafe},
		"the execution fails, pure":             {jobs: []job{{run: pure, code: ok}}, fails: true, want: safe},
		"the execution fails, never executed":   {jobs: []job{{run: fixed, code: none, unsent: true}}, fails: true, want: safe},
		"the execution fails, undone":           {jobs: []job{{run: undoable, code: ok, undo: lifecycle.Undone}}, fails: true, want: safe},
		"the execution fails, changed":          {jobs: []job{{run: undoable, code: ok}}, fails: true, want: unsafe},
		"a later try succeeds":                  {jobs: []job{{run: undoable, code: fail}, {run: undoable, code: ok}}, retry: true, want: succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []lifecycle.EntityJob
			for i, j := range c.jobs {
				r := j.run
				r.Seq, r.StepIndex, r.Try = i+1, i, 1
				if c.retry {
					r.StepIndex, r.Try = 0, i+1
				}
				jobs = append(jobs, lifecycle.EntityJob{StepRun: &r, Code: j.code, Failure: j.failure, Executed: !j.unsent, Undo: j.undo})
			}
			got := lifecycle.JudgeEntity(jobs, lifecycle.JudgeRules{ExecutionFails: c.fails, Leave: c.leave, Handled: func(*workflow.StepRun) bool { return c.handled }})
			if got.Outcome != c.want || got.Undoable != c.undoable {
				t.Errorf("%s, undoable %v; want %s, %v", got.Outcome, got.Undoable, c.want, c.undoable)
			}
			if (got.Outcome == unsafe || got.Outcome == left) && got.Reason().Message == "" {
				t.Error("no reason is given")
			}
		})
	}
}
