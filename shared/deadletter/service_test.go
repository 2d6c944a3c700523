package deadletter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fixture is a service with simulated queues.
type fixture struct {
	*testing.T
	*deadletter.Service
	now    time.Time
	queues map[string]*sim.DLQ
}

var ann = workflow.Caller{Tenant: "acme", Actor: "ann"}

type blocks []workflow.Block

func (b blocks) Blocks(_ context.Context, tenant string, page workflow.Page) (list workflow.List[workflow.Block], err error) {
	if tenant != ann.Tenant {
		return list, nil
	}
	at := len(page.Token) // one block a page
	list.Items = b[at : at+1]
	if at+1 < len(b) {
		list.NextToken = strings.Repeat("x", at+1)
	}
	return list, nil
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, now: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC), queues: map[string]*sim.DLQ{}}
	clock := f.clock
	random, faults := rand.New(rand.NewPCG(1, 2)), &sim.QueueFaults{Shuffle: true}
	for _, name := range []string{"lifecycle", "jobs-default", "jobs-edge"} {
		f.queues[name] = &sim.DLQ{Source: sim.NewQueue(clock, random, faults), DeadLetters: sim.NewQueue(clock, random, faults), Now: clock}
	}
	f.Service = &deadletter.Service{
		Blocks: blocks{{Name: "a", Pool: "edge"}, {Name: "b"}, {Name: "c", Pool: "nobody"}},
		Open: func(_ context.Context, name string) (deadletter.Queue, error) {
			if q := f.queues[name]; q != nil {
				return q, nil
			}
			return nil, nil
		},
		Decoder: deadletter.Decoder{Wakeup: decodeJSON[workflow.Wakeup], Pack: decodeJSON[*workflow.PackMessage], Announcement: decodeJSON[workflow.Announcement], Delivery: decodeJSON[*workflow.Delivery], BusEvent: decodeJSON[workflow.BusEvent]},
		Reasons: func(_ context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			if execution == "gone" || tenant != ann.Tenant {
				return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution")
			}
			return map[string]workflow.DeadLetter{"m1": {Reason: "unavailable: no"}}, nil
		},
		Now: clock, Log: slog.New(slog.DiscardHandler), Parallel: 1,
	}
	return f
}

func decodeJSON[T any](body string) (v T, err error) { return v, json.Unmarshal([]byte(body), &v) }

