package views

import (
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// CallerView is who the caller is to the service.
type CallerView struct {
	Tenant     string   `json:"tenant"`
	Actor      string   `json:"actor"`
	RoleNames  []string `json:"roleNames"`  // in its claim
	Roles      []string `json:"roles"`      // viewer, operator, approver, admin, worker
	Operations []string `json:"operations"` // ids of the OpenAPI document that its roles allow, sorted
}

// DeadLetterQueue is one dead-letter queue, with the messages of the caller's tenant.
type DeadLetterQueue struct {
	Queue       string       `json:"queue"`
	Messages    int          `json:"messages"` // of the caller, among those that were read
	Complete    bool         `json:"complete"` // every message was read
	DeadLetters []DeadLetter `json:"letters"`  // the first of them
}

// DeadLetter is a message in a dead-letter queue.
type DeadLetter struct {
	MessageID    string    `json:"message"`
	Execution    string    `json:"execution"`
	Step         *string   `json:"step"`
	Jobs         []string  `json:"jobs"`   // ids of the attempts that it carries
	Reason       *string   `json:"reason"` // as recorded in the history of the execution
	ReceiveCount int       `json:"receives"`
	SentAt       time.Time `json:"since"` // when it was sent
}

// RedriveRequest requests to move dead letters back: those of one queue or, with an empty Queue, of
// all queues. Limit 0 means the default of the service.
type RedriveRequest struct {
	Queue string `json:"queue,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// RedriveView is the result of a redrive.
type RedriveView struct {
	Moved     int             `json:"moved"`
	Remaining int             `json:"left"`     // of the caller, among those that were read
	Complete  bool            `json:"complete"` // every message was read
	Queues    []RedrivenQueue `json:"queues"`
}

// RedrivenQueue is the result for one queue.
type RedrivenQueue struct {
	Queue     string `json:"queue"`
	Moved     int    `json:"moved"`
	Remaining int    `json:"left"`
	Complete  bool   `json:"complete"`
}

// SweepView is what the next sweep would do.
type SweepView struct {
	AsOf       time.Time      `json:"asOf"`
	Executions []DueExecution `json:"executions"`
	Workers    []DueWorker    `json:"workers"`
	Schedules  []DueSchedule  `json:"schedules"`
	Complete   bool           `json:"complete"` // everything due was read
}

// DueExecution is an execution whose timer is due, and since when.
type DueExecution struct {
	Execution string                       `json:"execution"`
	State     statemachines.ExecutionState `json:"state"`
	Since     time.Time                    `json:"since"`
}

// DueWorker is a polling worker that has sent no heartbeat for too long. Since is when its state
// should have changed. Its last heartbeat was earlier by the timeout that the service allows.
type DueWorker struct {
	Worker    string                    `json:"worker"`
	State     statemachines.WorkerState `json:"state"`
	NextState statemachines.WorkerState `json:"becomes"`
	Since     time.Time                 `json:"since"`
}

// DueSchedule is a schedule whose fire time has passed. ExecutionID is the id of the execution that
// would be started, null if the fire time would be skipped.
type DueSchedule struct {
	Schedule    string    `json:"schedule"` // package/name
	FireTime    time.Time `json:"moment"`
	Skipped     bool      `json:"skipped"`
	ExecutionID *string   `json:"run"`
}
