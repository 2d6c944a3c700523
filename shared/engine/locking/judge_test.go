package locking

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestJudge goes through what a lock item can mean. "b" asks at epoch 3; "a" is
// older, "c" and "d" are younger.
func TestJudge(t *testing.T) {
	running := func(epoch int64) workflow.Head { return workflow.Head{State: sm.ExecutionRunning, Epoch: epoch} }
	ended := func(epoch int64) workflow.Head {
		return workflow.Head{State: sm.ExecutionCompletedAck, Epoch: epoch}
	}
	for name, test := range map[string]struct {
		lock    workflow.Lock
		heads   map[string]workflow.Head
		verdict verdict
		by      string
		over    string
	}{
		"nobody ever had it": {},
		"mine":               {lock: workflow.Lock{Owner: "b", OwnerEpoch: 3}, verdict: mine},
		"mine, whoever has reserved": {
			lock: workflow.Lock{Owner: "b", OwnerEpoch: 3, Res: "a"}, heads: map[string]workflow.Head{"a": running(1)}, verdict: mine,
		},
		"mine of an earlier epoch is free":        {lock: workflow.Lock{Owner: "b", OwnerEpoch: 2}},
		"mine of a later epoch: I am stale":       {lock: workflow.Lock{Owner: "b", OwnerEpoch: 4}, verdict: stale},
		"its owner does not exist":                {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": {}}},
		"its owner has ended":                     {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": ended(1)}},
		"its owner has let go and locks anew":     {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": running(2)}},
		"its owner was read older than the lock":  {lock: workflow.Lock{Owner: "c", OwnerEpoch: 2}, heads: map[string]workflow.Head{"c": ended(1)}, verdict: unsure},
		"held":                                    {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": running(1)}, verdict: conflict, by: "c"},
		"held by a run in a state of the future":  {lock: workflow.Lock{Owner: "c", OwnerEpoch: 1}, heads: map[string]workflow.Head{"c": {State: "HIBERNATING", Epoch: 1}}, verdict: conflict, by: "c"},
		"reserved by an older run":                {lock: workflow.Lock{Res: "a"}, heads: map[string]workflow.Head{"a": running(1)}, verdict: conflict, by: "a"},
		"reserved by a younger run":               {lock: workflow.Lock{Res: "c"}, heads: map[string]workflow.Head{"c": running(1)}},
		"reserved by me":                          {lock: workflow.Lock{Res: "b"}},
		"reserved by an older run that is over":   {lock: workflow.Lock{Res: "a"}, heads: map[string]workflow.Head{"a": ended(1)}, over: "a"},
		"reserved by a younger run that is over":  {lock: workflow.Lock{Res: "c"}, heads: map[string]workflow.Head{"c": {}}, over: "c"},
		"held, and reserved by a run that's over": {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Res: "a"}, heads: map[string]workflow.Head{"a": ended(1), "d": running(1)}, verdict: conflict, by: "d", over: "a"},
		"free again, reserved by an older run":    {lock: workflow.Lock{Owner: "d", OwnerEpoch: 1, Res: "a"}, heads: map[string]workflow.Head{"a": running(1), "d": ended(1)}, verdict: conflict, by: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(test.lock, "b", 3, test.heads)
			if got.verdict != test.verdict || got.by.Execution != test.by || got.over != test.over {
				t.Errorf("judged %+v, want verdict %d by %q over %q", got, test.verdict, test.by, test.over)
			}
		})
	}
}
