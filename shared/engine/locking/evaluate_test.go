package locking

import (
	"fmt"
	"maps"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestRequest_Evaluate goes through what a lock item can mean. "b" asks at epoch 3; "a" is
// older, "c" and "d" are younger.
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
	fullLock, fullHeads := workflow.Lock{Mode: workflow.LockShared, Holders: map[string]workflow.Holder{}}, map[string]workflow.OwnerStatus{}
	for i := range workflow.MaxHolders {
		id := fmt.Sprintf("x%02d", i)
		fullLock.Holders[id], fullHeads[id] = workflow.Holder{Epoch: 1}, running(1)
	}
	for name, test := range map[string]struct {
		lock    workflow.Lock
		heads   map[string]workflow.OwnerStatus
		mode    workflow.LockMode
		passes  bool
		dead    map[string]int64
		verdict lockStatus
		by      string
		void    string
	}{
		"nobody ever had it": {},
		"mine":               {lock: workflow.Lock{Owner: "b", OwnerEpoch: 3}, verdict: lockHeld},
		"mine, whoever has reserved": {
			lock: workflow.Lock{Owner: "b", OwnerEpoch: 3, Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, verdict: lockHeld,
		},
		"mine of an earlier epoch is free":        {lock: workflow.Lock{Owner: "b", OwnerEpoch: 2}},
		"mine of a later epoch: I am stale":       {lock: workflow.Lock{Owner: "b", OwnerEpoch: 4}, verdict: lockStale},
		"its owner does not exist":                {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": {}}},
		"its owner has ended":                     {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": ended(1)}},
		"its owner has let go and locks anew":     {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(2)}},
		"its owner was read older than the lock":  {lock: workflow.Lock{Owner: "c", OwnerEpoch: 2}, heads: map[string]workflow.OwnerStatus{"c": ended(1)}, verdict: lockUncertain},
		"held":                                    {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(1)}, verdict: lockConflict, by: "c"},
		"held by a run in a state of the future":  {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": {State: "HIBERNATING", Epoch: 1}}, verdict: lockConflict, by: "c"},
		"reserved by an older run":                {lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, verdict: lockConflict, by: "a"},
		"reserved by a younger run":               {lock: workflow.Lock{Reserver: "c", ReserverAge: "c"}, heads: map[string]workflow.OwnerStatus{"c": waiting(1)}},
		"reserved by me":                          {lock: workflow.Lock{Reserver: "b", ReserverAge: "b"}},
		"reserved by an older run that is over":   {lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": ended(1)}, void: "a"},
		"reserved by a younger run that is over":  {lock: workflow.Lock{Reserver: "c", ReserverAge: "c"}, heads: map[string]workflow.OwnerStatus{"c": {}}, void: "c"},
		"held, and reserved by a run that's over": {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": ended(1), "d": running(1)}, verdict: lockConflict, by: "d", void: "a"},
		"free again, reserved by an older run":    {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1), "d": ended(1)}, verdict: lockConflict, by: "a"},
		"reserved by an older run that locks": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: sm.ExecutionLocking}}, verdict: lockConflict, by: "a",
		},
		"reserved by an older run that has its locks": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": running(4)}, void: "a",
		},
		"reserved by an older run that an operator keeps": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: sm.ExecutionFailedUnsafe}}, void: "a",
		},
		"reserved by an older run in a state of the future": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": {State: "HIBERNATING"}}, verdict: lockConflict, by: "a",
		},
		"reserved by a younger run of an older root": {
			lock: workflow.Lock{Reserver: "d", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"d": waiting(1)}, verdict: lockConflict, by: "d",
		},
		"reserved by an older run of a younger root": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "c"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)},
		},
		"reserved by an older run, while another waits for me": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "a"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, passes: true,
		},
		"held, while another waits for me": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(1)}, passes: true, verdict: lockConflict, by: "c",
		},
		"reserved by a run of my own root": {
			lock: workflow.Lock{Reserver: "a", ReserverAge: "b"}, heads: map[string]workflow.OwnerStatus{"a": waiting(1)},
		},
		"shared with me": {lock: sharedLock("b", 3, "c", 1), verdict: lockHeld},
		"shared with me at a later epoch: I am stale": {lock: sharedLock("b", 4, "c", 1), verdict: lockStale},
		"shared by others": {
			lock: sharedLock("b", 2, "c", 1, "d", 1), heads: map[string]workflow.OwnerStatus{"c": ended(1), "d": running(1)}, verdict: lockConflict, by: "d", dead: map[string]int64{"c": 1},
		},
		"shared by others, the oldest is in the way": {
			lock: sharedLock("c", 1, "a", 1), heads: map[string]workflow.OwnerStatus{"a": running(1), "c": running(1)}, verdict: lockConflict, by: "a",
		},
		"shared by others that have all let go": {
			lock: sharedLock("c", 1, "d", 2), heads: map[string]workflow.OwnerStatus{"c": {}, "d": running(3)}, dead: map[string]int64{"c": 1, "d": 2},
		},
		"shared by one who was read older than the lock": {
			lock: sharedLock("c", 2), heads: map[string]workflow.OwnerStatus{"c": running(1)}, verdict: lockUncertain,
		},
		"shared by one who was not read": {lock: sharedLock("c", 2), verdict: lockUncertain},
		"shared by one who holds and one who was read older": {
			lock: sharedLock("c", 2, "d", 1), heads: map[string]workflow.OwnerStatus{"c": running(1), "d": running(1)}, verdict: lockConflict, by: "d",
		},
		"shared by others, to share": {
			mode: workflow.LockShared, lock: sharedLock("c", 1, "d", 1), heads: map[string]workflow.OwnerStatus{"c": ended(1), "d": running(1)}, dead: map[string]int64{"c": 1},
		},
		"shared by others who were not read, to share": {mode: workflow.LockShared, lock: sharedLock("c", 1, "d", 1)},
		"shared by others, reserved by an older run, to share": {
			mode: workflow.LockShared, lock: withReservation(sharedLock("c", 1), "a"), heads: map[string]workflow.OwnerStatus{"a": waiting(1)}, verdict: lockConflict, by: "a",
		},
		"held by one, to share": {
			mode: workflow.LockShared, lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.OwnerStatus{"c": running(1)}, verdict: lockConflict, by: "c",
		},
		"shared by as many as may be": {mode: workflow.LockShared, lock: fullLock, heads: fullHeads, verdict: lockConflict, by: "x00"},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Request{Execution: "b", Epoch: 3, Age: "b", Mode: test.mode, IgnoreReservations: test.passes}).evaluate(test.lock, test.heads)
			if got.status != test.verdict || got.blockedBy.Execution != test.by || got.voidReserver != test.void || !maps.Equal(got.deadHolders, test.dead) {
				t.Errorf("judged %+v, want verdict %d by %q void %q dead %v", got, test.verdict, test.by, test.void, test.dead)
			}
		})
	}
}

// sharedLock is a lock with holders at epochs.
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
