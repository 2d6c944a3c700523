package workflow

import (
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// Worker is a polling worker as the engine knows it. Its state is for display and
// for admitting it to new packs; who may take over a job is decided by the job's
// lease alone. Workers that are Lambda functions are not among them: they are
// known by their claims.
type Worker struct {
	Tenant string
	ID     string

	State   statemachines.WorkerState
	Pool    string
	Blocks  []string // references, as the worker names them
	Version string   // of its program, if it says so

	RegisteredAt time.Time
	LastSeenAt   time.Time // of its last heartbeat, or its registration
	DueAt        time.Time // when the sweeper has to look at it; zero for never

	// ClaimedPacks names the packs it works on, as far as it, or who claims for it, has
	// said so. It may name one that is over.
	ClaimedPacks []ClaimedPack
}

// LastHeartbeat is when the worker was last heard of, zero if it has not been
// since it registered.
func (w *Worker) LastHeartbeat() time.Time {
	if w.State == statemachines.WorkerRegistered {
		return time.Time{}
	}
	return w.LastSeenAt
}

// Serves reports whether the worker offers an exact block.
func (w *Worker) Serves(block Ref) bool {
	for _, text := range w.Blocks {
		r, err := ParseRef(text)
		if err == nil && r.FullName() == block.FullName() && r.Matches(block.Version) {
			return true
		}
	}
	return false
}

// ClaimedPack names one pack that a worker holds, with the tenant of its run:
// "tenant execution/...".
type ClaimedPack string

// ClaimedPack is how a worker's record names a pack.
func (k PackKey) ClaimedPack() ClaimedPack { return ClaimedPack(k.Tenant + " " + k.String()) }

// Wakeup asks to look at the pack's run; the zero Look if the text names none.
func (h ClaimedPack) Wakeup() Wakeup {
	tenant, key, _ := strings.Cut(string(h), " ")
	execution, _, _ := strings.Cut(key, "/")
	return Wakeup{Tenant: tenant, Execution: execution}
}

// Name is the pack's name without the tenant.
func (h ClaimedPack) Name() string {
	_, key, _ := strings.Cut(string(h), " ")
	return key
}
