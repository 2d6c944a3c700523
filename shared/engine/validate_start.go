package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// validateStart checks what the starter gives against what the definition takes.
func validateStart(d *spec.Definition, req views.StartRequest) (workflow.Input, error) {
	in := workflow.Input{Parameters: req.Parameters}
	if len(in.Parameters) == 0 {
		in.Parameters = json.RawMessage("{}")
	}
	if err := definition.ValidateParameters(d, in.Parameters); err != nil {
		return in, err
	}
	if req.ExecuteOnParameters.Unspecified() {
		return in, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "executeOnParameters", Code: "required", Message: workflow.UnspecifiedSelectorHint}})
	}
	if sel := req.ExecuteOnParameters; !sel.Empty() {
		s := *sel
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
		if err := workflow.Invalid("the request is not valid", issues); err != nil {
			return in, err
		}
		in.Selector = &s
	}
	return in, nil
}

// selectorSize is about how many bytes a selector takes.
func selectorSize(s *workflow.Selector) int {
	if s == nil {
		return 0
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return workflow.MaxInlineInputBytes + 1
	}
	return len(raw)
}

// requestDigest identifies a request.
func requestDigest(req views.StartRequest) (string, error) {
	raw, err := json.Marshal(req)
	if err != nil {
		return "", workflow.Errorf(workflow.CodeInvalid, "the request cannot be encoded: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// idempotencyMismatch is the refusal of a key that belongs to another request.
func idempotencyMismatch() error {
	return workflow.Errorf(workflow.CodeIdempotencyMismatch, "this Idempotency-Key belongs to another request")
}
