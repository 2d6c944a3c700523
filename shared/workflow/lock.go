package workflow

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// Lock is the lock item of one entity. It is created when the entity is first locked and never
// deleted, so that its token only increases.
type Lock struct {
	Entity     EntityKey
	Owner      string // execution id
	OwnerEpoch int64
	Place      int   // of the entity in the owner's list, see Places; 0 if unknown
	Token      int64 // revision of the last take or join; increases with each new holder
	Revision   int64 // +1 with every write; 0 for an item that does not exist
	Since      int64 // Unix milliseconds of the last take or join

	// Mode is shared, or empty for an exclusive lock. A shared lock has Holders, by execution id,
	// instead of an owner.
	Mode    LockMode
	Holders map[string]Holder

	// Reserver is the id of an execution that has lost repeatedly and gets the lock next.
	// ReserverAge is its age, which is that of its outermost ancestor.
	Reserver    string
	ReserverAge string

	// Recent are the last executions that took the lock, each once, in the order in which they took
	// it. Executions that joined a shared lock are not recorded, only the one that made it shared.
	Recent RecentHolders
}

// RecentHolders are executions that took a lock. As text they are separated by blanks; each has the
// form "ID:PLACE:TOKEN", or "ID:PLACE:TOKEN:s" if it shares the lock.
type RecentHolders []RecentHolder

// RecentHolder is an execution that took a lock, the entity's place in its list, and the token of
// its last take.
type RecentHolder struct {
	Execution string
	Place     int // see Places
	Token     int64
	Shared    bool
}

// MaxRecentHolders bounds the executions that a lock item names.
const MaxRecentHolders = 10

// With returns the holders after an execution has taken the lock.
func (r RecentHolders) With(taken RecentHolder) RecentHolders {
	next := make(RecentHolders, 0, MaxRecentHolders+1)
	for _, h := range r {
		if h.Execution != taken.Execution {
			next = append(next, h)
		}
	}
	next = append(next, taken)
	return next[max(0, len(next)-MaxRecentHolders):]
}

// Since returns the executions, except one, that took the lock exclusively after a token. all is
// false if there may be others: if all named holders came after the token, earlier ones may have
// been forgotten.
func (r RecentHolders) Since(execution string, token int64) (others []string, all bool) {
	for _, h := range r {
		if h.Execution != execution && !h.Shared && h.Token > token {
			others = append(others, h.Execution)
		}
	}
	return others, len(r) < MaxRecentHolders || r[0].Token <= token
}

func (r RecentHolders) String() string {
	var b strings.Builder
	for i, h := range r {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(h.Execution + ":" + strconv.Itoa(h.Place) + ":" + strconv.FormatInt(h.Token, 10))
		if h.Shared {
			b.WriteString(":s")
		}
	}
	return b.String()
}

// ParseRecentHolders reads the text, and skips what it does not understand. An older release writes
// no tokens; its holders count as having taken the lock with the last token, that of the item.
func ParseRecentHolders(text string, last int64) (r RecentHolders) {
	for entry := range strings.FieldsSeq(text) {
		f := strings.Split(entry, ":")
		if len(f) < 2 || f[0] == "" {
			continue
		}
		place, err := strconv.Atoi(f[1])
		h := RecentHolder{Execution: f[0], Place: place, Token: last, Shared: len(f) > 3 && f[3] == "s"}
		if err == nil && len(f) > 2 {
			h.Token, err = strconv.ParseInt(f[2], 10, 64)
		}
		if err == nil {
			r = append(r, h)
		}
	}
	return r
}

// LockMode says how an execution holds its entities.
type LockMode string

// Lock modes; exclusive is the default. Shared is for executions whose blocks are all pure.
const (
	LockExclusive LockMode = "exclusive"
	LockShared    LockMode = "shared"
)

// Holder is one of the executions that share a lock.
type Holder struct {
	Epoch int64 `json:"e"`
	Token int64 `json:"t"`
	Since int64 `json:"s"`           // Unix milliseconds
	Place int   `json:"p,omitempty"` // of the entity in the holder's list, see Places; 0 if unknown
}

// MaxHolders bounds the executions that share one lock; others wait.
const MaxHolders = 64

// LockRequest is the request of an execution to take or join a lock.
type LockRequest struct {
	Execution string
	Epoch     int64
	Place     int // of the entity in the execution's list
	Now       time.Time
	Recent    RecentHolders // recent holders to store with a take or a share
}

// JoinConditions is what an execution that joins a shared lock has read, and what must still hold
// when it joins.
type JoinConditions struct {
	Age          string           // of the execution: only older reservations block it, and none if it is empty
	VoidReserver string           // a reserver whose reservation was read as void
	DeadHolders  map[string]int64 // holders that were read as no longer holding the lock, with their epochs in the item
	Limit        int              // number of holders allowed afterwards, including dead ones; 0 for MaxHolders
}

