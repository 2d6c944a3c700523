package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// WorkerView is one polling worker.
type WorkerView struct {
	ID            string                    `json:"id"`
	State         statemachines.WorkerState `json:"state"`
	Pool          string                    `json:"pool"`
	Blocks        []string                  `json:"blocks"`
	Version       *string                   `json:"version"`
	Packs         []string                  `json:"jobs"` // the packs that it has claimed
	RegisteredAt  time.Time                 `json:"registeredAt"`
	LastHeartbeat *time.Time                `json:"lastHeartbeat"`
	Warnings      []string                  `json:"warnings,omitempty"` // of a registration
}

// WorkerRegistration registers a worker. An ID is generated if it is empty.
type WorkerRegistration struct {
	ID      string   `json:"id,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	Region  string   `json:"region,omitempty"` // whose executions it serves; empty for those without a region
	Blocks  []string `json:"blocks"`
	Version string   `json:"version,omitempty"`
}

// JobPoll requests a pack of one of the blocks. Attempt is an id that the worker chooses for this
// poll. It reuses the id only to send the poll again because it got no response.
type JobPoll struct {
	Worker string             `json:"worker"`
	Region string             `json:"region,omitempty"` // as in the registration
	Blocks []string           `json:"blocks"`
	Wait   *workflow.Duration `json:"wait"`

	Attempt string `json:"attempt,omitempty"`
}

// PackOffer is a pack leased to a worker. Pack is an opaque receipt that every later request about
// the pack carries. With Drain there is no pack and there will be none: the worker should stop.
type PackOffer struct {
	Drain bool              `json:"-"` // a header
	Pack  string            `json:"pack"`
	Token int               `json:"token"`
	Lease time.Time         `json:"lease"`
	Jobs  []json.RawMessage `json:"jobs"` // each in the form sent to a block served over HTTP
}

// PackResults reports results of a pack. Nil results only renew the lease.
type PackResults struct {
	Pack       string            `json:"pack"`
	Token      int               `json:"token"`
	Results    []json.RawMessage `json:"results"`  // each in the form that a block served over HTTP returns, with the id of the job
	NotStarted []string          `json:"notBegun"` // jobs that it will not start, after a request to stop
	Jobs       []JobReport       `json:"jobs,omitempty"`
}

// JobReport is what a worker reports, with a heartbeat of its pack, about a job that it is still
// running.
type JobReport struct {
	Job         string               `json:"job"`
	Checkpoints workflow.Checkpoints `json:"checkpoints,omitempty"` // added to those saved before; null removes one
	Progress    *JobReportProgress   `json:"progress,omitempty"`
	Logs        workflow.LogLines    `json:"logs,omitempty"` // written since the last heartbeat
}

// JobReportProgress is the progress of a job.
type JobReportProgress struct {
	Percent float64 `json:"percent"`
	Message string  `json:"message,omitempty"`
}

// PackLease is how long a worker may work on a pack; Lease is null if the lease is over.
type PackLease struct {
	Lease  *time.Time `json:"lease"`
	Cancel bool       `json:"cancel"` // start no more jobs, and report the results so far
}

// PoolView is one pool: approximate numbers of its queue, and the known claims of its packs.
type PoolView struct {
	Pool    string      `json:"pool"`
	Queue   bool        `json:"queue"`   // the pool has a queue
	Waiting *int        `json:"waiting"` // messages; null if there is no queue, or if it may serve other tenants
	Claimed *int        `json:"claimed"` // received and not deleted
	Delayed *int        `json:"delayed"`
	Claims  []ClaimView `json:"claims"`

	// Unclaimed are jobs of the caller's executions that have waited for a while without any worker
	// claiming a job of their execution; null for none.
	Unclaimed *UnclaimedJobs `json:"unclaimed"`
}

// UnclaimedJobs are jobs that have waited to be claimed for more than a few seconds.
type UnclaimedJobs struct {
	Jobs       int       `json:"jobs"`
	Executions int       `json:"executions"`
	Since      time.Time `json:"since"` // the longest wait
}

// ClaimView is a pack that a polling worker has claimed, as far as reported.
type ClaimView struct {
	Pack      string `json:"pack"`
	Execution string `json:"execution"`
	Worker    string `json:"worker"`
}
