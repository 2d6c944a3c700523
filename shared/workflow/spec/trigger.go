package spec

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Triggers start executions of the newest version from outside, besides its schedule.
type Triggers struct {
	HTTP  []Trigger `json:"http,omitempty"`  // requests to an address of their own
	Event []Trigger `json:"event,omitempty"` // events that match a pattern
}

// All returns all triggers, in order.
func (t *Triggers) All() []*Trigger {
	var all []*Trigger
	for _, list := range [][]Trigger{t.HTTP, t.Event} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// Path returns the path in a definition of trigger number i of [Triggers.All].
func (t *Triggers) Path(i int) string {
	if n := len(t.HTTP); i >= n {
		return fmt.Sprintf("triggers.event[%d]", i-n)
	}
	return fmt.Sprintf("triggers.http[%d]", i)
}

// Trigger starts an execution for each authenticated call, or for each event that matches its
// pattern; or it sends a signal. Its expressions read body, headers and query, or event.
type Trigger struct {
	Name     string                `json:"name"`              // unique in a tenant
	Verify   workflow.Verification `json:"verify,omitzero"`   // how a call is authenticated
	Schema   json.RawMessage       `json:"schema,omitempty"`  // JSON Schema of the body
	Pattern  json.RawMessage       `json:"pattern,omitempty"` // of the events that it accepts; without one it is called over HTTP
	Form     *Form                 `json:"form,omitempty"`    // everybody may call it, without authentication
	Disabled bool                  `json:"disabled,omitempty"`

	Parameters          json.RawMessage `json:"parameters,omitempty"`          // strings may contain ${CEL}; absent: the body, or the detail of the event
	ExecuteOnParameters json.RawMessage `json:"executeOnParameters,omitempty"` // object; strings may contain ${CEL}
	IdempotencyKey      string          `json:"idempotencyKey,omitempty"`      // text with ${CEL}: calls with the same key count as one
	Key                 string          `json:"key,omitempty"`                 // text with ${CEL}: the business key
	Signal              string          `json:"signal,omitempty"`              // name of the signal that is sent to the execution that has the key, or with the start of one

	Rate workflow.Rate `json:"rate,omitzero"` // zero: [DefaultTriggerRate]
}

// DefaultTriggerRate is how often a trigger may be called if it sets no rate.
var DefaultTriggerRate = workflow.Rate{Count: 300, Per: time.Minute}

// Limits of triggers.
const (
	MaxTriggers       = 10        // of a definition, of each kind
	MaxTenantTriggers = 200       // that are on, of one tenant
	MaxTriggerBody    = 256 << 10 // bytes, of a body or an event
)

// SecretName returns the name of the secret with which calls are checked, and its path in the
// trigger; empty if there is none.
func (t *Trigger) SecretName() (name, path string) {
	if t.Form != nil && t.Form.Captcha != nil {
		return t.Form.Captcha.Secret, ".form.captcha.secret"
	}
	return t.Verify.Secret, ".verify.secret"
}

// TakesEvents reports whether it accepts events, and is not called over HTTP.
func (t *Trigger) TakesEvents() bool { return len(t.Pattern) > 0 }

// EffectiveRate returns how often it may be called.
func (t *Trigger) EffectiveRate() workflow.Rate {
	if t.Rate.IsZero() {
		return DefaultTriggerRate
	}
	return t.Rate
}

// PublishedTrigger is a trigger of a tenant: that of the newest version of a workflow. A trigger
// that the newest version lacks is off, and its name is free for another workflow.
type PublishedTrigger struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"` // +1 with every write; 0 for one that was never written

	Workflow workflow.Ref  `json:"workflow"`          // exact: the newest version when it was last written
	Trigger  *Trigger      `json:"trigger,omitempty"` // nil: off
	Paused   *ScheduleHalt `json:"paused,omitempty"`
}

// NoTrigger returns the error of a request about a trigger that is off.
func NoTrigger(name string, t PublishedTrigger) error {
	if t.Revision == 0 {
		return workflow.Errorf(workflow.CodeNotFound, "there is no trigger %q", name)
	}
	return workflow.Errorf(workflow.CodeNotFound, "there is no trigger %q: the newest version of %s that is not archived has none of this name; publish one that has it, or restore the one that has it", name, t.Workflow.FullName())
}

// LabelTrigger is the label of executions that a trigger has started; its value is the name of the
// trigger.
const LabelTrigger = "trigger"

// TriggerActor is the prefix of the creator of what a trigger has started. The rest is the
// trigger's name.
const TriggerActor = "~trigger/"