func (f *fixture) addDeadLetter(name, tenant, execution string) {
	f.Helper()
	key := workflow.StepRunKey{Tenant: tenant, Execution: execution, Ordinal: 1, Seq: 1}.Pack(0, 1)
	var v any = workflow.PackMessage{Key: key, Work: workflow.Work{Step: "go"}, Jobs: []workflow.JobInput{{Index: 4}, {Index: 5}}}
	if name == "lifecycle" {
		v = workflow.Wakeup{Tenant: tenant, Execution: execution}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	f.queues[name].AddDeadLetter(raw)
}

func (f *fixture) list(queue string, limit int) []views.DeadLetterQueue {
	f.Helper()
	all, err := f.DeadLetters(f.Context(), ann, queue, limit)
	if err != nil {
		f.Fatal(err)
	}
	return all
}

func (f *fixture) redrive(r views.RedriveRequest) views.RedriveView {
	f.Helper()
	v, err := f.Redrive(f.Context(), ann, r)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

// A list has only messages of the caller, with all details, and consumes none.
func TestService_ListDoesNotConsume(t *testing.T) {
	f := newFixture(t)
	f.addDeadLetter("jobs-edge", "acme", "x") // m1
	f.addDeadLetter("jobs-edge", "other", "y")
	f.addDeadLetter("jobs-edge", "acme", "gone")
	f.addDeadLetter("lifecycle", "acme", "x") // m1 there
	f.queues["jobs-edge"].AddDeadLetter([]byte("nonsense"))
	for round := 1; round <= 3; round++ {
		all := f.list("", 0)
		if len(all) == 7 && all[1].Queue == "events" && all[2].Queue == "hooks-out" && all[3].Queue == "hooks-in" {
			all = slices.Delete(all, 1, 4)
		}
		if len(all) != 4 || all[0].Queue != "lifecycle" || all[1].Queue != "jobs-default" || all[2].Queue != "jobs-edge" || all[3].Queue != "jobs-nobody" {
			t.Fatalf("%+v", all)
		}
		if all[0].Messages != 1 || all[1].Messages != 0 || all[2].Messages != 2 || !all[2].Complete || len(all[2].DeadLetters) != 2 {
			t.Fatalf("round %d: %+v", round, all)
		}
		if l := all[0].DeadLetters[0]; l.Step != nil || len(l.Jobs) != 0 || *l.Reason != "unavailable: no" {
			t.Errorf("%+v", l)
		}
		for _, l := range all[2].DeadLetters {
			if l.ReceiveCount != round || *l.Step != "go" || len(l.Jobs) != 2 || l.Jobs[1] != workflow.JobID(l.Execution, 1, 5, 1) || (l.Reason != nil) != (l.Execution == "x") {
				t.Errorf("round %d: %+v", round, l)
			}
		}
	}
	if one := f.list("jobs-edge", 1); len(one) != 1 || one[0].Messages != 2 || len(one[0].DeadLetters) != 1 {
		t.Errorf("%+v", one)
	}
	if n := f.queues["jobs-edge"].DeadLetters.Len(); n != 4 {
		t.Errorf("%d of 4 dead letters are left", n)
	}
	for _, unknown := range []string{"jobs-other", "nothing"} {
		if _, err := f.DeadLetters(t.Context(), ann, unknown, 0); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("%s: %v", unknown, err)
		}
		if _, err := f.Redrive(t.Context(), ann, views.RedriveRequest{Queue: unknown}); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

// Each pool has a queue in each region of the stage, whose dead letters are redriven with the others.
func TestService_RedrivesRegions(t *testing.T) {
	f := newFixture(t)
	f.Regions = []string{"asia", "eu"}
	f.queues["jobs-edge--eu"] = &sim.DLQ{Source: sim.NewQueue(f.clock, rand.New(rand.NewPCG(1, 2)), &sim.QueueFaults{}), DeadLetters: sim.NewQueue(f.clock, rand.New(rand.NewPCG(1, 2)), &sim.QueueFaults{}), Now: f.clock}
	f.addDeadLetter("jobs-edge--eu", "acme", "x")
	if v := f.redrive(views.RedriveRequest{}); v.Moved != 1 || !v.Complete || f.queues["jobs-edge--eu"].Source.Len() != 1 {
		t.Errorf("%+v", v)
	}
}

// A redrive moves only messages of the caller, up to the limit, and counts the remaining
// ones. Messages of another tenant stay in the dead-letter queue.
func TestService_RedriveMovesOnlyCallersMessages(t *testing.T) {
	f := newFixture(t)
	for i := range 30 {
		f.addDeadLetter("jobs-edge", "acme", fmt.Sprint("x", i))
		f.addDeadLetter("jobs-edge", "other", fmt.Sprint("y", i))
	}
	f.addDeadLetter("lifecycle", "acme", "x")
	v := f.redrive(views.RedriveRequest{Limit: 11})
	if v.Moved != 11 || v.Remaining != 20 || !v.Complete || len(v.Queues) != 7 || v.Queues[0].Moved != 1 || v.Queues[5].Moved != 10 {
		t.Fatalf("%+v", v)
	}
	if v = f.redrive(views.RedriveRequest{Queue: "jobs-edge"}); v.Moved != 20 || v.Remaining != 0 || !v.Complete {
		t.Fatalf("%+v", v)
	}
	if v = f.redrive(views.RedriveRequest{}); v.Moved != 0 || v.Remaining != 0 || !v.Complete {
		t.Errorf("%+v", v)
	}
	q := f.queues["jobs-edge"]
	if q.Source.Len() != 30 || q.DeadLetters.Len() != 30 || f.queues["lifecycle"].Source.Len() != 1 {
		t.Errorf("%d redriven, %d left", q.Source.Len(), q.DeadLetters.Len())
	}
	for m, ok := q.Source.Receive(time.Hour); ok; m, ok = q.Source.Receive(time.Hour) {
		if m.Pack().Key.Tenant != "acme" {
			t.Errorf("moved %s", m.Body)
		}
	}
	othersLeft := 0
	for _, ok := q.DeadLetters.Receive(time.Hour); ok; _, ok = q.DeadLetters.Receive(time.Hour) {
		othersLeft++
	}
	if othersLeft != 30 {
		t.Errorf("the other tenant sees %d of its 30 messages", othersLeft)
	}
}

// If another tenant has more messages than one call reads, further calls get past them.
// They are incomplete while messages of earlier calls are hidden. The other tenant's
// messages become visible again after a while.
func TestService_RedriveReachesPastOtherTenants(t *testing.T) {
	f := newFixture(t)
	q := f.queues["jobs-edge"]
	faultless := &sim.QueueFaults{}
	q.DeadLetters = sim.NewQueue(func() time.Time { return f.now }, rand.New(rand.NewPCG(1, 2)), faultless)
	for i := range 1200 {
		f.addDeadLetter("jobs-edge", "other", fmt.Sprint("y", i))
	}
	f.addDeadLetter("jobs-edge", "acme", "x")
	moved := 0
	for call := 1; call <= 3; call++ {
		v := f.redrive(views.RedriveRequest{Queue: "jobs-edge"})
		if moved += v.Moved; v.Complete {
			t.Errorf("call %d: %+v", call, v)
		}
	}
	if moved != 1 {
		t.Errorf("moved %d", moved)
	}
	f.now = f.now.Add(2 * time.Minute)
	othersLeft := 0
	for _, ok := q.DeadLetters.Receive(time.Hour); ok; _, ok = q.DeadLetters.Receive(time.Hour) {
		othersLeft++
	}
	if othersLeft != 1200 {
		t.Errorf("the other tenant sees %d of its 1200 messages", othersLeft)
	}
}

// Whatever fails, no message is lost: it is in its queue, in the dead-letter queue, or in
// both. Another call moves the remaining ones.
func TestService_FailuresLoseNoMessages(t *testing.T) {
	for seed := range uint64(200) {
		f := newFixture(t)
		random := rand.New(rand.NewPCG(seed, 9))
		q := f.queues["jobs-edge"]
		for i := range 25 {
			f.addDeadLetter("jobs-edge", "acme", fmt.Sprint("x", i))
		}
		q.InjectError = func(string) error {
			if random.IntN(10) == 0 {
				return errors.New("no")
			}
			return nil
		}
		reported := 0
		for range 3 {
			v, err := f.Redrive(t.Context(), ann, views.RedriveRequest{Queue: "jobs-edge", Limit: 12})
			if reported += v.Moved; err == nil && v.Moved > 12 {
				t.Fatalf("seed %d: %+v", seed, v)
			}
		}
		q.InjectError = nil
		reported += f.redrive(views.RedriveRequest{Queue: "jobs-edge"}).Moved
		seen := map[string]bool{}
		for m, ok := q.Source.Receive(time.Hour); ok; m, ok = q.Source.Receive(time.Hour) {
			seen[m.Pack().Key.Execution] = true
		}
		if len(seen) != 25 || q.DeadLetters.Len() != 0 || reported > 25 {
			t.Fatalf("seed %d: %d of 25 redriven, %d left, %d reported", seed, len(seen), q.DeadLetters.Len(), reported)
		}
	}
}

// Messages in flight to another receiver are neither listed nor moved. Neither a list nor a
// redrive reports an empty queue while messages are in flight.
func TestService_IncompleteWhileMessagesAreInFlight(t *testing.T) {
	f := newFixture(t)
	for i := range 15 {
		f.addDeadLetter("jobs-edge", "acme", fmt.Sprint("x", i))
	}
	q := f.queues["jobs-edge"]
	for _, inFlight := range []int{15, 10} {
		messages, err := q.Receive(t.Context(), inFlight, time.Minute)
		if err != nil || len(messages) != inFlight {
			t.Fatal(len(messages), err)
		}
		if all := f.list("jobs-edge", 0); all[0].Complete || all[0].Messages != 15-inFlight {
			t.Errorf("while %d are in flight: %+v", inFlight, all)
		}
		if v := f.redrive(views.RedriveRequest{Limit: 1}); v.Complete || v.Moved+v.Remaining != 15-inFlight {
			t.Errorf("while %d are in flight: %+v", inFlight, v)
		}
		if err := q.Release(t.Context(), messages); err != nil {
			t.Fatal(err)
		}
	}
	if v := f.redrive(views.RedriveRequest{}); !v.Complete || v.Moved != 14 || v.Remaining != 0 {
		t.Errorf("when no message is in flight: %+v", v)
	}
}

// The messages of those who observe belong to the tenant of their execution.
func TestService_AnnouncementsAndDeliveries(t *testing.T) {
	f := newFixture(t)
	clock := f.clock
	faults := &sim.QueueFaults{}
	for name, message := range map[string]func(tenant string) any{
		"events": func(tenant string) any { return workflow.Announcement{Tenant: tenant, Execution: "x"} },
		"hooks-out": func(tenant string) any {
			return workflow.Delivery{Tenant: tenant, Execution: "x", Subscription: "s", Events: []workflow.ObservedEvent{{Sequence: 1}}}
		},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		f.queues[name] = &sim.DLQ{Source: sim.NewQueue(clock, random, faults), DeadLetters: sim.NewQueue(clock, random, faults), Now: clock}
		for _, tenant := range []string{ann.Tenant, "other"} {
			raw, err := json.Marshal(message(tenant))
			if err != nil {
				t.Fatal(err)
			}
			f.queues[name].AddDeadLetter(raw)
		}
		if got := f.list(name, 10); len(got) != 1 || got[0].Messages != 1 || len(got[0].DeadLetters) != 1 || got[0].DeadLetters[0].Execution != "x" {
			t.Errorf("%s: %+v", name, got)
		}
		if v := f.redrive(views.RedriveRequest{Queue: name}); v.Moved != 1 || v.Remaining != 0 || f.queues[name].Source.Len() != 1 || f.queues[name].DeadLetters.Len() != 1 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// However slow the queues are, one call ends in time. Each queue gets a part of the time,
// and a queue without time left is reported as incomplete.
func TestService_OneDeadlineForAllQueues(t *testing.T) {
	for _, delay := range []time.Duration{2 * time.Second, 9 * time.Second, 20 * time.Second} {
		f := newFixture(t)
		for name, q := range f.queues {
			for i := range 100 {
				f.addDeadLetter(name, "acme", fmt.Sprint("x", i))
			}
			q.InjectError = func(call string) error {
				if call == "receive" {
					f.now = f.now.Add(delay)
				}
				return nil
			}
		}
		begun := f.now
		v := f.redrive(views.RedriveRequest{Limit: 500})
		if took := f.now.Sub(begun); took > 15*time.Second+delay {
			t.Errorf("receives of %s each: the call took %s", delay, took)
		}
		if len(v.Queues) != 7 || v.Complete || v.Moved == 0 || v.Queues[5].Complete || !v.Queues[6].Complete {
			t.Errorf("receives of %s each: %+v", delay, v)
		}
		if delay < 5*time.Second && (v.Queues[0].Moved == 0 || v.Queues[4].Moved == 0 || v.Queues[5].Moved == 0) {
			t.Errorf("not every queue was redriven: %+v", v)
		}
	}
}

// onePage lists all its blocks at once.
type onePage []workflow.Block

func (b onePage) Blocks(context.Context, string, workflow.Page) (list workflow.List[workflow.Block], err error) {
	list.Items = b
	return list, nil
}

// Where most pools have no queue in most regions, a call asks side by side which are there, once for each,
// and shares its limit and its time between those. Where that takes too long, it says so.
func TestService_AsksForQueuesOfRegionsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			takes    time.Duration
			complete bool
		}{"quick": {10 * time.Millisecond, true}, "slow": {2 * time.Second, false}} {
			f := newFixture(t)
			f.Now, f.Service.Parallel = time.Now, 16
			for i := range topology.MaxRegions {
				f.Regions = append(f.Regions, fmt.Sprint("r", i))
			}
			var many onePage
			for i := range 99 {
				many = append(many, workflow.Block{Name: "b", Pool: fmt.Sprint("p", i)})
			}
			f.Blocks = append(many, workflow.Block{Name: "z", Pool: "zone"})
			f.queues = map[string]*sim.DLQ{"jobs-zone--r9": f.queues["jobs-edge"]} // the last of all
			for i := range 5 {
				f.addDeadLetter("jobs-zone--r9", "acme", fmt.Sprint("x", i))
			}
			var mu sync.Mutex
			asked, running, most := 0, 0, 0
			open := f.Open
			f.Open = func(ctx context.Context, name string) (deadletter.Queue, error) {
				mu.Lock()
				asked, running = asked+1, running+1
				most = max(most, running)
				mu.Unlock()
				time.Sleep(test.takes) // of the bubble
				mu.Lock()
				defer mu.Unlock()
				running--
				return open(ctx, name)
			}
			begun := time.Now()
			listed, err := f.DeadLetters(t.Context(), ann, "", 0)
			if last := listed[len(listed)-1]; err != nil || most != f.Service.Parallel || test.complete && (asked != 4+101*21 || len(listed) != 4+101+1 || last.Messages != 5 || len(last.DeadLetters) != 5) || last.Complete != test.complete {
				t.Errorf("%s: asked for %d queues, %d at a time, listed %d: %+v, %v", name, asked, most, len(listed), last, err)
			}
			v, err := f.Redrive(t.Context(), ann, views.RedriveRequest{})
			if err != nil || v.Complete != test.complete || test.complete && v.Moved != 5 {
				t.Errorf("%s: moved %d of %d queues, complete %t: %v", name, v.Moved, len(v.Queues), v.Complete, err)
			}
			if took := time.Since(begun); took > 2*(15*time.Second+test.takes) {
				t.Errorf("%s: took %s", name, took)
			}
		}
	})
}

// endlessBlocks has an endless list of blocks, and counts the pages that are read.
type endlessBlocks struct{ pages *int }

func (b endlessBlocks) Blocks(context.Context, string, workflow.Page) (workflow.List[workflow.Block], error) {
	*b.pages++
	return workflow.List[workflow.Block]{Items: []workflow.Block{{Name: "a", Pool: "edge"}}, NextToken: "more"}, nil
}

// A request for one queue reads no blocks. A request for all queues reads a bounded number of
// pages of blocks, and is incomplete if there are more.
func TestService_BlockReadsAreBounded(t *testing.T) {
	f := newFixture(t)
	pages := 0
	f.Blocks = endlessBlocks{&pages}
	f.addDeadLetter("jobs-edge", "acme", "x")
	if all := f.list("jobs-edge", 0); pages != 0 || all[0].Messages != 1 {
		t.Errorf("%d pages, %+v", pages, all)
	}
	if v := f.redrive(views.RedriveRequest{}); pages != 20 || v.Complete || v.Moved != 1 {
		t.Errorf("%d pages, %+v", pages, v)
	}
}

func (f *fixture) clock() time.Time { return f.now }
