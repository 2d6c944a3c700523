package workflow

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// Lock is the lock item of one entity. It is created when the entity is first
// locked and never deleted, so that its token only ever grows.
type Lock struct {
	Entity     EntityKey
	Owner      string // execution id
	OwnerEpoch int64
	Token      int64 // the revision of the last take or join: grows with each new holder
	Revision   int64 // +1 with every write; 0 for an item that does not exist
	Since      int64 // Unix milliseconds of the last take or join

	// Mode is shared, or empty for an exclusive lock. A shared lock has holders in
	// place of the owner: by execution id.
	Mode    LockMode
	Holders map[string]Holder

	// A reservation is a claim of precedence by a run that keeps losing: its id,
	// and its age, which is that of the outermost run that started it.
	Reserver    string
	ReserverAge string
}

// Holder is one of the runs that share a lock.
type Holder struct {
	Epoch int64 `json:"e"`
	Token int64 `json:"t"`
	Since int64 `json:"s"` // Unix milliseconds
}

// MaxHolders bounds the runs that share one lock; more wait.
const MaxHolders = 64

// LockRequest is a run that takes its part of a shared lock.
type LockRequest struct {
	Execution string
	Epoch     int64
	Now       time.Time
}

// JoinConditions is what a run has read that joins a shared lock.
type JoinConditions struct {
	Age          string           // the run's: only older reservations stand in its way, and none if it is empty
	VoidReserver string           // a reserver whose reservation was read as void
	DeadHolders  map[string]int64 // holders read as holding nothing, and their epochs on the item
}

// Reservation is a run's claim of precedence. Its age is that of the outermost
// run that started it.
type Reservation struct {
	Execution string
	Age       string
}

// HoldsLocks reports whether a run read as head holds locks taken at the epoch. The
// states that hold nothing are a closed list: a state this binary does not know
// counts as holding.
func (h OwnerStatus) HoldsLocks(epoch int64) bool {
	return h.Epoch == epoch && statemachines.HoldsLocks(h.State)
}

// Reserves reports whether the reservations of a run stand: those of a run that
// has still to lock. One that has its locks needs none, for it either holds what
// it had reserved or no longer wants it; so what it left behind cannot come back
// to life when an operator has it retried. A run that does not exist reserves
// nothing. The states in which reservations are void are a closed list, too.
func (h OwnerStatus) Reserves() bool {
	switch {
	case h.State == statemachines.ExecutionLocking:
		return true
	case statemachines.HoldsLocks(h.State):
		return !slices.Contains(statemachines.ExecutionStates(), h.State)
	}
	return h.State != "" && !statemachines.Acknowledged(h.State)
}

// Older reports whether the age a is that of an older run than the age b is. Ages
// are ids of executions.
func Older(a, b string) bool { return a < b }

// HolderOf is the entry of a run that holds the lock at the epoch, if there is one:
// as its owner, or as one of its holders.
func (l Lock) HolderOf(execution string, epoch int64) (Holder, bool) {
	if h, ok := l.Holders[execution]; ok && h.Epoch == epoch {
		return h, true
	}
	if l.Owner == execution && l.OwnerEpoch == epoch && execution != "" {
		return Holder{Epoch: epoch, Token: l.Token, Since: l.Since}, true
	}
	return Holder{}, false
}
