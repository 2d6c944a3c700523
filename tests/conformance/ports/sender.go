package ports

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// SenderImplementation is a sender with a view of what has arrived.
type SenderImplementation struct {
	Sender port.Sender

	// Wakeups and Packs (of one pool) return what has arrived since the last call,
	// without delayed messages. MakePool creates a pool's queue.
	Wakeups  func() []workflow.Wakeup
	Packs    func(pool string) []*workflow.PackMessage
	MakePool func(pool string)

	// Elapse lets time pass, real or simulated.
	Elapse func(d time.Duration)
}

// Sender checks a port.Sender, and with it a worker.Sender.
func Sender(t *testing.T, open func(t *testing.T) SenderImplementation) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	message := func(pool string, lane, size int) *workflow.PackMessage {
		return &workflow.PackMessage{
			Key:      workflow.PackKey{Tenant: "acme", Execution: newID(), StepRunOrdinal: 1, StepRunSeq: 1, Lane: lane, Attempt: 1},
			Work:     workflow.Work{Kind: workflow.JobExecute, Block: "fleet/upgrade:1.0.0", Step: "upgrade", Pool: pool, Timeout: workflow.Duration(30 * time.Second), Lanes: 50},
			Jobs:     []workflow.JobInput{{Index: lane, Entity: &workflow.EntityKey{Type: "device", ID: "a"}, Attributes: json.RawMessage(`"` + incompressible(size) + `"`), Token: 4}},
			NotAfter: baseTime.Add(24 * time.Hour),
			Chain:    []workflow.LaneJobs{{Lane: lane + 1, Jobs: []workflow.JobInput{{Index: lane + 1}}}},
			ChainCut: 9,
			Cost:     workflow.Cost{WriteUnits: map[string]float64{"jobs": 1}},
		}
	}
	// receivePacks polls until n packs have arrived, 3000 times at most.
	receivePacks := func(w SenderImplementation, pool string, n int) map[string]*workflow.PackMessage {
		got := map[string]*workflow.PackMessage{}
		for range 3000 {
			for _, m := range w.Packs(pool) {
				got[m.Key.String()] = m
			}
			if len(got) >= n {
				break
			}
			w.Elapse(10 * time.Millisecond)
		}
		return got
	}

	t.Run("packs arrive unchanged in the queue of their pool", func(t *testing.T) {
		w := open(t)
		w.MakePool("p1")
		w.MakePool("p2")
		w.MakePool("p2@eu") // that of a region is another one
		var all []*workflow.PackMessage
		for i := range 33 {
			all = append(all, message(fmt.Sprintf("p%d", 1+i%2), i, 10))
		}
		all = append(all, message("p1", 40, 900<<10), message("p1", 41, 100<<10), message("p1", 42, 500<<10), message("p2", 43, 900<<10), message("p2@eu", 44, 10))
		failed, err := w.Sender.SendPacks(ctx, baseTime, all)
		if err != nil || len(failed) != 0 {
			t.Fatalf("failed %v: %v", failed, err)
		}
		got := map[string]map[string]*workflow.PackMessage{"p1": receivePacks(w, "p1", 20), "p2": receivePacks(w, "p2", 17), "p2@eu": receivePacks(w, "p2@eu", 1)}
		for _, m := range all {
			if diff := cmp.Diff(m, got[m.Work.Pool][m.Key.String()], compareRawJSON); diff != "" {
				t.Errorf("the pack of lane %d is missing or changed", m.Key.Lane)
			}
		}
	})
	t.Run("a pool without a queue is not an error", func(t *testing.T) {
		w := open(t)
		w.MakePool("p1")
		withQueue, withoutQueue := message("p1", 0, 10), message("none", 1, 10)
		failed, err := w.Sender.SendPacks(ctx, baseTime, []*workflow.PackMessage{withoutQueue, withQueue})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]workflow.PackKey{withoutQueue.Key}, failed); diff != "" {
			t.Error(diff)
		}
		if len(receivePacks(w, "p1", 1)) != 1 {
			t.Error("the other pool's pack did not arrive")
		}
		w.MakePool("none")
		failed, err = w.Sender.SendPacks(ctx, baseTime.Add(time.Minute), []*workflow.PackMessage{withoutQueue})
		if err != nil || len(failed) != 0 {
			t.Errorf("after the queue was created: failed %v: %v", failed, err)
		}
	})
	t.Run("a pack too large for a message fails alone", func(t *testing.T) {
		w := open(t)
		w.MakePool("p1")
		huge, small := message("p1", 0, 2<<20), message("p1", 1, 10)
		failed, err := w.Sender.SendPacks(ctx, baseTime, []*workflow.PackMessage{huge, small})
		if !workflow.Is(err, workflow.CodeTooLarge) {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]workflow.PackKey{huge.Key}, failed); diff != "" {
			t.Error(diff)
		}
		if len(receivePacks(w, "p1", 1)) != 1 {
			t.Error("the other pack did not arrive")
		}
	})
	t.Run("packs do not arrive before NotBefore", func(t *testing.T) {
		w := open(t)
		w.MakePool("p1")
		soon, later := message("p1", 0, 10), message("p1", 1, 10)
		soon.NotBefore, later.NotBefore = baseTime.Add(-time.Hour), baseTime.Add(200*time.Millisecond)
		if failed, err := w.Sender.SendPacks(ctx, baseTime, []*workflow.PackMessage{later, soon}); err != nil || len(failed) != 0 {
			t.Fatalf("failed %v: %v", failed, err)
		}
		first := receivePacks(w, "p1", 1)
		if len(first) != 1 || first[soon.Key.String()] == nil {
			t.Fatalf("first received %v", first)
		}
		if second := receivePacks(w, "p1", 1); second[later.Key.String()] == nil {
			t.Errorf("then received %v", second)
		}
		far := message("p1", 2, 10)
		far.NotBefore = baseTime.Add(48 * time.Hour)
		if failed, err := w.Sender.SendPacks(ctx, baseTime, []*workflow.PackMessage{far}); err != nil || len(failed) != 0 {
			t.Errorf("two days ahead: failed %v: %v", failed, err)
		}
		if early := w.Packs("p1"); len(early) != 0 {
			t.Error("a pack of two days ahead arrived at once")
		}
	})
	t.Run("wake-ups arrive", func(t *testing.T) {
		w := open(t)
		if err := w.Sender.SendWakeups(ctx, 0); err != nil {
			t.Fatal(err)
		}
		want := map[string]workflow.Wakeup{}
		var wakeups []workflow.Wakeup
		for lane := range 23 {
			l := workflow.Wakeup{Tenant: "acme", Execution: newID(), Reason: "test", Lane: &lane, Cost: workflow.Cost{QueueRequests: 0.5}}
			wakeups = append(wakeups, l)
			want[l.Execution] = l
		}
		if err := w.Sender.SendWakeups(ctx, 0, wakeups...); err != nil {
			t.Fatal(err)
		}
		got := map[string]workflow.Wakeup{}
		for range 200 {
			for _, l := range w.Wakeups() {
				got[l.Execution] = l
			}
			if len(got) == len(want) {
				break
			}
			w.Elapse(10 * time.Millisecond)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := w.Sender.SendWakeups(ctx, time.Hour, wakeups[0]); err != nil {
			t.Fatal(err)
		}
		if early := w.Wakeups(); len(early) != 0 {
			t.Errorf("a wake-up of one hour ahead arrived at once: %v", early)
		}
	})
	t.Run("queued wake-ups are counted", func(t *testing.T) {
		w := open(t)
		before, err := w.Sender.QueuedWakeups(ctx)
		if err != nil {
			t.Fatal(err)
		}
		one := workflow.Wakeup{Tenant: "acme", Execution: newID(), Reason: "test"}
		if err := w.Sender.SendWakeups(ctx, 0, one, one, one); err != nil {
			t.Fatal(err)
		}
		if err := w.Sender.SendWakeups(ctx, time.Hour, one); err != nil {
			t.Fatal(err)
		}
		if n, err := w.Sender.QueuedWakeups(ctx); err != nil || n != before+3 {
			t.Errorf("%d wake-ups are queued, before %d: %v", n, before, err)
		}
	})
}
