package worker

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition/schema"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// JobResult is what came of a job.
type JobResult struct {
	Outcome  sm.Outcome
	Result   json.RawMessage
	Updates  json.RawMessage      // entity updates: a list of workflow.Update
	Entities []workflow.EntityKey // what an ACQUIRE has found
	Failure  *workflow.Failure
}

// MaxEntities is how many entities one ACQUIRE may find.
const MaxEntities = 10_000

// toRecord is the part of an answer that is written down.
func (a JobResult) toRecord() jobRecord {
	return jobRecord{Outcome: a.Outcome, Result: a.Result, Updates: a.Updates, Entities: a.Entities, Failure: a.Failure}
}

// validated is an answer as it may be written down. A success that leaves what it must
// not is a failure that trying again does not help: the block has done its work, so
// that a result which only does not fit its schema stays for whoever undoes it.
func validated(work *workflow.Work, a JobResult) JobResult {
	if a.Failure != nil {
		return a
	}
	if n := len(a.Result); n > workflow.MaxResultBytes {
		return failureResult(Terminal("LIMIT", fmt.Errorf("the result has %d bytes, the limit is %d", n, workflow.MaxResultBytes)))
	}
	if n := len(a.Updates); n > workflow.MaxResultBytes {
		return failureResult(Terminal("LIMIT", fmt.Errorf("the updates have %d bytes, the limit is %d", n, workflow.MaxResultBytes)))
	}
	if issues := validateUpdates(a.Updates); len(issues) > 0 {
		return invalidResult(a, "INVALID", "the updates that the block asks for are not valid", issues)
	}
	switch work.Kind {
	case workflow.JobAcquire:
		return validatedAcquire(a)
	case workflow.JobExecute:
		if schema.Absent(work.ResultSchema) {
			break
		}
		result := a.Result
		if len(result) == 0 {
			result = json.RawMessage("null")
		}
		if issues := schema.Validate(work.ResultSchema, result, "result"); len(issues) > 0 {
			return invalidResult(a, "RESULT_SCHEMA", "the result does not fit the block's schema", issues)
		}
	}
	a.Entities = nil
	return a
}

// validatedAcquire is the answer to an ACQUIRE, with each entity once.
func validatedAcquire(a JobResult) JobResult {
	if len(a.Entities) > MaxEntities {
		return failureResult(Terminal("LIMIT", fmt.Errorf("the block found %d entities, the limit is %d", len(a.Entities), MaxEntities)))
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
		return invalidResult(JobResult{}, "INVALID", "what the block found is not valid", issues)
	}
	a.Entities, a.Result, a.Updates = distinct, nil, nil
	return a
}

// validateUpdates lists what is wrong with updates.
func validateUpdates(raw json.RawMessage) (issues []workflow.Issue) {
	if len(raw) == 0 {
		return nil
	}
	addIssue := func(path, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: "format", Message: message})
	}
	var updates []workflow.Update
	if err := json.Unmarshal(raw, &updates); err != nil {
		addIssue("updates", "this is no list of updates: "+err.Error())
	}
	for i, u := range updates {
		at := fmt.Sprintf("updates[%d]", i)
		if !workflow.ValidID(u.Entity.Type) || !workflow.ValidID(u.Entity.ID) {
			addIssue(at+".entity", fmt.Sprintf("%q is not an entity", u.Entity))
		}
		for name := range u.Set {
			if name == "" {
				addIssue(at+".set", "an attribute has no name")
			}
		}
		for _, name := range u.Remove {
			if name == "" {
				addIssue(at+".remove", "an attribute has no name")
			}
		}
	}
	return issues
}

// maxIssues is how many issues a failure tells of.
const maxIssues = 20

// invalidResult is the failure of a job for what it has left.
func invalidResult(a JobResult, code, message string, issues []workflow.Issue) JobResult {
	f := failureResult(Terminal(code, fmt.Errorf("%s: %s", message, issues[0])))
	details, err := json.Marshal(map[string]any{"issues": issues[:min(len(issues), maxIssues)]})
	if err == nil {
		f.Failure.Details = details
	}
	f.Result = a.Result
	return f
}
