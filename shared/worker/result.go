package worker

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// JobResult is the result of one job. Blocks do not build it: their results and errors are
// converted to it, and an EndpointCaller or another program returns it.
type JobResult struct {
	Outcome  sm.Outcome
	Result   json.RawMessage
	Updates  json.RawMessage      // a list of workflow.Update
	Next     string               // label of the step with which the execution continues, or "end"; empty to follow the definition
	Wait     *workflow.AskedWait  // what the step waits for before the block is called again; nil for nothing
	Entities []workflow.EntityKey // what an ACQUIRE has found
	Failure  *workflow.Failure    // nil if the job succeeded

	// Checkpoints are what a failed block at an endpoint, or in another program, has saved with its
	// response.
	Checkpoints workflow.Checkpoints

	// Logs are what a block at an endpoint, or in another program, has logged; without At: now.
	Logs []workflow.LogLine
}

// MaxEntities is how many entities one ACQUIRE may find.
const MaxEntities = 10_000

// maxIssues is how many issues the details of a failure list.
const maxIssues = 20

// validated returns the result as it may be recorded. A success with invalid output becomes a
// failure that is not retried, because the block has done its work. A result that only does not
// match its schema is kept, so that a rollback can use it; an unreadable one is not. A failure
// stays the same, without unreadable details.
func validated(work *workflow.Work, onEntity bool, a JobResult) JobResult {
	if a.Failure != nil {
		return withReadableDetails(a)
	}
	if n := len(a.Result); n > workflow.MaxResultBytes {
		return failureResult(Terminal(workflow.FailureLimit, fmt.Errorf("the result has %d bytes, the limit is %d", n, workflow.MaxResultBytes)))
	}
	if n := len(a.Updates); n > workflow.MaxResultBytes {
		return failureResult(Terminal(workflow.FailureLimit, fmt.Errorf("the updates have %d bytes, the limit is %d", n, workflow.MaxResultBytes)))
	}
	if issue := checkJSON(a.Result, "result"); issue != nil {
		return invalidResult(JobResult{}, "INVALID", "the block's result cannot be stored", []workflow.Issue{*issue})
	}
	if issue := checkJSON(a.Updates, "updates"); issue != nil {
		return invalidResult(a, "INVALID", "the block's updates cannot be stored", []workflow.Issue{*issue})
	}
	if issues := validateUpdates(a.Updates); len(issues) > 0 {
		return invalidResult(a, "INVALID", "the block's updates are not valid", issues)
	}
	if work.Kind != workflow.JobExecute || work.Compensates {
		a.Next, a.Wait = "", nil // only an EXECUTE continues elsewhere, or waits
	}
	if a.Wait != nil && (work.CannotWait || onEntity) {
		return invalidResult(a, workflow.FailureWaitNotGlobal, "the step cannot wait for what the block asks", []workflow.Issue{{Path: "wait", Code: "invalid", Message: "want a step with runOn: global, without foreach, repeat and callback"}})
	}
	if issue := waitProblem(a); issue != nil {
		return invalidResult(a, "INVALID", "the step cannot wait for what the block asks", []workflow.Issue{*issue})
	}
	if a.Next != "" && (work.CannotGoTo || onEntity) {
		return invalidResult(a, "INVALID", "only the job of a global step names the next step", []workflow.Issue{{Path: "next", Code: "invalid", Message: "want a step with runOn: global, without foreach"}})
	}
	if len(a.Next) > workflow.MaxLabelBytes {
		return invalidResult(a, "INVALID", "the next step is no label", []workflow.Issue{{Path: "next", Code: "limit", Message: fmt.Sprintf("at most %d bytes", workflow.MaxLabelBytes)}})
	}
	switch work.Kind {
	case workflow.JobAcquire:
		return validatedAcquire(a)
	case workflow.JobExecute:
		if schema.Absent(work.ResultSchema) || a.Wait != nil { // the result of the step is that of a later call
			break
		}
		result := a.Result
		if len(result) == 0 {
			result = json.RawMessage("null")
		}
		if issues := schema.Validate(work.ResultSchema, result, "result"); len(issues) > 0 {
			return invalidResult(a, "RESULT_SCHEMA", "the result does not match the block's schema", issues)
		}
	}
	a.Entities = nil
	return a
}

