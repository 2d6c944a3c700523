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

// Subscription says where events of executions are sent, and which ones.
type Subscription struct {
	Name string             `json:"name"`
	ID   string             `json:"id"` // different each time it is created: deliveries for a removed one with the same name are dropped
	To   SubscriptionTarget `json:"to"`

	// Events are the event types that it wants, such as execution.settled, or prefixes followed by
	// a star, such as execution.*; all if empty. States are the states that an event leads to.
	// Workflows are full names. An execution must have all Labels. All of these conditions must
	// match.
	Events    []string          `json:"events,omitempty"`
	States    []string          `json:"states,omitempty"`
	Workflows []string          `json:"workflows,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	// Since is the time of the first event that it receives. Processes that change executions may
	// learn of a subscription only half a minute after it was written. It is zero as long as it is
	// unknown whether it was written.
	Since time.Time `json:"since,omitzero"`

	CreatedAt time.Time          `json:"createdAt"`
	CreatedBy string             `json:"createdBy,omitempty"`
	Suspended *SubscriptionPause `json:"suspended,omitempty"` // nil while it receives events
	Dead      int                `json:"dead,omitempty"`      // deliveries in a row that were given up
	Revision  int64              `json:"revision"`            // +1 with every write
	RemovedAt time.Time          `json:"removedAt,omitzero"`
}

// SubscriptionTarget is where events are sent: exactly one of these.
type SubscriptionTarget struct {
	URL      string `json:"url,omitempty"`      // a webhook
	EventBus string `json:"eventBus,omitempty"` // name or ARN of an EventBridge bus
	Topic    string `json:"topic,omitempty"`    // ARN of an SNS topic
	Workflow string `json:"workflow,omitempty"` // a workflow to start
	Secret   []byte `json:"secret,omitempty"`   // for a webhook: the secret that signs its requests, encrypted

	// Text sends a short text for people instead of the events, as chats expect it.
	Text bool `json:"text,omitempty"`
}

// Kind returns the kind of the target.
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

// AlertTarget is where people are notified of failures: a webhook that takes {"text": ...}, as
// chats do, or an SNS topic.
type AlertTarget struct{ URL, Topic string }

// AlertStates are the states that people are notified of; COMPLETED only if some entities failed.
var AlertStates = []string{"COMPLETED", "FAILED_SAFE", "FAILED_UNSAFE", "CANCELLED"}

// SubscriptionPause says why and since when a subscription is suspended.
type SubscriptionPause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// Limits of subscriptions.
const (
	MaxSubscriptions = 20 // for a tenant: each costs a message for each step of each execution that it follows
)

// FollowUpActor is the prefix of the creator of executions that a subscription has started. The
// rest is the name of the subscription.
const FollowUpActor = "~subscription/"

// OnEndActor is the creator of executions that the end of another one has started, as its
// definition says.
const OnEndActor = "~onEnd"

// OnEndSubscriber is the name under which what a definition starts at its end receives that event.
const OnEndSubscriber = "~onEnd"

// EndSubscriber returns the name under which it is recorded that an end could not start an execution
// with an id, see [FollowUpID]. Each end has its own: of the deliveries under one name, a newer one may take the
// place of an older one.
func EndSubscriber(followUp string) string { return OnEndSubscriber + "/" + followUp }

// On reports whether the subscription exists and receives events.
func (s *Subscription) On() bool { return s.RemovedAt.IsZero() && s.Suspended == nil }

// Follows reports whether the subscription receives events of an execution. An execution that an
// event has started does not start others through a subscription, so that there are no endless
// chains.
func (s *Subscription) Follows(x *Execution) bool {
	if s.Since.IsZero() || !s.RemovedAt.IsZero() || s.To.Workflow != "" && (x.CreatedBy == OnEndActor || strings.HasPrefix(x.CreatedBy, FollowUpActor)) {
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

// MatchesEventType reports whether a pattern equals an event type, or is a prefix of it followed by
// a star.
func MatchesEventType(pattern, eventType string) bool {
	start, open := strings.CutSuffix(pattern, "*")
	return open && strings.HasPrefix(eventType, start) || pattern == eventType
}

// Wants reports whether the subscription receives an event of an execution that it follows.
func (s *Subscription) Wants(e *Event) bool {
	if e.At.Before(s.Since) || len(s.States) > 0 && (e.Layer != "execution" || e.From == e.To || !slices.Contains(s.States, e.To)) {
		return false
	}
	return len(s.Events) == 0 || slices.ContainsFunc(s.Events, func(pattern string) bool {
		return MatchesEventType(pattern, e.Type)
	})
}

// Announcement is a message to publish the events of this execution to its subscribers. It may be
// lost; the timer of the execution then sends another.
type Announcement struct {
	Tenant    string `json:"tenant"`
	Execution string `json:"execution"`
}

// ObservedThrough says which events of an execution have been published.
type ObservedThrough struct {
	Sequence int64
	By       string    // handler at work
	Until    time.Time // end of its lease
}

// Delivery is a message with events of one execution for one subscription. It is kept until the
// receiver has it. It contains the events, so that it does not matter how late that is.
type Delivery struct {
	Tenant         string          `json:"tenant"`
	Subscription   string          `json:"subscription"`
	SubscriptionID string          `json:"subscriptionId"`
	Execution      string          `json:"execution"`
	Workflow       string          `json:"workflow"`
	After          int64           `json:"after"`   // its events follow this one
	Through        int64           `json:"through"` // number of the last event
	Events         []ObservedEvent `json:"events"`  // the events among them that the subscription wants

	Rows *PipedJobs `json:"rows,omitempty"` // for a delivery to a table: the jobs from which rows are made
	Try  int        `json:"try,omitempty"`  // for an end at which the definition starts a workflow: the try that has ended so
}

// PipedJobs are jobs of an ended step run from which pipes make rows of a table.
type PipedJobs struct {
	Table   string `json:"table,omitempty"` // "" while the tables of the step are unknown: the delivery is split into one for each table
	StepRun int    `json:"stepRun"`         // Seq of the step run
	From    int    `json:"from"`            // index of the first job
	To      int    `json:"to"`              // index after the last job

	// Jobs names the jobs of a part of a step, so that the step is planned once and not for each
	// part; empty for a whole step.
	Jobs []PipedJob `json:"jobs,omitempty"`

	Again bool `json:"again,omitempty"` // requested by somebody: its result is recorded at once
}

// PipedJob names a job in a part of a step: its index, and the entity or the index of the item that
// it is for.
type PipedJob struct {
	Index  int        `json:"i"`
	Entity *EntityKey `json:"entity,omitempty"`
	Item   *int       `json:"item,omitempty"`
}

// TableSubscriber returns the name of a table among the receivers of events.
func TableSubscriber(table string) string { return "~table/" + table }

// PipedStepRun returns the Seq of the step run from whose jobs a delivery has made rows of a table.
func PipedStepRun(table string, a DeliveryAttempt) (seq int, ok bool) {
	rest, ok := strings.CutPrefix(a.Delivery, TableSubscriber(table)+":"+a.Execution+":")
	if !ok || a.Execution == "" {
		return 0, false
	}
	whole, _, _ := strings.Cut(rest, ".") // a part is followed by the index of its first job
	seq, err := strconv.Atoi(whole)
	return seq, err == nil && seq > 0
}

// ID identifies what is delivered. It is the same for each attempt.
func (d *Delivery) ID() string {
	if p := d.Rows; p != nil && len(p.Jobs) > 0 {
		return fmt.Sprintf("%s:%s:%d.%d", d.SubscriptionID, d.Execution, p.StepRun, p.From)
	} else if p != nil {
		return fmt.Sprintf("%s:%s:%d", d.SubscriptionID, d.Execution, p.StepRun)
	}
	return d.SubscriptionID + ":" + d.Execution + ":" + strconv.FormatInt(d.Through, 10)
}

// DeliveryAttempt is the result of the latest attempt of a delivery. It contains nothing of what
// was sent.
type DeliveryAttempt struct {
	At        time.Time `json:"at"`
	Delivery  string    `json:"delivery"` // id as the receiver sees it
	Execution string    `json:"execution,omitempty"`
	Attempts  int       `json:"attempts"` // including this one
	Delivered bool      `json:"delivered"`
	Status    int       `json:"status,omitempty"` // status of a webhook's response
	Error     string    `json:"error,omitempty"`
	// DeadLetter: it was tried as often as it is, and is not tried again unless an operator redrives it.
	DeadLetter bool `json:"deadLetter,omitempty"`

	Test bool `json:"test,omitempty"` // a requested test, which belongs to no execution
}

// MaxDeliveryAttempts bounds the deliveries that are recorded for a subscription. There are only so
// many keys, so that a new record replaces an earlier one.
const MaxDeliveryAttempts = 100

// DeliveryKey returns the key under which a delivery is recorded. It is the same for each attempt.
func DeliveryKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%02d", binary.BigEndian.Uint32(sum[:])%MaxDeliveryAttempts)
}

// TestEventType is the event type of a test: no execution has it.
const TestEventType = "subscription.test"

// ObservedEvent is an event as people outside of its tenant may see it: receivers of events do not
// see the data of an execution.
type ObservedEvent struct {
	ID       string         `json:"id"` // of the execution and the sequence, so that a receiver recognises duplicates
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

// observedData are the fields of an event's data that are passed on: numbers, and names from
// definitions and from this program. Texts from callers and blocks are not passed on, because a
// reason or a message may quote a parameter, a result or an answer.
var observedData = map[string]bool{
	"alreadyOk": true, "answers": true, "capped": true, "case": true, "child": true, "count": true, "droppedCount": true, "failed": true, "handled": true, "index": true,
	"jobs": true, "kind": true, "level": true, "need": true, "notExecuted": true, "ok": true, "repeat": true, "rerunOf": true, "skipped": true, "stoppedAt": true,
	"times": true, "trigger": true, "unfit": true, "unknown": true, "unmet": true, "wave": true, "waves": true, "workflow": true,
}

// Observed returns the event as its receivers see it.
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
