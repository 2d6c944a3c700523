package spec

import (
	"encoding/json"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Wait is what a step waits for: a time, a condition over entities, people, or a signal.
type Wait struct {
	For   workflow.Duration `json:"for,omitempty"`
	Until string            `json:"until,omitempty"` // RFC 3339; may contain ${CEL}
	When  string            `json:"when,omitempty"`  // CEL, bool; reads the inventory with entity(type, id)

	Deadline  workflow.Duration `json:"deadline,omitempty"` // of When: how long it waits; 0 for as long as a step may wait
	OnTimeout *OnTimeout        `json:"onTimeout,omitempty"`

	Input    *WaitInput    `json:"input,omitempty"`
	Approval *WaitApproval `json:"approval,omitempty"`
	Signal   *WaitSignal   `json:"signal,omitempty"`
}

// Ask is what all questions to people have in common.
type Ask struct {
	Title string          `json:"title,omitempty"` // may contain ${CEL}
	Show  json.RawMessage `json:"show,omitempty"`  // strings may contain ${CEL}
	Who   *workflow.Who   `json:"who,omitempty"`   // actors may contain ${CEL}

	Deadline  workflow.Duration   `json:"deadline,omitempty"` // how long it waits; 0 for as long as a step may wait
	Remind    []workflow.Duration `json:"remind,omitempty"`   // after the beginning
	Escalate  []Escalation        `json:"escalate,omitempty"`
	OnTimeout *OnTimeout          `json:"onTimeout,omitempty"`
}

// WaitInput waits for the input of one person.
type WaitInput struct {
	Ask
	Schema json.RawMessage `json:"schema,omitempty"` // JSON Schema; absent accepts any value
}

// WaitApproval waits for the approval of some people. The first rejection decides.
type WaitApproval struct {
	Ask
	By       []string   `json:"by,omitempty"` // roles, besides Who
	Need     int        `json:"need,omitempty"`
	OnReject *OnTimeout `json:"onReject,omitempty"` // without an answer; nil fails the step
}

// WaitSignal waits for a signal from outside, by its name.
type WaitSignal struct {
	Name      string            `json:"name"`
	Schema    json.RawMessage   `json:"schema,omitempty"`   // JSON Schema of its data; absent accepts any
	When      string            `json:"when,omitempty"`     // CEL, bool; also reads data
	Deadline  workflow.Duration `json:"deadline,omitempty"` // how long it waits; 0 for as long as a step may wait
	OnTimeout *OnTimeout        `json:"onTimeout,omitempty"`
}

// Escalation lets more people answer after some time, and may start an execution.
type Escalation struct {
	After  workflow.Duration `json:"after"`
	Actors []string          `json:"actors,omitempty"` // may contain ${CEL}
	Roles  []string          `json:"roles,omitempty"`
	Start  *EscalationStart  `json:"start,omitempty"`
}

// EscalationStart is an execution in fire-and-forget mode.
type EscalationStart struct {
	Workflow   string          `json:"workflow"`             // reference
	Parameters json.RawMessage `json:"parameters,omitempty"` // object; strings may contain ${CEL}
}

// OnTimeout is how an execution continues when the deadline of a wait has passed. nil fails the
// step.
type OnTimeout struct {
	Next   string          `json:"next,omitempty"`   // label, or NextEnd
	Answer json.RawMessage `json:"answer,omitempty"` // what to take for the answer; strings may contain ${CEL}
}

// ApprovalSchema is the JSON Schema of an answer to an approval.
var ApprovalSchema = json.RawMessage(`{"type":"object","required":["approved"],"additionalProperties":false,"properties":{"approved":{"type":"boolean"},"note":{"type":"string","maxLength":1000}}}`)

// Approves reports whether an answer that matches [ApprovalSchema] approves.
func Approves(answer json.RawMessage) bool {
	var v struct {
		Approved bool `json:"approved"`
	}
	_ = json.Unmarshal(answer, &v)
	return v.Approved
}

// CallbackToken is the text that stands for the token of a callback in parameters.
const CallbackToken = "${callback.token}"

// CallbackURL is the text that stands for the link with that token, to the page on which its bearer
// answers.
const CallbackURL = "${callback.url}"

// SecretName is the name that stands for secrets in parameters, ${secret.NAME}.
const SecretName = "secret"

// MaxCallbackTokens bounds the places of a step's parameters that contain its token, including
// links.
const MaxCallbackTokens = 10

// Waits returns what the step waits for, besides its jobs if it has any; nil if it does not wait.
func (s *Step) Waits() *Wait {
	if s.Callback != nil {
		return &Wait{Input: s.Callback}
	}
	return s.Wait
}

// Kind returns the kind of the wait.
func (w *Wait) Kind() workflow.WaitKind {
	switch {
	case w.Asks() != nil:
		return workflow.WaitInput
	case w.Signal != nil:
		return workflow.WaitSignal
	case w.When != "":
		return workflow.WaitCondition
	}
	return workflow.WaitTimer
}

// Asks returns the question to people, nil if there is none.
func (w *Wait) Asks() *Ask {
	switch {
	case w.Input != nil:
		return &w.Input.Ask
	case w.Approval != nil:
		return &w.Approval.Ask
	}
	return nil
}

// Who returns who may answer at first.
func (w *Wait) Who() workflow.Who {
	who := workflow.Who{}
	if ask := w.Asks(); ask != nil && ask.Who != nil {
		who = *ask.Who
	}
	if w.Approval != nil {
		who.Roles = append(append([]string(nil), who.Roles...), w.Approval.By...)
	}
	return who
}

// Schema returns the JSON Schema of what the step waits for: of an answer, or of the data of a
// signal.
func (w *Wait) Schema() json.RawMessage {
	switch {
	case w.Approval != nil:
		return ApprovalSchema
	case w.Input != nil:
		return w.Input.Schema
	case w.Signal != nil:
		return w.Signal.Schema
	}
	return nil
}

// Limit returns how long the step waits at most, 0 for as long as a step may wait, and what happens
// then.
func (w *Wait) Limit() (workflow.Duration, *OnTimeout) {
	if ask := w.Asks(); ask != nil {
		return ask.Deadline, ask.OnTimeout
	}
	if w.Signal != nil {
		return w.Signal.Deadline, w.Signal.OnTimeout
	}
	return w.Deadline, w.OnTimeout
}

// Failure describes what makes the step fail; empty for a step that only waits for a time, or that
// continues whatever happens.
func (w *Wait) Failure() string {
	var ways []string
	limit, late := w.Limit()
	switch {
	case w.Kind() == workflow.WaitTimer || late != nil:
	case limit > 0:
		ways = append(ways, "if nothing has ended it within "+limit.Std().String())
	default:
		ways = append(ways, "if nothing ends it")
	}
	if w.Approval != nil && w.Approval.OnReject == nil {
		ways = append(ways, "if it is rejected")
	}
	return strings.Join(ways, ", or ")
}

// HasResult reports whether the wait has a result: what somebody answered, or sent.
func (w *Wait) HasResult() bool { return w.Asks() != nil || w.Signal != nil }