// waitProblem returns what is wrong with the wait that a block asks for.
func waitProblem(a JobResult) *workflow.Issue {
	switch {
	case a.Wait == nil:
		return nil
	case a.Next != "" || a.Outcome == sm.OutcomeBreak:
		return &workflow.Issue{Path: "wait", Code: "conflict", Message: "a block asks to wait, or says where the execution goes on, not both"}
	}
	if issue := a.Wait.Problem(); issue != nil || a.Wait.Input == nil || schema.Absent(a.Wait.Input.Schema) {
		return issue
	}
	if issue := checkJSON(a.Wait.Input.Schema, "wait.input.schema"); issue != nil {
		return issue
	}
	if err := schema.Check(a.Wait.Input.Schema); err != nil {
		return &workflow.Issue{Path: "wait.input.schema", Code: "schema", Message: err.Error()}
	}
	return nil
}

// checkJSON finds out why a value from a block cannot be stored. The same check applies to values
// in API requests and imports. An absent value is valid.
func checkJSON(raw json.RawMessage, path string) *workflow.Issue {
	if len(raw) == 0 {
		return nil
	}
	return schema.CheckJSON(raw, path, yamldoc.JoinPath)
}

// withReadableDetails returns a failure whose details can be stored. Other details become
// {"omitted": "..."} with the reason.
func withReadableDetails(a JobResult) JobResult {
	issue := checkJSON(a.Failure.Details, "error.details")
	if issue == nil {
		return a
	}
	failure := *a.Failure
	failure.Details, _ = workflow.EncodeJSON(map[string]string{"omitted": issue.String()}) // a map of text can be encoded
	a.Failure = &failure
	return a
}

// validatedAcquire returns the result of an ACQUIRE as it may be recorded: each
// entity once, in the order found.
func validatedAcquire(a JobResult) JobResult {
	if len(a.Entities) > MaxEntities {
		return failureResult(Terminal(workflow.FailureLimit, fmt.Errorf("the block found %d entities, the limit is %d", len(a.Entities), MaxEntities)))
	}
	var issues []workflow.Issue
	var distinct []workflow.EntityKey
	seen := make(map[workflow.EntityKey]bool, len(a.Entities))
	for i, key := range a.Entities {
		if !workflow.ValidID(key.Type) || !workflow.ValidID(key.ID) {
			issues = append(issues, workflow.Issue{Path: fmt.Sprintf("entities[%d]", i), Code: "format", Message: fmt.Sprintf("%q is not an entity", key)})
		}
		if !seen[key] {
			seen[key] = true
			distinct = append(distinct, key)
		}
	}
	if len(issues) > 0 {
		return invalidResult(JobResult{}, "INVALID", "the block's entities are not valid", issues)
	}
	a.Entities, a.Result, a.Updates = distinct, nil, nil
	return a
}

// validateUpdates returns what is wrong with the entity updates of a job.
func validateUpdates(raw json.RawMessage) (issues []workflow.Issue) {
	if len(raw) == 0 {
		return nil
	}
	addIssue := func(path, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: "format", Message: message})
	}
	var updates []workflow.Update
	if err := json.Unmarshal(raw, &updates); err != nil {
		addIssue("updates", "want a list of updates: "+workflow.JSONError(err).Error())
	}
	for i, u := range updates {
		at := fmt.Sprintf("updates[%d]", i)
		if !workflow.ValidID(u.Entity.Type) || !workflow.ValidID(u.Entity.ID) {
			addIssue(at+".entity", fmt.Sprintf("%q is not an entity", u.Entity))
		}
		for name := range u.Set {
			if name == "" {
				addIssue(at+".set", "an attribute name is empty")
			}
		}
		for _, name := range u.Remove {
			if name == "" {
				addIssue(at+".remove", "an attribute name is empty")
			}
		}
	}
	return issues
}

// invalidResult returns the failure of a job whose output is not valid. Its details
// list the first issues.
func invalidResult(a JobResult, code, message string, issues []workflow.Issue) JobResult {
	failed := failureResult(Terminal(code, fmt.Errorf("%s: %s", message, issues[0])))
	details, err := workflow.EncodeJSON(map[string]any{"issues": issues[:min(len(issues), maxIssues)]})
	if err == nil {
		failed.Failure.Details = details
	}
	failed.Result = a.Result
	return failed
}
