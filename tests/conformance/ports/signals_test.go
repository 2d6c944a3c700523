package ports_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A sender has looked among the consumed signals that have left the state item, and found
// nothing. Before it writes, a twin of its signal is accepted, consumed, and leaves the state
// item too. The write fails, and the sender looks again.
func TestDynamo_SignalWhileItsTwinIsForgotten(t *testing.T) {
	t.Parallel()
	slow := &faultInjector{}
	v, sender, ctx := openView(&faultInjector{}, nil), openView(slow, nil), contextWithTimeout(t, time.Minute)
	x := newExecution("t"+uuid.NewString(), sm.ExecutionRunning)
	if ok, err := v.Store.Create(ctx, x); !ok || err != nil {
		t.Fatalf("created %v: %v", ok, err)
	}
	next := 0
	// pass sends so many signals, the first with the id if there is one, and consumes them.
	pass := func(id string, n int) {
		for range n {
			next++
			if id == "" {
				id = fmt.Sprint(next)
			}
			result, _, err := v.Store.SendSignal(ctx, x.Tenant, x.ID, workflow.Signal{ID: id, Name: "ping"})
			if err != nil || result != workflow.SignalAccepted {
				t.Errorf("signal %s: %s, %v", id, result, err)
			}
			id = ""
		}
		read, err := v.Store.Load(ctx, x.Tenant, x.ID)
		if err != nil {
			t.Error(err)
			return
		}
		var ids []string
		for _, s := range read.Signals {
			ids = append(ids, s.ID)
		}
		after := read.Clone()
		after.Version, after.Commit = read.Version+1, uuid.NewString()
		if _, ok, err := v.Store.Commit(ctx, read.Version, after, workflow.CommitOptions{Consumed: ids}); !ok || err != nil {
			t.Errorf("committed %v: %v", ok, err)
		}
	}
	pass("", 40)
	pass("", 40) // 16 have left the state item
	writes := 0
	slow.set(func(operation string) (error, bool) {
		if operation == "UpdateItem" {
			if writes++; writes == 2 {
				pass("twin", 1)
				pass("", 40)
				pass("", 40)
			}
		}
		return nil, true
	})
	result, _, err := sender.Store.SendSignal(ctx, x.Tenant, x.ID, workflow.Signal{ID: "twin", Name: "ping"})
	if err != nil || result != workflow.SignalDuplicate || writes < 2 {
		t.Errorf("after %d writes it is %s: %v", writes, result, err)
	}
}
