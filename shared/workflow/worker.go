package workflow

import (
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// Worker is a registered polling worker. Its state is for display and decides whether it gets new
// packs; who may take over a job depends only on the job's lease. Workers that are Lambda functions
// do not register: they are known only by their claims.
type Worker struct {
	Tenant string
	ID     string

	State   statemachines.WorkerState
	Pool    string
	Blocks  []string // references, as the worker names them
	Version string   // version of its program, if it reports one

	RegisteredAt time.Time
	LastSeenAt   time.Time // the last heartbeat, or the registration
	DueAt        time.Time // when the sweeper must check it; zero for never

	// ClaimedPacks names the packs that it works on, as reported by the worker or by the service
	// that claims for it. It may include packs that are over.
	ClaimedPacks []ClaimedPack
}

// LastHeartbeat returns the time of the last heartbeat; zero if there was none since the worker
// registered.
func (w *Worker) LastHeartbeat() time.Time {
	if w.State == statemachines.WorkerRegistered {
		return time.Time{}
	}
	return w.LastSeenAt
}

// Serves reports whether the worker serves the block, an exact reference.
func (w *Worker) Serves(block Ref) bool {
	for _, text := range w.Blocks {
		r, err := ParseRef(text)
		if err == nil && r.FullName() == block.FullName() && r.Matches(block.Version) {
			return true
		}
	}
	return false
}

// ClaimedPack names a pack that a worker has claimed, with the tenant of its execution:
// "tenant execution/...".
type ClaimedPack string

// ClaimedPack returns the key as the record of a worker names it.
func (k PackKey) ClaimedPack() ClaimedPack { return ClaimedPack(k.Tenant + " " + k.String()) }

// Wakeup returns a wake-up for the execution of the pack; its fields are empty if the text names
// none.
func (c ClaimedPack) Wakeup() Wakeup {
	tenant, key, _ := strings.Cut(string(c), " ")
	execution, _, _ := strings.Cut(key, "/")
	return Wakeup{Tenant: tenant, Execution: execution}
}

// Name returns the name of the pack without the tenant.
func (c ClaimedPack) Name() string {
	_, key, _ := strings.Cut(string(c), " ")
	return key
}

// PollAttempt identifies one poll of a worker. The worker chooses its id, and repeats the poll
// under it if it gets no response.
type PollAttempt struct {
	Tenant, Worker, ID string
}

// PollReceipt is the receipt of the pack that is claimed for a poll attempt. It is stored before
// that pack is claimed. Without a receipt the attempt gets no pack, however late one of its
// requests arrives.
type PollReceipt struct {
	Version   string // random, different with every write
	Receipt   []byte
	ExpiresAt time.Time // when it may be deleted
}
