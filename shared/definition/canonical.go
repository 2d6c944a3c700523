package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Canonical is the definition as JSON that Parse reads back to the same: two
// sources with the same meaning have the same canonical form, whatever their
// layout, comments and order of keys.
func Canonical(d *workflow.Definition) []byte {
	out, err := document.Marshal(wireOf(d))
	if err != nil {
		panic("definition: a parsed definition has no JSON form: " + err.Error()) // its parts came from JSON
	}
	return out
}

// Digest identifies the meaning of a definition.
func Digest(d *workflow.Definition) string {
	sum := sha256.Sum256(Canonical(d))
	return hex.EncodeToString(sum[:])
}

// wire is a definition in the form in which authors write it.
type wire struct {
	*workflow.Definition
	Config *wireConfig `json:"config,omitempty"`
}

type wireConfig struct {
	OnLocked         workflow.OnLocked     `json:"onLocked,omitempty"`
	LockMode         workflow.LockMode     `json:"lockMode,omitempty"`
	Rollback         workflow.RollbackMode `json:"rollback,omitempty"`
	MaxInFlight      int                   `json:"maxInFlight,omitempty"`
	FailureTolerance any                   `json:"failureTolerance,omitempty"`
}

func wireOf(d *workflow.Definition) wire {
	c := d.Config
	w := wireConfig{OnLocked: c.OnLocked, LockMode: c.LockMode, Rollback: c.Rollback, MaxInFlight: c.MaxInFlight}
	switch {
	case c.FailureTolerance.Percent > 0:
		w.FailureTolerance = strconv.FormatFloat(c.FailureTolerance.Percent, 'f', -1, 64) + "%"
	case c.FailureTolerance.Count > 0:
		w.FailureTolerance = c.FailureTolerance.Count
	}
	if w == (wireConfig{}) {
		return wire{Definition: d}
	}
	return wire{d, &w}
}

func pathOf(step int) string { return "steps[" + strconv.Itoa(step) + "]" }
