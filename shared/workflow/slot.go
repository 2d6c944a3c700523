package workflow

import "strings"

// slotType is the entity type that stands for a workflow's concurrency limit. No entity of the
// inventory has this type.
const slotType = "~run"

// MaxConcurrency is the largest concurrency limit: a lock has no more holders, and executions that
// wait must read and register with each live one.
const MaxConcurrency = MaxHolders

// MaxConcurrencyKey is the longest key of a concurrency limit, in bytes.
const MaxConcurrencyKey = 128

// SlotKey returns the key of a workflow's concurrency limit: for all its executions, or for those
// with the given key.
func SlotKey(fullName, key string) EntityKey {
	id := strings.ReplaceAll(fullName, "/", ".")
	if key != "" {
		id += "." + key
	}
	return EntityKey{Type: slotType, ID: id}
}

// IsSlot reports whether the key names a concurrency limit rather than an entity.
func (k EntityKey) IsSlot() bool { return k.Type == slotType }

// HoldsEntity works like Holds, for an entity or a slot. A slot is held as long as the execution
// holds anything at the epoch, whatever it has released since: acknowledging or unlocking the
// execution returns it.
func (o OwnerStatus) HoldsEntity(key EntityKey, epoch int64, place int) bool {
	if key.IsSlot() {
		o.Kept = nil
	}
	return o.Holds(epoch, place)
}

// Slot is a concurrency limit that applies to an execution.
type Slot struct {
	Key   EntityKey
	Limit int
}

// Holders returns all executions that block an execution: a single one, or the live ones when a
// concurrency limit is reached.
func (b BlockedBy) Holders() []BlockedBy {
	all := []BlockedBy{b}
	all[0].Others = nil
	for _, o := range b.Others {
		one := b
		one.Execution, one.Epoch, one.Narrowed, one.Place, one.Others = o.Execution, o.Epoch, o.Narrowed, 0, nil
		all = append(all, one)
	}
	return all
}

// SlotHolder is one of the live executions when a concurrency limit is reached.
type SlotHolder struct {
	Execution string `json:"execution"`
	Epoch     int64  `json:"epoch"`
	Narrowed  int64  `json:"narrowed,omitempty"`
}
