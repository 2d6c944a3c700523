package views

import "time"

// DeadLetterQueue is what one queue has given up on, as far as it is the caller's.
type DeadLetterQueue struct {
	Queue       string       `json:"queue"`
	Messages    int          `json:"messages"` // of the caller, among those that were looked at
	Complete    bool         `json:"complete"` // everything was looked at
	DeadLetters []DeadLetter `json:"letters"`  // the first of them
}

// DeadLetter is a message that its queue has given up on.
type DeadLetter struct {
	MessageID    string    `json:"message"`
	Execution    string    `json:"execution"`
	Step         *string   `json:"step"`
	Jobs         []string  `json:"jobs"`   // ids of the attempts that it offers
	Reason       *string   `json:"reason"` // as the run's history has it
	ReceiveCount int       `json:"receives"`
	SentAt       time.Time `json:"since"` // when it was sent
}

// RedriveRequest asks for dead letters to be put back: of one queue or, with an
// empty Queue, of all. Limit 0 is the service's default.
type RedriveRequest struct {
	Queue string `json:"queue,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// RedriveView is what came of it.
type RedriveView struct {
	Moved     int             `json:"moved"`
	Remaining int             `json:"left"`     // of the caller, among those that were looked at
	Complete  bool            `json:"complete"` // everything was looked at
	Queues    []RedrivenQueue `json:"queues"`
}

// RedrivenQueue is one queue's share of a RedriveView.
type RedrivenQueue struct {
	Queue     string `json:"queue"`
	Moved     int    `json:"moved"`
	Remaining int    `json:"left"`
	Complete  bool   `json:"complete"`
}
