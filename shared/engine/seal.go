package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Sealer seals parameters of executions. No error holds a value.
type Sealer interface {
	Seal(ctx context.Context, tenant, execution string, plain map[string]string) (*workflow.Sealed, error)
	Open(ctx context.Context, tenant, execution string, s *workflow.Sealed, parameter string) (string, error)
	// Digest is the digest of a request under a key of the tenant.
	Digest(ctx context.Context, tenant, digest string) (string, error)
}

// takeSealed moves the parameters that are to be sealed out of those that are stored and that
// expressions read.
func takeSealed(d *spec.Definition, in *workflow.Input) error {
	names := workflow.SealedProperties(d.Parameters)
	if len(names) == 0 {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(in.Parameters, &all); err != nil {
		return workflow.Errorf(workflow.CodeInternal, "the parameters were not validated: %w", err)
	}
	var issues []workflow.Issue
	plain, total := map[string]string{}, 0
	for _, name := range names {
		raw, given := all[name]
		if !given {
			continue
		}
		var value string
		if json.Unmarshal(raw, &value) != nil || len(value) < workflow.MinSecretBytes || len(value) > workflow.MaxSealedBytes || !utf8.ValidString(value) {
			issues = append(issues, workflow.Issue{Path: "parameters." + name, Code: "limit", Message: fmt.Sprintf("want a text of %d to %d bytes, because it is sealed", workflow.MinSecretBytes, workflow.MaxSealedBytes)})
		}
		plain[name] = value
		total += len(value)
		delete(all, name)
	}
	if total > workflow.MaxSealedBytes && len(issues) == 0 {
		issues = append(issues, workflow.Issue{Path: "parameters", Code: "limit", Message: fmt.Sprintf("want at most %d bytes of sealed parameters together", workflow.MaxSealedBytes)})
	}
	if err := workflow.Invalid("the parameters are not valid", issues); err != nil || len(plain) == 0 {
		return err
	}
	rest, err := workflow.EncodeJSON(all)
	if err != nil {
		return workflow.Errorf(workflow.CodeInternal, "the parameters cannot be encoded: %w", err)
	}
	in.Parameters, in.Plain = rest, plain
	return nil
}

// sealInput seals what is still to be sealed of an input, before anything of it is stored.
func (w *workspace) sealInput(ctx context.Context, in *workflow.Input) error {
	if len(in.Plain) == 0 {
		return nil
	}
	if err := w.refuseUnsealed(in); err != nil {
		return err
	}
	sealed, err := w.e.Sealer.Seal(ctx, w.tenant, w.id, in.Plain)
	if err != nil {
		return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the parameters cannot be sealed: their key does not answer", Cause: err}
	}
	in.Sealed, in.Plain = sealed, nil
	return nil
}

// refuseUnsealed refuses sealed parameters where nothing can seal them.
func (w *workspace) refuseUnsealed(in *workflow.Input) error {
	if w.e.Sealer != nil {
		return nil
	}
	var issues []workflow.Issue
	for name := range in.Plain {
		issues = append(issues, workflow.Issue{Path: "parameters." + name, Code: "sealed", Message: "it is sealed: only a request can give it, and only where sealed.key is set"})
	}
	slices.SortFunc(issues, func(a, b workflow.Issue) int { return strings.Compare(a.Path, b.Path) })
	return workflow.Invalid("sealed parameters cannot be taken here", issues)
}

// openInput are the parameters of the workspace's execution as its starter gave them.
func (w *workspace) openInput(ctx context.Context, in *workflow.Input) (json.RawMessage, error) {
	if in.Sealed == nil {
		return in.Parameters, nil
	}
	if w.e.Sealer == nil {
		return nil, workflow.Errorf(workflow.CodeConflict, "parameters of execution %s are sealed, and sealed.key is not set: give all parameters anew", w.id)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(in.Parameters, &all); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the parameters of execution %s cannot be read: %w", w.id, err)
	}
	for name := range in.Sealed.Values {
		value, err := w.e.Sealer.Open(ctx, w.tenant, w.id, in.Sealed, name)
		if err != nil {
			return nil, &workflow.Error{Code: workflow.CodeUnavailable, Message: "a sealed parameter cannot be opened: their key does not answer", Cause: err}
		}
		if all[name], err = workflow.EncodeJSON(value); err != nil {
			return nil, err
		}
	}
	return workflow.EncodeJSON(all)
}

// sealedDigest begins the digest of a request that has sealed parameters: whoever can read it cannot
// find out what they were by trying.
const sealedDigest = "sealed:"

// digestToBind is the digest under which the request with this input is remembered.
func (w *workspace) digestToBind(ctx context.Context, digest string, in workflow.Input) (string, error) {
	if len(in.Plain) == 0 {
		return digest, nil
	}
	if err := w.refuseUnsealed(&in); err != nil {
		return "", err
	}
	own, err := w.e.Sealer.Digest(ctx, w.tenant, digest)
	if err != nil {
		return "", &workflow.Error{Code: workflow.CodeUnavailable, Message: "the request cannot be remembered: their key does not answer", Cause: err}
	}
	return sealedDigest + own, nil
}

// sameRequest reports whether a digest is the one that is remembered.
func (w *workspace) sameRequest(ctx context.Context, remembered, digest string) (bool, error) {
	if remembered == digest || !strings.HasPrefix(remembered, sealedDigest) || w.e.Sealer == nil {
		return remembered == digest, nil
	}
	own, err := w.e.Sealer.Digest(ctx, w.tenant, digest)
	if err != nil {
		return false, &workflow.Error{Code: workflow.CodeUnavailable, Message: "the request cannot be compared: their key does not answer", Cause: err}
	}
	return remembered == sealedDigest+own, nil
}
