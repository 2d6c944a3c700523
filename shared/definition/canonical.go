package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Canonical is the definition as JSON that Parse reads back to the same: two
// sources with the same meaning have the same canonical form, whatever their
// layout, comments and order of keys. Its own keys are sorted, so that it stays
// the same however the nouns are declared.
func Canonical(d *spec.Definition) []byte {
	out, err := document.Marshal(wireOf(d))
	if err == nil {
		out, err = document.Sorted(out)
	}
	if err != nil {
		panic("definition: a parsed definition has no JSON form: " + err.Error()) // its parts came from JSON
	}
	return out
}

// Digest identifies the meaning of a definition.
func Digest(d *spec.Definition) string {
	sum := sha256.Sum256(Canonical(d))
	return hex.EncodeToString(sum[:])
}

// wire is a definition in the form in which authors write it: the fields of the
// noun, of which those that authors write differently are replaced.
type wire struct {
	*spec.Definition
	Acquire []wireAcquire `json:"acquire,omitempty"`
	Config  *wireConfig   `json:"config,omitempty"`
	Steps   []wireStep    `json:"steps"`
}

type wireStep struct {
	*spec.Step
	Acquire  []wireAcquire `json:"acquire,omitempty"`
	Workflow *wireNested   `json:"workflow,omitempty"`
}

type wireNested struct {
	Steps []wireStep `json:"steps"`
}

// wireAcquire has ids as a list or as one token.
type wireAcquire struct {
	*spec.Acquire
	IDs   any    `json:"ids,omitempty"`
	IDsOf string `json:"idsOf,omitempty"` // stands in ids; always empty, to hide the noun's
}

type wireConfig struct {
	ExecutionStrategy map[string]bool   `json:"executionStrategy,omitempty"`
	OnLocked          spec.OnLocked     `json:"onLocked,omitempty"`
	LockMode          workflow.LockMode `json:"lockMode,omitempty"`
	Timeout           workflow.Duration `json:"timeout,omitempty"`
	Rollback          any               `json:"rollback,omitempty"`
	MaxInFlight       int               `json:"maxInFlight,omitempty"`
	FailureTolerance  any               `json:"failureTolerance,omitempty"`
	StartWhen         any               `json:"startWhen,omitempty"`
	NotBefore         string            `json:"notBefore,omitempty"`
}

func wireOf(d *spec.Definition) wire {
	return wire{d, wireAcquires(d.Acquire), configOf(&d.Config), wireSteps(d.Steps)}
}

func wireSteps(steps []spec.Step) []wireStep {
	all := make([]wireStep, len(steps))
	for i := range steps {
		s := &steps[i]
		all[i] = wireStep{Step: s, Acquire: wireAcquires(s.Acquire)}
		if s.Workflow != nil {
			all[i].Workflow = &wireNested{wireSteps(s.Workflow.Steps)}
		}
	}
	return all
}

func wireAcquires(acquires []spec.Acquire) []wireAcquire {
	var all []wireAcquire
	for i := range acquires {
		a := wireAcquire{Acquire: &acquires[i]}
		switch {
		case a.Acquire.IDsOf != "":
			a.IDs = "${" + a.Acquire.IDsOf + "}"
		case len(a.Acquire.IDs) > 0:
			a.IDs = a.Acquire.IDs
		}
		all = append(all, a)
	}
	return all
}

func configOf(c *spec.Config) *wireConfig {
	w := wireConfig{OnLocked: c.OnLocked, LockMode: c.LockMode, Timeout: c.Timeout, MaxInFlight: c.MaxInFlight, NotBefore: c.NotBefore}
	if c.Parallel {
		w.ExecutionStrategy = map[string]bool{"parallel": true}
	}
	switch {
	case c.RollbackContinue && c.Rollback == "":
		w.Rollback = map[string]string{"onFailure": "continue"}
	case c.RollbackContinue:
		w.Rollback = map[string]string{"mode": string(c.Rollback), "onFailure": "continue"}
	case c.Rollback != "":
		w.Rollback = c.Rollback
	}
	switch {
	case c.FailureTolerance.Percent > 0:
		w.FailureTolerance = strconv.FormatFloat(c.FailureTolerance.Percent, 'f', -1, 64) + "%"
	case c.FailureTolerance.Count > 0:
		w.FailureTolerance = c.FailureTolerance.Count
	}
	switch {
	case c.StartDeadline > 0:
		w.StartWhen = map[string]any{"condition": c.StartWhen, "deadline": c.StartDeadline}
	case c.StartWhen != "":
		w.StartWhen = c.StartWhen
	}
	if reflect.ValueOf(w).IsZero() {
		return nil
	}
	return &w
}
