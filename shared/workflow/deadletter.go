package workflow

// DeadLetter is what is known of a message that its queue gives up on: it lies among the
// queue's dead letters, under the id that it had.
type DeadLetter struct {
	MessageID    string   `json:"messageId"`
	Queue        string   `json:"queue"` // lifecycle, or jobs- and the pool
	Pack         *PackKey `json:"pack,omitempty"`
	Step         string   `json:"step,omitempty"`
	Reason       string   `json:"reason"`
	ReceiveCount int      `json:"receiveCount"`

	// Provisional is set by whoever begins the last try, for the case that he dies of it.
	// It is void if the pack's item stands when it is read: then somebody has had
	// the pack, and how that ended is known from the item.
	Provisional bool `json:"provisional,omitempty"`
}
