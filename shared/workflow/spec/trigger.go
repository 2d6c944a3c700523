package spec

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Triggers are what starts executions of the newest version from outside, besides its schedule.
type Triggers struct {
	HTTP  []Trigger `json:"http,omitempty"`  // requests to an address of their own
	Event []Trigger `json:"event,omitempty"` // events that match a pattern
}

// All are all triggers, in order.
func (t *Triggers) All() []*Trigger {
	var all []*Trigger
	for _, list := range [][]Trigger{t.HTTP, t.Event} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// Path is where the trigger of number i of [Triggers.All] stands in a definition.
func (t *Triggers) Path(i int) string {
	if n := len(t.HTTP); i >= n {
		return fmt.Sprintf("triggers.event[%d]", i-n)
	}
	return fmt.Sprintf("triggers.http[%d]", i)
}

// Trigger starts an execution for each call that proves who makes it, or for each event that matches
// its pattern; or it sends a signal. Its expressions read body, headers and query, or event.
type Trigger struct {
	Name     string                `json:"name"`              // unique in a tenant
	Verify   workflow.Verification `json:"verify,omitzero"`   // how a call proves who makes it
	Schema   json.RawMessage       `json:"schema,omitempty"`  // JSON Schema of the body
	Pattern  json.RawMessage       `json:"pattern,omitempty"` // of the events that it takes; without one it is called over HTTP
	Form     *Form                 `json:"form,omitempty"`    // everybody may call it, instead of who proves himself
	Disabled bool                  `json:"disabled,omitempty"`

	Parameters          json.RawMessage `json:"parameters,omitempty"`          // strings may hold ${CEL}; absent: the body, or the detail of the event
	ExecuteOnParameters json.RawMessage `json:"executeOnParameters,omitempty"` // object; strings may hold ${CEL}
	IdempotencyKey      string          `json:"idempotencyKey,omitempty"`      // text with ${CEL}: calls with the same are one
	Key                 string          `json:"key,omitempty"`                 // text with ${CEL}: the business key
	Signal              string          `json:"signal,omitempty"`              // name: sent to the execution that has the key, or with the start of one

	Rate workflow.Rate `json:"rate,omitzero"` // zero: [DefaultTriggerRate]
}

// DefaultTriggerRate is how often a trigger may be called unless it says so itself.
var DefaultTriggerRate = workflow.Rate{Count: 300, Per: time.Minute}

// Limits of triggers.
const (
	MaxTriggers       = 10        // of a definition, of each kind
	MaxTenantTriggers = 200       // that are on, of a tenant
	MaxTriggerBody    = 256 << 10 // bytes, of a body or an event
)

// SecretName is the name of the secret with which calls are checked, and where it stands in the trigger;
// empty if there is none.
func (t *Trigger) SecretName() (name, path string) {
	if t.Form != nil && t.Form.Captcha != nil {
		return t.Form.Captcha.Secret, ".form.captcha.secret"
	}
	return t.Verify.Secret, ".verify.secret"
}

// TakesEvents reports whether it takes events, and is not called over HTTP.
func (t *Trigger) TakesEvents() bool { return len(t.Pattern) > 0 }

// EffectiveRate is how often it may be called.
func (t *Trigger) EffectiveRate() workflow.Rate {
	if t.Rate.IsZero() {
		return DefaultTriggerRate
	}
	return t.Rate
}

// PublishedTrigger is a trigger of a tenant: that of the newest version of a workflow. One that the
// newest version does not have is off. Its name is free then for another workflow.
type PublishedTrigger struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"` // +1 with every write; 0 was never written

	Workflow workflow.Ref  `json:"workflow"`          // exact: the newest version when it was last written
	Trigger  *Trigger      `json:"trigger,omitempty"` // nil: off
	Paused   *ScheduleHalt `json:"paused,omitempty"`
}

// LabelTrigger is the label of executions that a trigger has started; its value is the name of the
// trigger.
const LabelTrigger = "trigger"

// TriggerActor is the beginning of the creator of what a trigger has started. The rest is its name.
const TriggerActor = "~trigger/"
