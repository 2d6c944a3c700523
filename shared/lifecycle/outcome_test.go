package lifecycle_test

import (
	"strings"
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
		onlyLocked      bool
		handled         bool
		want            workflow.EntityOutcome
		undoable, retry bool
	}{
		"no job":                                {want: skipped},
		"only jobs that were never executed":    {jobs: []job{{run: fixed, code: none, unsent: true}, {run: pure, code: none, unsent: true}}, want: skipped},
		"no job, and no step for it":            {onlyLocked: true, want: succeeded},
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
			got := lifecycle.JudgeEntity(jobs, lifecycle.JudgeRules{ExecutionFails: c.fails, Leave: c.leave, OnlyLocked: c.onlyLocked, Handled: func(*workflow.StepRun) bool { return c.handled }})
			if got.Outcome != c.want || got.Undoable != c.undoable {
				t.Errorf("%s, undoable %v; want %s, %v", got.Outcome, got.Undoable, c.want, c.undoable)
			}
			if (got.Outcome == unsafe || got.Outcome == left) && got.Reason().Message == "" {
				t.Error("no reason is given")
			}
		})
	}
}

// TestJudgement_Reason covers why an entity is unsafe: where it failed last, why that cannot be
// undone, and every step whose changes remain.
func TestJudgement_Reason(t *testing.T) {
	install := workflow.StepRun{Label: "install", Reversible: true, StepIndex: 0, Try: 1}
	reboot := workflow.StepRun{Label: "reboot", StepIndex: 1, Try: 1}
	rebootAgain := workflow.StepRun{Label: "reboot", StepIndex: 1, Try: 2}
	verify := workflow.StepRun{Label: "verify", Pure: true, StepIndex: 2, Try: 1}
	verifyAgain := workflow.StepRun{Label: "verify", Pure: true, StepIndex: 2, Try: 2}
	superseded := reboot
	superseded.SupersededBy = 2
	unreachable := &workflow.Failure{Code: "HTTP_UNREACHABLE", Message: "no route"}
	wrong := &workflow.Failure{Code: "WRONG_OS", Message: "it runs 1"}
	refused := &workflow.Failure{Code: "REFUSED", Message: "it is busy"}
	ran := func(r *workflow.StepRun, why *workflow.Failure) lifecycle.EntityJob {
		j := lifecycle.EntityJob{StepRun: r, Code: workflow.JobCodeOK, Executed: true, Failure: why}
		if why != nil {
			j.Code = workflow.JobCodeFail
		}
		return j
	}
	undoFailed := ran(&install, nil)
	undoFailed.Undo, undoFailed.UndoFailure, undoFailed.UndoTry = lifecycle.UndoFailed, refused, 1
	undoFailedAgain := undoFailed
	undoFailedAgain.UndoTry = 2
	lost := ran(&superseded, nil)
	lost.Code = workflow.JobCodeUnknown
	for name, c := range map[string]struct {
		jobs                []lifecycle.EntityJob
		step, code, message string
	}{
		"no failure of its own": {[]lifecycle.EntityJob{ran(&install, nil), ran(&reboot, nil)}, "reboot", "CHANGES_REMAIN",
			`step "reboot" was executed and has no rollback; changes of these steps remain, too: install`},
		"it failed where nothing can be undone": {[]lifecycle.EntityJob{ran(&install, nil), ran(&reboot, unreachable)}, "reboot", "HTTP_UNREACHABLE",
			"no route; changes of these steps remain, too: install"},
		"it failed after that": {[]lifecycle.EntityJob{ran(&install, nil), ran(&reboot, nil), ran(&verify, wrong)}, "verify", "WRONG_OS",
			`it runs 1; step "reboot" was executed and has no rollback; changes of these steps remain, too: install`},
		"the last try failed elsewhere": {[]lifecycle.EntityJob{ran(&install, nil), ran(&superseded, unreachable), ran(&rebootAgain, nil), ran(&verifyAgain, wrong)}, "verify", "WRONG_OS",
			`it runs 1; step "reboot" was executed and has no rollback; changes of these steps remain, too: install`},
		"the last try did not fail here": {[]lifecycle.EntityJob{ran(&superseded, unreachable), ran(&rebootAgain, nil)}, "reboot", "CHANGES_REMAIN",
			`step "reboot" was executed and has no rollback`},
		"the doubt of an earlier try that no later one settles": {[]lifecycle.EntityJob{ran(&install, nil), lost, ran(&verifyAgain, wrong)}, "verify", "WRONG_OS",
			`it runs 1; the worker stopped during step "reboot": whether the block wa…; changes of these steps remain, too: install`},
		"an undo that failed": {[]lifecycle.EntityJob{undoFailed, ran(&verify, wrong)}, "install", "REFUSED",
			`the rollback of step "install" has failed: it is busy`},
		"an undo that failed before the last try": {[]lifecycle.EntityJob{undoFailed, ran(&verifyAgain, wrong)}, "verify", "WRONG_OS",
			`it runs 1; the rollback of step "install" has failed: it is busy`},
		"an undo that failed in the last try": {[]lifecycle.EntityJob{undoFailedAgain, ran(&verifyAgain, wrong)}, "install", "REFUSED",
			`the rollback of step "install" has failed: it is busy`},
	} {
		t.Run(name, func(t *testing.T) {
			got := lifecycle.JudgeEntity(c.jobs, lifecycle.JudgeRules{ExecutionFails: true, Handled: func(*workflow.StepRun) bool { return false }}).Reason()
			if got.Step != c.step || got.Code != c.code || got.Message != c.message {
				t.Errorf("%s %s: %s", got.Step, got.Code, got.Message)
			}
		})
	}
	long := *wrong
	long.Message = strings.Repeat("x", 1000)
	got := lifecycle.JudgeEntity([]lifecycle.EntityJob{ran(&install, nil), ran(&reboot, &long)}, lifecycle.JudgeRules{ExecutionFails: true, Handled: func(*workflow.StepRun) bool { return false }}).Reason()
	if len(got.Message) > workflow.MaxShortMessage || !strings.HasSuffix(got.Message, "remain, too: install") {
		t.Errorf("a long message hides what remains: %s", got.Message)
	}
}
