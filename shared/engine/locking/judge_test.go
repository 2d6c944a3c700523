package locking

import (
	"fmt"
	"maps"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestJudge goes through what a lock item can mean. "b" asks at epoch 3; "a" is
// older, "c" and "d" are younger.
func TestJudge(t *testing.T) {
	running := func(epoch int64) workflow.Head { return workflow.Head{State: sm.ExecutionRunning, Epoch: epoch} }
	waiting := func(epoch int64) workflow.Head {
		return workflow.Head{State: sm.ExecutionScheduled, Epoch: epoch}
	}
	ended := func(epoch int64) workflow.Head {
		return workflow.Head{State: sm.ExecutionCompletedAck, Epoch: epoch}
	}
	crowd, crowded := workflow.Lock{Mode: workflow.LockShared, Holders: map[string]workflow.Holder{}}, map[string]workflow.Head{}
	for i := range workflow.MaxHolders {
		id := fmt.Sprintf("x%02d", i)
		crowd.Holders[id], crowded[id] = workflow.Holder{Epoch: 1}, running(1)
	}
	for name, test := range map[string]struct {
		lock    workflow.Lock
		heads   map[string]workflow.Head
		mode    workflow.LockMode
		passes  bool
		dead    map[string]int64
		verdict verdict
		by      string
		void    string
	}{
		"nobody ever had it": {},
		"mine":               {lock: workflow.Lock{Owner: "b", OwnerEpoch: 3}, verdict: mine},
		"mine, whoever has reserved": {
			lock: workflow.Lock{Owner: "b", OwnerEpoch: 3, Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": waiting(1)}, verdict: mine,
		},
		"mine of an earlier epoch is free":        {lock: workflow.Lock{Owner: "b", OwnerEpoch: 2}},
		"mine of a later epoch: I am stale":       {lock: workflow.Lock{Owner: "b", OwnerEpoch: 4}, verdict: stale},
		"its owner does not exist":                {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": {}}},
		"its owner has ended":                     {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": ended(1)}},
		"its owner has let go and locks anew":     {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": running(2)}},
		"its owner was read older than the lock":  {lock: workflow.Lock{Owner: "c", OwnerEpoch: 2}, heads: map[string]workflow.Head{"c": ended(1)}, verdict: unsure},
		"held":                                    {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": running(1)}, verdict: conflict, by: "c"},
		"held by a run in a state of the future":  {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": {State: "HIBERNATING", Epoch: 1}}, verdict: conflict, by: "c"},
		"reserved by an older run":                {lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": waiting(1)}, verdict: conflict, by: "a"},
		"reserved by a younger run":               {lock: workflow.Lock{Res: "c", ResAge: "c"}, heads: map[string]workflow.Head{"c": waiting(1)}},
		"reserved by me":                          {lock: workflow.Lock{Res: "b", ResAge: "b"}},
		"reserved by an older run that is over":   {lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": ended(1)}, void: "a"},
		"reserved by a younger run that is over":  {lock: workflow.Lock{Res: "c", ResAge: "c"}, heads: map[string]workflow.Head{"c": {}}, void: "c"},
		"held, and reserved by a run that's over": {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": ended(1), "d": running(1)}, verdict: conflict, by: "d", void: "a"},
		"free again, reserved by an older run":    {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": waiting(1), "d": ended(1)}, verdict: conflict, by: "a"},
		"reserved by an older run that locks": {
			lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": {State: sm.ExecutionLocking}}, verdict: conflict, by: "a",
		},
		"reserved by an older run that has its locks": {
			lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": running(4)}, void: "a",
		},
		"reserved by an older run that an operator keeps": {
			lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": {State: sm.ExecutionFailedUnsafe}}, void: "a",
		},
		"reserved by an older run in a state of the future": {
			lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": {State: "HIBERNATING"}}, verdict: conflict, by: "a",
		},
		"reserved by a younger run of an older root": {
			lock: workflow.Lock{Res: "d", ResAge: "a"}, heads: map[string]workflow.Head{"d": waiting(1)}, verdict: conflict, by: "d",
		},
		"reserved by an older run of a younger root": {
			lock: workflow.Lock{Res: "a", ResAge: "c"}, heads: map[string]workflow.Head{"a": waiting(1)},
		},
		"reserved by an older run, while another waits for me": {
			lock: workflow.Lock{Res: "a", ResAge: "a"}, heads: map[string]workflow.Head{"a": waiting(1)}, passes: true,
		},
		"held, while another waits for me": {
			lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": running(1)}, passes: true, verdict: conflict, by: "c",
		},
		"reserved by a run of my own root": {
			lock: workflow.Lock{Res: "a", ResAge: "b"}, heads: map[string]workflow.Head{"a": waiting(1)},
		},
		"shared with me": {lock: shared("b", 3, "c", 1), verdict: mine},
		"shared with me at a later epoch: I am stale": {lock: shared("b", 4, "c", 1), verdict: stale},
		"shared by others": {
			lock: shared("b", 2, "c", 1, "d", 1), heads: map[string]workflow.Head{"c": ended(1), "d": running(1)}, verdict: conflict, by: "d", dead: map[string]int64{"c": 1},
		},
		"shared by others, the oldest is in the way": {
			lock: shared("c", 1, "a", 1), heads: map[string]workflow.Head{"a": running(1), "c": running(1)}, verdict: conflict, by: "a",
		},
		"shared by others that have all let go": {
			lock: shared("c", 1, "d", 2), heads: map[string]workflow.Head{"c": {}, "d": running(3)}, dead: map[string]int64{"c": 1, "d": 2},
		},
		"shared by one who was read older than the lock": {
			lock: shared("c", 2), heads: map[string]workflow.Head{"c": running(1)}, verdict: unsure,
		},
		"shared by one who was not read": {lock: shared("c", 2), verdict: unsure},
		"shared by one who holds and one who was read older": {
			lock: shared("c", 2, "d", 1), heads: map[string]workflow.Head{"c": running(1), "d": running(1)}, verdict: conflict, by: "d",
		},
		"shared by others, to share": {
			mode: workflow.LockShared, lock: shared("c", 1, "d", 1), heads: map[string]workflow.Head{"c": ended(1), "d": running(1)}, dead: map[string]int64{"c": 1},
		},
		"shared by others who were not read, to share": {mode: workflow.LockShared, lock: shared("c", 1, "d", 1)},
		"shared by others, reserved by an older run, to share": {
			mode: workflow.LockShared, lock: reserved(shared("c", 1), "a"), heads: map[string]workflow.Head{"a": waiting(1)}, verdict: conflict, by: "a",
		},
		"held by one, to share": {
			mode: workflow.LockShared, lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": running(1)}, verdict: conflict, by: "c",
		},
		"shared by as many as may be": {mode: workflow.LockShared, lock: crowd, heads: crowded, verdict: conflict, by: "x00"},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Ask{Execution: "b", Epoch: 3, Age: "b", Mode: test.mode, Passes: test.passes}).judge(test.lock, test.heads)
			if got.verdict != test.verdict || got.by.Execution != test.by || got.void != test.void || !maps.Equal(got.dead, test.dead) {
				t.Errorf("judged %+v, want verdict %d by %q void %q dead %v", got, test.verdict, test.by, test.void, test.dead)
			}
		})
	}
}

// shared is a lock with holders at epochs.
func shared(holders ...any) workflow.Lock {
	l := workflow.Lock{Mode: workflow.LockShared, Holders: map[string]workflow.Holder{}}
	for i := 0; i < len(holders); i += 2 {
		l.Holders[holders[i].(string)] = workflow.Holder{Epoch: int64(holders[i+1].(int))}
	}
	return l
}

func reserved(l workflow.Lock, by string) workflow.Lock {
	l.Res, l.ResAge = by, by
	return l
}