// MaxHolders returns how many holders are allowed after a join.
func (j JoinConditions) MaxHolders() int {
	if j.Limit > 0 {
		return min(j.Limit, MaxHolders)
	}
	return MaxHolders
}

// Reservation says which execution gets a lock next. Age is that of its outermost ancestor.
type Reservation struct {
	Execution string
	Age       string
}

// Holds reports whether the execution holds the lock of the entity at a place, taken at an epoch.
// The states that hold nothing are a closed list: a state that this binary does not know counts as
// holding. If the place is unknown (0), the entity counts as kept.
func (o OwnerStatus) Holds(epoch int64, place int) bool {
	return o.Epoch == epoch && statemachines.HoldsLocks(o.State) && (o.Kept == nil || place == 0 && o.Kept.Len() > 0 || o.Kept.Contains(place))
}

// NeedsPerson reports whether the execution keeps its locks until an operator has looked at it.
func (o OwnerStatus) NeedsPerson() bool {
	return o.State == statemachines.ExecutionFailedUnsafe || o.State == statemachines.ExecutionCancelled
}

// Reserves reports whether the reservations of the execution are valid. They are valid until it has
// its locks, unless it waits for an execution that waits for an operator. After that it either
// holds what it had reserved or no longer wants it, so a leftover reservation does not become valid
// again when an operator retries it. An execution that does not exist reserves nothing. The states
// in which reservations are void are a closed list, too.
func (o OwnerStatus) Reserves() bool {
	switch {
	case o.State == statemachines.ExecutionLocking:
		return true
	case o.AwaitsPerson:
		return false
	case statemachines.HoldsLocks(o.State):
		return !slices.Contains(statemachines.ExecutionStates(), o.State)
	}
	return o.State != "" && !statemachines.Acknowledged(o.State)
}

// Older reports whether age a is that of an older execution than age b. Ages are ids of executions.
func Older(a, b string) bool { return a < b }

// HolderOf returns the entry of the execution if it holds the lock at the epoch, as its owner or as
// one of its holders.
func (l Lock) HolderOf(execution string, epoch int64) (Holder, bool) {
	if h, ok := l.Holders[execution]; ok && h.Epoch == epoch {
		return h, true
	}
	if l.Owner == execution && l.OwnerEpoch == epoch && execution != "" {
		return Holder{Epoch: epoch, Token: l.Token, Since: l.Since, Place: l.Place}, true
	}
	return Holder{}, false
}

// HeldSince returns when the execution took or joined the lock; zero if it does not hold it.
func (l Lock) HeldSince(execution string) time.Time {
	since := int64(0)
	if h, ok := l.Holders[execution]; ok {
		since = h.Since
	} else if l.Owner == execution {
		since = l.Since
	}
	if since == 0 {
		return time.Time{}
	}
	return time.UnixMilli(since).UTC()
}

// OwnerStatus is the part of an execution that decides whether its locks are held.
type OwnerStatus struct {
	State    statemachines.ExecutionState
	Epoch    int64
	Kept     *Places
	Narrowed int64

	// AwaitsPerson means that it waits for a lock whose holder waits for an operator.
	AwaitsPerson bool

	// FullWaiterSet are its waiters if their set is full, so that registering with it changes
	// nothing; nil as long as there is room.
	FullWaiterSet []string
}

// IsWaiterSetFull reports whether no other waiter can be registered.
func (o OwnerStatus) IsWaiterSetFull() bool { return len(o.FullWaiterSet) > 0 }

// RejectsWaiter reports whether an execution is not in the waiter set, and has no room in it.
func (o OwnerStatus) RejectsWaiter(waiter string) bool {
	return o.IsWaiterSetFull() && !slices.Contains(o.FullWaiterSet, waiter)
}

// WithWaiters returns the status with a set of waiters, which is full with as many as limit.
func (o OwnerStatus) WithWaiters(waiters []string, limit int) OwnerStatus {
	if o.FullWaiterSet = nil; len(waiters) >= limit {
		o.FullWaiterSet = waiters
	}
	return o
}

// OwnerStatus returns the part of x that decides whether its locks are held.
func (x *Execution) OwnerStatus() OwnerStatus {
	status := OwnerStatus{State: x.State, Epoch: x.Epoch, Kept: x.Kept, Narrowed: x.Narrowed, AwaitsPerson: x.BlockedBy != nil && x.BlockedBy.NeedsPerson}
	return status.WithWaiters(x.Waiters, MaxWaiters)
}
