package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// WorkerView is one polling worker as it is shown.
type WorkerView struct {
	ID            string                    `json:"id"`
	State         statemachines.WorkerState `json:"state"`
	Pool          string                    `json:"pool"`
	Blocks        []string                  `json:"blocks"`
	Version       *string                   `json:"version"`
	Packs         []string                  `json:"jobs"` // the packs that it works on
	RegisteredAt  time.Time                 `json:"registeredAt"`
	LastHeartbeat *time.Time                `json:"lastHeartbeat"`
}

// WorkerRegistration is what a worker says of itself; an ID is made if it names
// none.
type WorkerRegistration struct {
	ID      string   `json:"id,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	Blocks  []string `json:"blocks"`
	Version string   `json:"version,omitempty"`
}

// JobPoll asks for a pack of one of the blocks.
type JobPoll struct {
	Worker string             `json:"worker"`
	Blocks []string           `json:"blocks"`
	Wait   *workflow.Duration `json:"wait"`
}

// PackOffer is a pack that a worker has been given. Pack is opaque: it goes back
// with everything that the worker says of the pack.
type PackOffer struct {
	Pack  string            `json:"pack"`
	Token int               `json:"token"`
	Lease time.Time         `json:"lease"`
	Jobs  []json.RawMessage `json:"jobs"` // each as a block served over HTTP is sent it
}

// PackResults is what a worker says of a pack. Nil results only ask for more time.
type PackResults struct {
	Pack       string            `json:"pack"`
	Token      int               `json:"token"`
	Results    []json.RawMessage `json:"results"`  // each as a block served over HTTP answers, with the job's id
	NotStarted []string          `json:"notBegun"` // jobs that it will not begin, once it has been asked to stop
}

// PackLease is until when a worker may go on with a pack; null if it is over.
type PackLease struct {
	Lease  *time.Time `json:"lease"`
	Cancel bool       `json:"cancel"` // begin no more jobs, give back what there is
}

// PoolView is one pool's queue, about, and who is known to work on its packs.
type PoolView struct {
	Pool    string      `json:"pool"`
	Waiting *int        `json:"waiting"` // messages; null where the pool has no queue
	Claimed *int        `json:"claimed"` // received, and not done with
	Delayed *int        `json:"delayed"`
	Claims  []ClaimView `json:"claims"`
}

// ClaimView is a pack that a polling worker holds, as far as it has said so.
type ClaimView struct {
	Pack      string `json:"pack"`
	Execution string `json:"execution"`
	Worker    string `json:"worker"`
}
