package spec

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Triggers are what starts executions of the newest version from outside, besides its schedule.
type Triggers struct {
	HTTP []Trigger `json:"http,omitempty"` // requests to an address of their own
}

// All are all triggers, in order.
func (t *Triggers) All() []*Trigger {
	var all []*Trigger
	for i := range t.HTTP {
		all = append(all, &t.HTTP[i])
	}
	return all
}

// Trigger starts an execution for each call that proves who makes it, or sends a signal. Its
// expressions read body, headers and query.
type Trigger struct {
	Name     string                `json:"name"`             // unique in a tenant
	Verify   workflow.Verification `json:"verify"`           // how a call proves who makes it
	Schema   json.RawMessage       `json:"schema,omitempty"` // JSON Schema of the body
	Disabled bool                  `json:"disabled,omitempty"`

	Parameters          json.RawMessage `json:"parameters,omitempty"`          // strings may hold ${CEL}; absent: the body
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
	MaxTriggers       = 10        // of a definition
	MaxTenantTriggers = 200       // that are on, of a tenant
	MaxTriggerBody    = 256 << 10 // bytes
)

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
