package workflow

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Subscription is who is told of the events of executions, and of which.
type Subscription struct {
	Name string             `json:"name"`
	ID   string             `json:"id"` // another one each time that it is made: what is meant for a removed one of the same name is dropped
	To   SubscriptionTarget `json:"to"`

	// Events are the types that it is told of, such as execution.settled, or the beginning of
	// types followed by a star: execution.*; all if empty. States are those that an event leads
	// to. Workflows are full names. An execution needs all Labels. All of these have to fit.
	Events    []string          `json:"events,omitempty"`
	States    []string          `json:"states,omitempty"`
	Workflows []string          `json:"workflows,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	// Since is the time of the first event that it is told of. Who changes executions may know
	// of a subscription only half a minute after it was written. It is zero as long as nobody
	// knows whether it was written.
	Since time.Time `json:"since,omitzero"`

	CreatedAt time.Time          `json:"createdAt"`
	CreatedBy string             `json:"createdBy,omitempty"`
	Suspended *SubscriptionPause `json:"suspended,omitempty"` // nil while it is told
	Dead      int                `json:"dead,omitempty"`      // deliveries in a row that were given up
	Revision  int64              `json:"revision"`            // +1 with every write
	RemovedAt time.Time          `json:"removedAt,omitzero"`
}

// SubscriptionTarget is where events are sent to: exactly one of these.
type SubscriptionTarget struct {
	URL      string `json:"url,omitempty"`      // a webhook
	EventBus string `json:"eventBus,omitempty"` // name or ARN of a bus of EventBridge
	Topic    string `json:"topic,omitempty"`    // ARN of a topic of SNS
	Workflow string `json:"workflow,omitempty"` // is started
	Secret   []byte `json:"secret,omitempty"`   // of a webhook: what its requests are signed with, sealed

	// Text sends a short text for people, as chats take it, in the place of the events.
	Text bool `json:"text,omitempty"`
}

// Kind names the kind of a target.
func (t SubscriptionTarget) Kind() string {
	switch {
	case t.URL != "":
		return "webhook"
	case t.EventBus != "":
		return "eventBus"
	case t.Topic != "":
		return "topic"
	}
	return "workflow"
}

// AlertTarget is where people are told of failures: a webhook that takes {"text": ...}, as chats
// have it, or a topic of SNS.
type AlertTarget struct{ URL, Topic string }

// AlertStates are the states of which people are told, of COMPLETED only where some entities failed.
var AlertStates = []string{"COMPLETED", "FAILED_SAFE", "FAILED_UNSAFE", "CANCELLED"}

// SubscriptionPause says why and since when a subscription is not told.
type SubscriptionPause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// Limits of subscriptions.
const (
	MaxSubscriptions = 20 // of a tenant: each costs a message for each step of each execution that it is told of
)

// FollowUpActor is the beginning of the creator of what a subscription has started. The rest is
// the name of the subscription.
const FollowUpActor = "~subscription/"

// On reports whether the subscription is there, and is told of events.
func (s *Subscription) On() bool { return s.RemovedAt.IsZero() && s.Suspended == nil }

// Follows reports whether the subscription is told of events of an execution. What a
// subscription has started starts nothing itself, so that no chain is endless.
func (s *Subscription) Follows(x *Execution) bool {
	if s.Since.IsZero() || !s.RemovedAt.IsZero() || s.To.Workflow != "" && strings.HasPrefix(x.CreatedBy, FollowUpActor) {
		return false
	}
	if len(s.Workflows) > 0 && !slices.Contains(s.Workflows, x.Workflow.FullName()) {
		return false
	}
	for key, value := range s.Labels {
		if have, ok := x.Labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// MatchesEventType reports whether a pattern is a type of events, or the beginning of one and a star.
func MatchesEventType(pattern, eventType string) bool {
	start, open := strings.CutSuffix(pattern, "*")
	return open && strings.HasPrefix(eventType, start) || pattern == eventType
}

// Wants reports whether the subscription is told of an event of an execution that it follows.
func (s *Subscription) Wants(e *Event) bool {
	if e.At.Before(s.Since) || len(s.States) > 0 && (e.Layer != "execution" || e.From == e.To || !slices.Contains(s.States, e.To)) {
		return false
	}
	return len(s.Events) == 0 || slices.ContainsFunc(s.Events, func(pattern string) bool {
		return MatchesEventType(pattern, e.Type)
	})
}

// Announcement is a message to those who observe: look at the events of this execution. It may
// be lost, and then the timer of the execution sends another.
type Announcement struct {
	Tenant    string `json:"tenant"`
	Execution string `json:"execution"`
}

// ObservedThrough says which events of an execution have been handed on.
type ObservedThrough struct {
	Sequence int64
	By       string    // who is at work
	Until    time.Time // and may be until then
}

// Delivery is a message with events of one execution for one subscription. It is kept until the
// receiver has it. It holds the events, so that it does not matter how late that is.
type Delivery struct {
	Tenant         string          `json:"tenant"`
	Subscription   string          `json:"subscription"`
	SubscriptionID string          `json:"subscriptionId"`
	Execution      string          `json:"execution"`
	Workflow       string          `json:"workflow"`
	After          int64           `json:"after"`   // the events that it is about follow this one
	Through        int64           `json:"through"` // and this is the last one
	Events         []ObservedEvent `json:"events"`  // those of them that the subscription is told of

	Rows *PipedJobs `json:"rows,omitempty"` // of a delivery to a table: the jobs of which rows are made
}

// PipedJobs are jobs of a step run that has ended, of which pipes make rows of a table.
type PipedJobs struct {
	Table   string `json:"table,omitempty"` // "" while the tables of the step are not known: the delivery is divided among them
	StepRun int    `json:"stepRun"`         // Seq
	From    int    `json:"from"`            // the index of the first of the jobs
	To      int    `json:"to"`              // and that after the last one

	// Jobs names the jobs of a part of a step, so that the step is planned once and not for each part
	// of it; empty for a whole step.
	Jobs []PipedJob `json:"jobs,omitempty"`

	Again bool `json:"again,omitempty"` // somebody has asked for it: what becomes of it is remembered at once
}

// PipedJob names a job of a part of a step: its index, and the entity or the number of the item that
// it is for.
type PipedJob struct {
	Index  int        `json:"i"`
	Entity *EntityKey `json:"entity,omitempty"`
	Item   *int       `json:"item,omitempty"`
}

// TableSubscriber is what a table is called among those that events are delivered to.
func TableSubscriber(table string) string { return "~table/" + table }

// PipedStepRun is the step run, by its Seq, of whose jobs a delivery has made rows of a table.
func PipedStepRun(table string, a DeliveryAttempt) (seq int, ok bool) {
	rest, ok := strings.CutPrefix(a.Delivery, TableSubscriber(table)+":"+a.Execution+":")
	if !ok || a.Execution == "" {
		return 0, false
	}
	whole, _, _ := strings.Cut(rest, ".") // that of a part has the index of its first job behind
	seq, err := strconv.Atoi(whole)
	return seq, err == nil && seq > 0
}

// ID identifies what is delivered. It is the same each time.
func (d *Delivery) ID() string {
	if p := d.Rows; p != nil && len(p.Jobs) > 0 {
		return fmt.Sprintf("%s:%s:%d.%d", d.SubscriptionID, d.Execution, p.StepRun, p.From)
	} else if p != nil {
		return fmt.Sprintf("%s:%s:%d", d.SubscriptionID, d.Execution, p.StepRun)
	}
	return d.SubscriptionID + ":" + d.Execution + ":" + strconv.FormatInt(d.Through, 10)
}

// DeliveryAttempt is what became of a delivery when it was tried last. It has nothing of what was sent.
type DeliveryAttempt struct {
	At        time.Time `json:"at"`
	Delivery  string    `json:"delivery"` // as the receiver has it
	Execution string    `json:"execution,omitempty"`
	Attempts  int       `json:"attempts"` // with this one
	Delivered bool      `json:"delivered"`
	Status    int       `json:"status,omitempty"` // of the answer of a webhook
	Error     string    `json:"error,omitempty"`
	Test      bool      `json:"test,omitempty"` // it was asked for, and tells of no execution
}

// MaxDeliveryAttempts bounds the deliveries that are remembered of a subscription: each is kept under
// one of so many keys, in the place of an earlier one.
const MaxDeliveryAttempts = 100

// DeliveryKey is the key under which a delivery is remembered. Each time that it is tried it is the same.
func DeliveryKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%02d", binary.BigEndian.Uint32(sum[:])%MaxDeliveryAttempts)
}

// TestEventType is the type of the event of a test: no execution has one.
const TestEventType = "subscription.test"

// ObservedEvent is an event as others than its tenant's users may see it: who is told of the
// events of an execution is not told what it works with.
type ObservedEvent struct {
	ID       string         `json:"id"` // of the execution, and the sequence: whoever has it twice can tell
	Sequence int64          `json:"sequence"`
	At       time.Time      `json:"at"`
	Layer    string         `json:"layer"`
	Type     string         `json:"type"`
	From     string         `json:"from,omitempty"`
	To       string         `json:"to,omitempty"`
	Step     string         `json:"step,omitempty"`
	Actor    string         `json:"actor,omitempty"`
	Data     map[string]any `json:"data,omitempty"`
}

// observedData are the fields of an event's data that are told: numbers, and names out of
// definitions and of this program. Texts of callers and of blocks are not: a reason or a message
// may quote a parameter, a result or an answer.
var observedData = map[string]bool{
	"alreadyOk": true, "answers": true, "capped": true, "case": true, "child": true, "count": true, "droppedCount": true, "failed": true, "handled": true, "index": true,
	"jobs": true, "kind": true, "level": true, "need": true, "notExecuted": true, "ok": true, "repeat": true, "rerunOf": true, "skipped": true, "stoppedAt": true,
	"times": true, "trigger": true, "unfit": true, "unknown": true, "unmet": true, "wave": true, "waves": true, "workflow": true,
}

// Observed is the event as those see it who are told of it.
func (e *Event) Observed(execution string) ObservedEvent {
	o := ObservedEvent{
		ID: execution + ":" + strconv.FormatInt(e.Sequence, 10), Sequence: e.Sequence, At: e.At, Layer: e.Layer, Type: e.Type, From: e.From, To: e.To, Step: e.Step, Actor: e.Actor,
	}
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &o.Data) != nil {
		return o
	}
	maps.DeleteFunc(o.Data, func(key string, v any) bool {
		switch v.(type) {
		case map[string]any, []any:
			return true
		}
		return !observedData[key]
	})
	if len(o.Data) == 0 {
		o.Data = nil
	}
	return o
}
