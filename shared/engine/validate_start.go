package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// validateStart checks a start request against the definition and returns the execution's input:
// its parameters, and its selector with the type filled in. If something is wrong it returns
// CodeInvalid, with one issue for each mistake.
func validateStart(d *spec.Definition, req views.StartRequest) (workflow.Input, error) {
	in := workflow.Input{Parameters: req.Parameters, Metadata: req.Metadata}
	if len(in.Parameters) == 0 {
		in.Parameters = json.RawMessage("{}")
	}
	if err := definition.ValidateParameters(d, in.Parameters); err != nil {
		return in, err
	}
	if req.Mode != "" && req.Mode != views.ModeProbe && req.Mode != views.ModeStep {
		return in, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "mode", Code: "enum", Message: "want probe or step, or leave it out"}})
	}
	if err := takeSealed(d, &in); err != nil {
		return in, err
	}
	if string(in.Metadata) == "null" {
		in.Metadata = nil
	}
	if issues := startOptionIssues(d, req); len(issues) > 0 {
		return in, workflow.Invalid("the request is not valid", issues)
	}
	if req.Key != "" && !workflow.ValidBusinessKey(req.Key) {
		return in, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "key", Code: "pattern", Message: "want 1 to 128 letters, digits, . _ : @ + or -, beginning with a letter or a digit"}})
	}
	if issue := onKeyIssue(req); issue != nil {
		return in, workflow.Invalid("the request is not valid", []workflow.Issue{*issue})
	}
	selector, issues := validateSelector(d, req.ExecuteOnParameters)
	in.Selector = selector
	return in, workflow.Invalid("the request is not valid", issues)
}

// validateSelector checks a selection of a start, or of the child of a step, and fills in its type.
// It returns nil for a selection of nothing that does not say so by an empty list.
func validateSelector(d *spec.Definition, given *workflow.Selector) (*workflow.Selector, []workflow.Issue) {
	if given.Unspecified() {
		return nil, []workflow.Issue{{Path: "executeOnParameters", Code: "required", Message: workflow.UnspecifiedSelectorHint}}
	}
	if given.Empty() && !given.HasEmptyList() {
		return nil, nil
	}
	s := *given
	if s.Type == "" {
		s.Type = d.SeedEntity
	}
	var issues []workflow.Issue
	if !workflow.ValidID(s.Type) {
		issues = append(issues, workflow.Issue{Path: "executeOnParameters.type", Code: "required",
			Message: "name the entity type: the definition has no seedEntity"})
	}
	if s.Query != "" {
		if _, err := expr.CompileQuery(s.Query); err != nil {
			issues = append(issues, workflow.Issue{Path: "executeOnParameters.query", Code: "expression", Message: err.Error()})
		}
	}
	return &s, issues
}

// onKeyIssue says what is wrong with what a starter wants while its business key is held.
func onKeyIssue(req views.StartRequest) *workflow.Issue {
	switch {
	case req.OnKey == "":
		return nil
	case req.OnKey != views.OnKeyUse && req.OnKey != views.OnKeySignal:
		return &workflow.Issue{Path: "onKey", Code: "enum", Message: "want signal or use, or leave it out"}
	case req.Key == "":
		return &workflow.Issue{Path: "key", Code: "required", Message: "onKey says what is done while the key is held"}
	case req.OnKey == views.OnKeySignal && req.Signal == nil:
		return &workflow.Issue{Path: "signal", Code: "required", Message: "say which signal the execution gets that has the key"}
	case req.OnKey == views.OnKeyUse && req.Signal != nil:
		return &workflow.Issue{Path: "onKey", Code: "conflict", Message: "a start with a signal sends that to the execution that has the key"}
	}
	return nil
}

// startOptionIssues returns what is wrong with the options that a start sets in place of the
// definition's config.
func startOptionIssues(d *spec.Definition, req views.StartRequest) (issues []workflow.Issue) {
	switch req.Rollback {
	case "", workflow.RollbackAuto, workflow.RollbackNever:
	default:
		issues = append(issues, workflow.Issue{Path: "rollback", Code: "enum", Message: "want auto or never, or leave it out"})
	}
	if most := cmp.Or(d.Config.Timeout.Std(), definition.MaxTimeout); req.Timeout != 0 && (req.Timeout.Std() < time.Millisecond || req.Timeout.Std() > most) {
		issues = append(issues, workflow.Issue{Path: "timeout", Code: "range", Message: "want up to " + most.String() + ": a start can only shorten the timeout of the definition"})
	}
	if most := cmp.Or(d.Config.Limits.Steps, definition.MaxRunSteps); req.Limits.Steps < 0 || req.Limits.Steps > most {
		issues = append(issues, workflow.Issue{Path: "limits.steps", Code: "range", Message: fmt.Sprintf("want 1 to %d: a start can only lower the limits of the definition", most)})
	}
	if most := cmp.Or(d.Config.Limits.Wall.Std(), definition.MaxTimeout); req.Limits.Wall != 0 && (req.Limits.Wall.Std() < time.Second || req.Limits.Wall.Std() > most) {
		issues = append(issues, workflow.Issue{Path: "limits.wall", Code: "range", Message: "want 1s to " + most.String() + ": a start can only lower the limits of the definition"})
	}
	if req.Region != "" && !topology.ValidRegion(req.Region) {
		issues = append(issues, workflow.Issue{Path: "region", Code: "pattern", Message: "want " + topology.RegionNames})
	}
	if issue := metadataIssue(req.Metadata); issue != nil {
		issues = append(issues, *issue)
	}
	return issues
}

// metadataIssue returns what is wrong with metadata, if anything is.
func metadataIssue(metadata json.RawMessage) *workflow.Issue {
	var object map[string]json.RawMessage
	switch {
	case len(metadata) == 0:
		return nil
	case len(metadata) > workflow.MaxMetadataBytes:
		return &workflow.Issue{Path: "metadata", Code: "limit", Message: fmt.Sprintf("at most %d bytes as JSON, not %d", workflow.MaxMetadataBytes, len(metadata))}
	case json.Unmarshal(metadata, &object) != nil:
		return &workflow.Issue{Path: "metadata", Code: "type", Message: "want an object"}
	}
	return nil
}

// startDigest identifies the content of a start request, unless the request brings its own digest.
func startDigest(req views.StartRequest) (string, error) {
	if req.IdempotencyDigest != "" {
		return req.IdempotencyDigest, nil
	}
	return requestDigest(req)
}

// requestDigest identifies the content of a request: SHA-256 of its JSON, in hex.
func requestDigest(req any) (string, error) {
	raw, err := workflow.EncodeJSON(req)
	if err != nil {
		return "", workflow.Errorf(workflow.CodeInvalid, "the request cannot be encoded: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// idempotencyMismatch returns the error for a key that another request, for this execution, has
// used.
func idempotencyMismatch(execution string) error {
	return workflow.Errorf(workflow.CodeIdempotencyMismatch, "this Idempotency-Key belongs to another request, that of execution %s: use another key, or repeat that request as it was", execution)
}
