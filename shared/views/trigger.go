package views

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// TriggerCall is a call of a trigger as received. Header names are in lower case.
type TriggerCall struct {
	Headers, Query map[string]string
	Body           []byte
}

// TriggerReceipt is the response to an accepted call.
type TriggerReceipt struct {
	ID        string `json:"id"`        // of the execution that was started, or got the signal
	Duplicate bool   `json:"duplicate"` // the call was accepted before

	// Form and Message are set for a call by a form: the response has only the message.
	Form    bool   `json:"-"`
	Message string `json:"-"`
}

// FormReceipt is the response to a form.
type FormReceipt struct {
	Message string `json:"message"`
}

// FormView is the public part of a form.
type FormView struct {
	Name    string          `json:"name"`
	Address string          `json:"address"` // path to which it is sent
	Schema  json.RawMessage `json:"schema"`  // of its fields
	Captcha *FormCaptcha    `json:"captcha"`
}

// FormCaptcha is what a page needs to show a captcha.
type FormCaptcha struct {
	Provider string `json:"provider"`
	SiteKey  string `json:"siteKey"`
	Field    string `json:"field"` // in which the solution is sent
}

// NewFormView returns the view of a tenant's trigger that is a form.
func NewFormView(tenant string, t *spec.Trigger) FormView {
	v := FormView{Name: t.Name, Address: "/hooks/" + tenant + "/" + t.Name, Schema: t.Schema}
	if c := t.Form.Captcha; c != nil {
		v.Captcha = &FormCaptcha{string(c.Provider), c.SiteKey, c.Provider.Field()}
	}
	return v
}

// FireRequest calls a trigger by hand, without authentication.
type FireRequest struct {
	Body    json.RawMessage   `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	Reason  string            `json:"reason,omitempty"`

	// IdempotencyKey is as in [StartRequest].
	IdempotencyKey string `json:"-"`
}

// Event is an event in EventBridge's form. It may have more fields.
type Event struct {
	ID         string          `json:"id"` // repeating the event repeats its id
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       time.Time       `json:"time,omitzero"`
	Resources  []string        `json:"resources,omitempty"`
	Detail     json.RawMessage `json:"detail,omitempty"`
}

// EventReceipt is what the triggers of a tenant have done with an event.
type EventReceipt struct {
	ID       string       `json:"id"`       // of the event
	Triggers []EventTaken `json:"triggers"` // whose patterns it matches
}

// EventTaken is what a trigger has done with an event.
type EventTaken struct {
	Trigger   string `json:"trigger"`
	Execution string `json:"execution,omitempty"` // that was started, or has the signal
	Duplicate bool   `json:"duplicate,omitempty"` // the event was accepted before

	// The reason for which it was refused for good.
	Code    workflow.Code    `json:"code,omitempty"`
	Message string           `json:"message,omitempty"`
	Issues  []workflow.Issue `json:"issues,omitempty"`
}

// TriggerView is a trigger: one that is called, or one that accepts events.
type TriggerView struct {
	Name     string          `json:"name"`
	Address  *string         `json:"address"` // path at which it is called
	Workflow workflow.Ref    `json:"workflow"`
	Verify   *TriggerProof   `json:"verify"`
	Form     *string         `json:"form"`    // path at which everybody can read its form
	Pattern  json.RawMessage `json:"pattern"` // of the events that it accepts; or null
	Signal   *string         `json:"signal"`
	Rate     string          `json:"rate"`
	Paused   *SchedulePause  `json:"paused"`
}

// TriggerProof is how calls are authenticated.
type TriggerProof struct {
	Scheme string `json:"scheme"`
	Secret string `json:"secret"` // name
	Header string `json:"header"`
}

// NewTriggerView returns the view of a tenant's trigger that is on.
func NewTriggerView(tenant string, t spec.PublishedTrigger) TriggerView {
	v := TriggerView{Name: t.Name, Workflow: t.Workflow, Pattern: json.RawMessage("null")}
	if s := t.Trigger; s != nil {
		if s.TakesEvents() {
			v.Pattern = s.Pattern
		} else {
			address := "/hooks/" + tenant + "/" + t.Name
			if v.Address = &address; s.Form != nil {
				form := "/forms/" + tenant + "/" + t.Name
				v.Form = &form
			} else {
				v.Verify = &TriggerProof{string(s.Verify.Scheme), s.Verify.Secret, s.Verify.HeaderName()}
			}
		}
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

// TriggerStats counts the calls of a trigger that its history has.
type TriggerStats struct {
	Name       string                `json:"name"`
	Since      *time.Time            `json:"since"` // of the oldest call that is counted
	LastCallAt *time.Time            `json:"lastCallAt"`
	Calls      int                   `json:"calls"`
	Accepted   int                   `json:"accepted"`   // have started an execution, sent a signal, or were a form that a machine has filled in
	Duplicates int                   `json:"duplicates"` // were accepted before
	Refused    int                   `json:"refused"`
	Fired      int                   `json:"fired"`    // by hand, of all calls
	Statuses   map[string]int        `json:"statuses"` // by the status of the answer
	Codes      map[workflow.Code]int `json:"codes"`    // of the refused ones
}

// NewTriggerStats counts the calls of a trigger, newest first.
func NewTriggerStats(name string, calls []workflow.TriggerCall) TriggerStats {
	s := TriggerStats{Name: name, Calls: len(calls), Statuses: map[string]int{}, Codes: map[workflow.Code]int{}}
	for _, c := range calls {
		s.Statuses[strconv.Itoa(c.Status)]++
		if c.By != "" {
			s.Fired++
		}
		switch {
		case c.Code != "":
			s.Refused++
			s.Codes[c.Code]++
		case c.Duplicate:
			s.Duplicates++
		default:
			s.Accepted++
		}
	}
	if len(calls) > 0 {
		s.LastCallAt, s.Since = &calls[0].At, &calls[len(calls)-1].At
	}
	return s
}
