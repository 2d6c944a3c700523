package workflow

import "strings"

// slotType is the type of the entities that stand for the executions of a workflow that may be live at
// the same time. No entity of the inventory has such a type.
const slotType = "~run"

// MaxConcurrency is the largest limit of executions that are live at the same time: each of them is
// asked, and registered with, by those that wait.
const MaxConcurrency = 32

// MaxConcurrencyKey is the longest key of such a limit, in bytes.
const MaxConcurrencyKey = 128

// SlotKey names what the executions of a workflow share of which only so many may be live at the same
// time: all of them, or those with the key.
func SlotKey(fullName, key string) EntityKey {
	id := strings.ReplaceAll(fullName, "/", ".")
	if key != "" {
		id += "." + key
	}
	return EntityKey{Type: slotType, ID: id}
}

// IsSlot reports whether the key names such a limit and no entity.
func (k EntityKey) IsSlot() bool { return k.Type == slotType }

// HoldsEntity is Holds for an entity or a slot. A slot is held for as long as the execution holds
// anything at the epoch, whatever it has released since: acknowledging or unlocking it gives it back.
func (o OwnerStatus) HoldsEntity(key EntityKey, epoch int64, place int) bool {
	if key.IsSlot() {
		o.Kept = nil
	}
	return o.Holds(epoch, place)
}

// Slot is a limit that an execution takes part in.
type Slot struct {
	Key   EntityKey
	Limit int
}

// Holders are the executions that block an execution, all of them: one, or those that are live where
// a limit has no place left.
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

// SlotHolder is one of the executions that are live where a limit has no place left.
type SlotHolder struct {
	Execution string `json:"execution"`
	Epoch     int64  `json:"epoch"`
	Narrowed  int64  `json:"narrowed,omitempty"`
}
