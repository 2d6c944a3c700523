package views

import "github.com/lockstep-run/lockstep/shared/workflow"

// DeliveryBody is what a webhook, or a topic, receives. The events are those behind After, up to
// Through, that the subscription selects.
type DeliveryBody struct {
	Delivery     string                   `json:"delivery"`
	Subscription string                   `json:"subscription"`
	Execution    string                   `json:"execution"`
	Workflow     string                   `json:"workflow"`
	After        int64                    `json:"after"`
	Through      int64                    `json:"through"`
	Events       []workflow.ObservedEvent `json:"events"`
}

// BusDetail is the detail of an event on a bus.
type BusDetail struct {
	Execution string `json:"execution"`
	Workflow  string `json:"workflow"`
	workflow.ObservedEvent
}
