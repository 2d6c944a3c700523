package workflow

import "github.com/lockstep-run/lockstep/statemachines"

// Lock is the lock item of one entity. It is created when the entity is first
// locked and never deleted, so that its token only ever grows.
type Lock struct {
	Entity     EntityKey
	Owner      string // execution id
	OwnerEpoch int64
	Token      int64 // the revision of the last take: grows with each new holder
	Rev        int64 // +1 with every write; 0 for an item that does not exist
	Since      int64 // Unix milliseconds of the last take

	// A shared lock has holders in place of the owner: by execution id.
	Mode    LockMode
	Holders map[string]Holder

	// A reservation is a claim of precedence by a run that keeps losing: its id,
	// and its age, which is that of the outermost run that started it.
	Res    string
	ResAge string
}

// Holder is one of the runs that share a lock.
type Holder struct {
	Epoch int64 `json:"e"`
	Token int64 `json:"t"`
	Since int64 `json:"s"` // Unix milliseconds
}

// MaxHolders bounds the runs that share one lock; more wait.
const MaxHolders = 64

// Live reports whether a run read as head holds locks taken at the epoch. The
// states that hold nothing are a closed list: a state this binary does not know
// counts as holding.
func (h Head) Live(epoch int64) bool {
	return h.Epoch == epoch && statemachines.Holding(h.State)
}

// Over reports whether a run has ended for good, so that its reservations are
// void. A run that does not exist is over.
func (h Head) Over() bool { return h.State == "" || statemachines.Acknowledged(h.State) }

// Older reports whether the run a was created before the run b.
func Older(a, b string) bool { return a < b }
