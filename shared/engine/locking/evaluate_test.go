package locking

import (
	"fmt"
	"maps"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestRequest_Evaluate covers what a lock item can mean to execution "b" at epoch 3.
// Execution "a" is older than "b"; "c" and "d" are younger.
func TestRequest_Evaluate(t *testing.T) {
	running := func(epoch int64) workflow.OwnerStatus {
		return workflow.OwnerStatus{State: sm.ExecutionRunning, Epoch: epoch}
	}
	waiting := func(epoch int64) workflow.OwnerStatus {
		return workflow.OwnerStatus{State: sm.ExecutionScheduled, Epoch: epoch}
	}
	ended := func(epoch int64) workflow.OwnerStatus {
		return workflow.OwnerStatus{State: sm.ExecutionCompletedAck, Epoch: epoch}
	}
	kept := func(narrowed int64, places ...int) workflow.OwnerStatus {
		set := workflow.NewPlaces(places...)
		return workflow.OwnerStatus{State: sm.ExecutionFailedUnsafe, Epoch: 1, Kept: &set, Narrowed: narrowed}
	}
	fullLock, fullHeads := workflow.Lock{Mode: workflow.LockShared, Holders: map[string]workflow.Holder{}}, map[string]workflow.OwnerStatus{}
	for i := range workflow.MaxHolders {
		id := fmt.Sprintf("x%02d", i)
		fullLock.Holders[id], fullHeads[id] = workflow.Holder{Epoch: 1}, running(1)
	}
	for name, test := range map[string]struct {
		lock               workflow.Lock
		heads              map[string]workflow.OwnerStatus
		mode               workflow.LockMode
		ignoreReservations bool
		dead               map[string]int64
		status             lockStatus
		by                 string
		void               string
		narrowed           int64
	}{
		"never locked": {},
		"own lock":     {lock: workflow.Lock{Owner: "b", OwnerEpoch: 3}, status: lockHeld},
		"own lock, reserved by another": {
			lock: workflow.Lock{Owner: "b", OwnerEpoch: 3, Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, status: lockHeld,
		},
		"own lock of an earlier epoch":                      {lock: workflow.Lock{Owner: "b", OwnerEpoch: 2}},
		"own lock of a later epoch":                         {lock: workflow.Lock{Owner: "b", OwnerEpoch: 4}, status: lockStale},
		"owner does not exist":                              {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": {}}},
		"owner has ended":                                   {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": ended(1)}},
		"owner has released and locked again":               {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(2)}},
		"owner read at an older epoch":                      {lock: workflow.Lock{Owner: "c", OwnerEpoch: 2}, heads: map[string]workflow.OwnerStatus{"c": ended(1)}, status: lockUncertain},
		"held":                                              {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(1)}, status: lockConflict, by: "c"},
		"held by an execution in an unknown state":          {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": {State: "HIBERNATING", Epoch: 1}}, status: lockConflict, by: "c"},
		"reserved by an older execution":                    {lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, status: lockConflict, by: "a"},
		"reserved by a younger execution":                   {lock: workflow.Lock{Reserver: "c", ReserverAge: "c"}, heads: map[string]workflow.OwnerStatus{"c": waiting(1)}},
		"own reservation":                                   {lock: workflow.Lock{Reserver: "b", ReserverAge: "b"}},
		"reserved by an older execution that has ended":     {lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": ended(1)}, void: "a"},
		"reserved by a younger execution that has ended":    {lock: workflow.Lock{Reserver: "c", ReserverAge: "c"}, heads: map[string]workflow.OwnerStatus{"c": {}}, void: "c"},
		"held, and reserved by an execution that has ended": {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": ended(1), "d": running(1)}, status: lockConflict, by: "d", void: "a"},
		"free again, reserved by an older execution":        {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1), "d": ended(1)}, status: lockConflict, by: "a"},
		"reserved by an older execution that is locking": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: sm.ExecutionLocking}}, status: lockConflict, by: "a",
		},
		"reserved by an older execution that has its locks": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": running(4)}, void: "a",
		},
		"reserved by an older execution that failed unsafely": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: sm.ExecutionFailedUnsafe}}, void: "a",
		},
		"reserved by an older execution in an unknown state": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: "HIBERNATING"}}, status: lockConflict, by: "a",
		},
		"reserved by a younger execution of an older root": {
			lock: workflow.Lock{Reserver: "d", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"d": waiting(1)}, status: lockConflict, by: "d",
		},
		"reserved by an older execution of a younger root": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "c"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)},
		},
		"reserved by an older execution, reservations ignored": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, ignoreReservations: true,
		},
		"held, reservations ignored": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(1)}, ignoreReservations: true, status: lockConflict, by: "c",
		},
		"reserved by an execution of the same root": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "b"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)},
		},
		"own shared lock":                  {lock: sharedLock("b", 3, "c", 1), status: lockHeld},
		"own shared lock of a later epoch": {lock: sharedLock("b", 4, "c", 1), status: lockStale},
		"shared by others": {
			lock: sharedLock("b", 2, "c", 1, "d", 1), heads: map[string]workflow.OwnerStatus{"c": ended(1), "d": running(1)}, status: lockConflict, by: "d", dead: map[string]int64{"c": 1},
		},
		"shared by others, blocked by the oldest": {
			lock: sharedLock("c", 1, "a", 1), heads: map[string]workflow.OwnerStatus{"a": running(1), "c": running(1)}, status: lockConflict, by: "a",
		},
		"shared by others that have all released": {
			lock: sharedLock("c", 1, "d", 2), heads: map[string]workflow.OwnerStatus{"c": {}, "d": running(3)}, dead: map[string]int64{"c": 1, "d": 2},
		},
		"shared by one that was read at an older epoch": {
			lock: sharedLock("c", 2), heads: map[string]workflow.OwnerStatus{"c": running(1)}, status: lockUncertain,
		},
		"shared by one that was not read": {lock: sharedLock("c", 2), status: lockUncertain},
		"shared by a holder and one that was read at an older epoch": {
			lock: sharedLock("c", 2, "d", 1), heads: map[string]workflow.OwnerStatus{"c": running(1), "d": running(1)}, status: lockConflict, by: "d",
		},
		"shared by others, shared request": {
			mode: workflow.LockShared, lock: sharedLock("c", 1, "d", 1), heads: map[string]workflow.OwnerStatus{"c": ended(1), "d": running(1)}, dead: map[string]int64{"c": 1},
		},
		"shared by others that were not read, shared request": {mode: workflow.LockShared, lock: sharedLock("c", 1, "d", 1)},
		"shared by others, reserved by an older execution, shared request": {
			mode: workflow.LockShared, lock: withReservation(sharedLock("c", 1), "a"), heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, status: lockConflict, by: "a",
		},
		"held exclusively, shared request": {
			mode: workflow.LockShared, lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(1)}, status: lockConflict, by: "c",
		},
		"kept": {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1, Place: 2}, heads: map[string]workflow.OwnerStatus{"c": kept(3, 2, 5)}, status: lockConflict, by: "c", narrowed: 3},
		"released, while the holder keeps others": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 1, Place: 3}, heads: map[string]workflow.OwnerStatus{"c": kept(3, 2, 5)},
		},
		"released by a holder that keeps nothing": {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1, Place: 3}, heads: map[string]workflow.OwnerStatus{"c": kept(1)}},
		"held by an execution that keeps others, at an unknown place": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": kept(1, 2)}, status: lockConflict, by: "c", narrowed: 1,
		},
		"kept by an execution that has locked again since": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 2, Place: 3}, heads: map[string]workflow.OwnerStatus{"c": kept(1, 3)}, status: lockUncertain,
		},
		"released at an earlier epoch, by an execution that has locked again since": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 2, Place: 3}, heads: map[string]workflow.OwnerStatus{"c": kept(1, 2)}, status: lockUncertain,
		},
		"shared by one that has released it and one that keeps it": {
			lock:  workflow.Lock{Mode: workflow.LockShared, Holders: map[string]workflow.Holder{"c": {Epoch: 1, Place: 2}, "d": {Epoch: 1, Place: 1}}},
			heads: map[string]workflow.OwnerStatus{"c": kept(1, 1), "d": kept(2, 1)}, status: lockConflict, by: "d", narrowed: 2, dead: map[string]int64{"c": 1},
		},
		"reserved by an older execution that waits for an operator": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: sm.ExecutionScheduled, AwaitsPerson: true}}, void: "a",
		},
		"shared by the maximum of holders, shared request": {mode: workflow.LockShared, lock: fullLock, heads: fullHeads, status: lockConflict, by: "x00"},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Request{Execution: "b", Epoch: 3, Age: "b", Mode: test.mode, IgnoreReservations: test.ignoreReservations}).evaluate(test.lock, test.heads)
			if got.status != test.status || got.blockedBy.Execution != test.by || got.voidReserver != test.void || got.blockedBy.Narrowed != test.narrowed || !maps.Equal(got.deadHolders, test.dead) {
				t.Errorf("got %+v, want status %d, blocked by %q, void reserver %q, dead holders %v", got, test.status, test.by, test.void, test.dead)
			}
		})
	}
}

// sharedLock is a lock whose arguments are pairs of a holder and its epoch.
func sharedLock(holders ...any) workflow.Lock {
	l := workflow.Lock{Mode: workflow.LockShared, Holders: map[string]workflow.Holder{}}
	for i := 0; i < len(holders); i += 2 {
		l.Holders[holders[i].(string)] = workflow.Holder{Epoch: int64(holders[i+1].(int))}
	}
	return l
}

func withReservation(l workflow.Lock, by string) workflow.Lock {
	l.Reserver, l.ReserverAge = by, by
	return l
}
