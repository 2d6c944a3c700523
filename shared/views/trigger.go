package views

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// TriggerCall is a call of a trigger as it came. Names of headers are in lower case.
type TriggerCall struct {
	Headers, Query map[string]string
	Body           []byte
}

// TriggerReceipt is the answer to an accepted call.
type TriggerReceipt struct {
	ID        string `json:"id"`        // of the execution that was started, or has the signal
	Duplicate bool   `json:"duplicate"` // the call was accepted before
}

// FireRequest calls a trigger by hand, without a proof.
type FireRequest struct {
	Body    json.RawMessage   `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	Reason  string            `json:"reason,omitempty"`

	// IdempotencyKey is as in [StartRequest].
	IdempotencyKey string `json:"-"`
}

// TriggerView is a trigger.
type TriggerView struct {
	Name     string         `json:"name"`
	Address  string         `json:"address"` // path at which it is called
	Workflow workflow.Ref   `json:"workflow"`
	Verify   TriggerProof   `json:"verify"`
	Signal   *string        `json:"signal"`
	Rate     string         `json:"rate"`
	Paused   *SchedulePause `json:"paused"`
}

// TriggerProof is how calls prove who makes them.
type TriggerProof struct {
	Scheme string `json:"scheme"`
	Secret string `json:"secret"` // name
	Header string `json:"header"`
}

// NewTriggerView is a trigger of a tenant that is on.
func NewTriggerView(tenant string, t spec.PublishedTrigger) TriggerView {
	v := TriggerView{Name: t.Name, Address: "/hooks/" + tenant + "/" + t.Name, Workflow: t.Workflow}
	if s := t.Trigger; s != nil {
		v.Verify = TriggerProof{string(s.Verify.Scheme), s.Verify.Secret, s.Verify.HeaderName()}
		v.Rate = s.EffectiveRate().String()
		if s.Signal != "" {
			v.Signal = &s.Signal
		}
	}
	if p := t.Paused; p != nil {
		v.Paused = &SchedulePause{By: nilIfZero(p.By), At: p.At, Reason: p.Reason}
	}
	return v
}
