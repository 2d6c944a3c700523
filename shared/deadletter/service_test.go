package deadletter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/tests/sim"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fixture is a service over simulated queues.
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
	y := &fixture{T: t, now: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC), queues: map[string]*sim.DLQ{}}
	clock := func() time.Time { return y.now }
	random, faults := rand.New(rand.NewPCG(1, 2)), &sim.QueueFaults{Shuffle: true}
	for _, name := range []string{"lifecycle", "jobs-default", "jobs-edge"} {
		y.queues[name] = &sim.DLQ{Source: sim.NewQueue(clock, random, faults), DeadLetters: sim.NewQueue(clock, random, faults), Now: clock}
	}
	y.Service = &deadletter.Service{
		Blocks: blocks{{Name: "a", Pool: "edge"}, {Name: "b"}, {Name: "c", Pool: "nobody"}},
		Open: func(_ context.Context, name string) (deadletter.Queue, error) {
			if q := y.queues[name]; q != nil {
				return q, nil
			}
			return nil, nil
		},
		Decoder: deadletter.Decoder{Wakeup: decodeJSON[workflow.Wakeup], Pack: decodeJSON[*workflow.PackMessage]},
		Reasons: func(_ context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			if execution == "gone" || tenant != ann.Tenant {
				return nil, workflow.Errorf(workflow.CodeNotFound, "there is no run")
			}
			return map[string]workflow.DeadLetter{"m1": {Reason: "unavailable: no"}}, nil
		},
		Now: clock, Log: slog.New(slog.DiscardHandler), Parallel: 1,
	}
	return y
}

func decodeJSON[T any](body string) (v T, err error) { return v, json.Unmarshal([]byte(body), &v) }

func (y *fixture) addDeadLetter(name, tenant, execution string) {
	y.Helper()
	key := workflow.StepRunKey{Tenant: tenant, Execution: execution, Ordinal: 1, Seq: 1}.Pack(0, 1)
	var v any = workflow.PackMessage{Key: key, Work: workflow.Work{Step: "go"}, Jobs: []workflow.JobInput{{Index: 4}, {Index: 5}}}
	if name == "lifecycle" {
		v = workflow.Wakeup{Tenant: tenant, Execution: execution}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		y.Fatal(err)
	}
	y.queues[name].AddDeadLetter(raw)
}

func (y *fixture) list(queue string, limit int) []views.DeadLetterQueue {
	y.Helper()
	all, err := y.DeadLetters(y.Context(), ann, queue, limit)
	if err != nil {
		y.Fatal(err)
	}
	return all
}

func (y *fixture) redrive(r views.RedriveRequest) views.RedriveView {
	y.Helper()
	v, err := y.Redrive(y.Context(), ann, r)
	if err != nil {
		y.Fatal(err)
	}
	return v
}

// What is shown is the caller's, says all that is known, and is there afterwards.
func TestService_ListDoesNotConsume(t *testing.T) {
	y := newFixture(t)
	y.addDeadLetter("jobs-edge", "acme", "x") // m1
	y.addDeadLetter("jobs-edge", "rival", "y")
	y.addDeadLetter("jobs-edge", "acme", "gone")
	y.addDeadLetter("lifecycle", "acme", "x") // m1 there
	y.queues["jobs-edge"].AddDeadLetter([]byte("nonsense"))
	for round := 1; round <= 3; round++ {
		all := y.list("", 0)
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
	if one := y.list("jobs-edge", 1); len(one) != 1 || one[0].Messages != 2 || len(one[0].DeadLetters) != 1 {
		t.Errorf("%+v", one)
	}
	if n := y.queues["jobs-edge"].DeadLetters.Len(); n != 4 {
		t.Errorf("%d letters are left of 4", n)
	}
	for _, strange := range []string{"jobs-rival", "nothing"} {
		if _, err := y.DeadLetters(t.Context(), ann, strange, 0); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("%s: %v", strange, err)
		}
		if _, err := y.Redrive(t.Context(), ann, views.RedriveRequest{Queue: strange}); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("%s: %v", strange, err)
		}
	}
}

// Only the caller's are moved, up to the limit; what is left is counted, and stays
// to be seen by whoever it belongs to.
func TestService_RedriveMovesOnlyCallersMessages(t *testing.T) {
	y := newFixture(t)
	for i := range 30 {
		y.addDeadLetter("jobs-edge", "acme", fmt.Sprint("x", i))
		y.addDeadLetter("jobs-edge", "rival", fmt.Sprint("y", i))
	}
	y.addDeadLetter("lifecycle", "acme", "x")
	v := y.redrive(views.RedriveRequest{Limit: 11})
	if v.Moved != 11 || v.Remaining != 20 || !v.Complete || len(v.Queues) != 4 || v.Queues[0].Moved != 1 || v.Queues[2].Moved != 10 {
		t.Fatalf("%+v", v)
	}
	if v = y.redrive(views.RedriveRequest{Queue: "jobs-edge"}); v.Moved != 20 || v.Remaining != 0 || !v.Complete {
		t.Fatalf("%+v", v)
	}
	if v = y.redrive(views.RedriveRequest{}); v.Moved != 0 || v.Remaining != 0 || !v.Complete {
		t.Errorf("%+v", v)
	}
	q := y.queues["jobs-edge"]
	if q.Source.Len() != 30 || q.DeadLetters.Len() != 30 || y.queues["lifecycle"].Source.Len() != 1 {
		t.Errorf("%d back, %d left", q.Source.Len(), q.DeadLetters.Len())
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
		t.Errorf("the rival sees %d of his 30", othersLeft)
	}
}

// Behind more of another's than one call looks at, the next call gets further, which
// is not complete while what the calls before have seen is held; the other's are
// there again after a while.
func TestService_RedriveReachesPastOtherTenants(t *testing.T) {
	y := newFixture(t)
	q := y.queues["jobs-edge"]
	faultless := &sim.QueueFaults{}
	q.DeadLetters = sim.NewQueue(func() time.Time { return y.now }, rand.New(rand.NewPCG(1, 2)), faultless)
	for i := range 1200 {
		y.addDeadLetter("jobs-edge", "rival", fmt.Sprint("y", i))
	}
	y.addDeadLetter("jobs-edge", "acme", "x")
	moved := 0
	for call := 1; call <= 3; call++ {
		v := y.redrive(views.RedriveRequest{Queue: "jobs-edge"})
		if moved += v.Moved; v.Complete {
			t.Errorf("call %d: %+v", call, v)
		}
	}
	if moved != 1 {
		t.Errorf("moved %d", moved)
	}
	y.now = y.now.Add(2 * time.Minute)
	othersLeft := 0
	for _, ok := q.DeadLetters.Receive(time.Hour); ok; _, ok = q.DeadLetters.Receive(time.Hour) {
		othersLeft++
	}
	if othersLeft != 1200 {
		t.Errorf("the rival sees %d of his 1200", othersLeft)
	}
}

// Whatever fails on the way, no letter is lost: it is here, or in its queue, or in
// both; and doing it again moves the rest.
func TestService_FailuresLoseNoMessages(t *testing.T) {
	for seed := range uint64(200) {
		y := newFixture(t)
		random := rand.New(rand.NewPCG(seed, 9))
		q := y.queues["jobs-edge"]
		for i := range 25 {
			y.addDeadLetter("jobs-edge", "acme", fmt.Sprint("x", i))
		}
		q.InjectError = func(string) error {
			if random.IntN(10) == 0 {
				return errors.New("no")
			}
			return nil
		}
		reported := 0
		for range 3 {
			v, err := y.Redrive(t.Context(), ann, views.RedriveRequest{Queue: "jobs-edge", Limit: 12})
			if reported += v.Moved; err == nil && v.Moved > 12 {
				t.Fatalf("seed %d: %+v", seed, v)
			}
		}
		q.InjectError = nil
		reported += y.redrive(views.RedriveRequest{Queue: "jobs-edge"}).Moved
		seen := map[string]bool{}
		for m, ok := q.Source.Receive(time.Hour); ok; m, ok = q.Source.Receive(time.Hour) {
			seen[m.Pack().Key.Execution] = true
		}
		if len(seen) != 25 || q.DeadLetters.Len() != 0 || reported > 25 {
			t.Fatalf("seed %d: %d of 25 are back, %d left, %d told", seed, len(seen), q.DeadLetters.Len(), reported)
		}
	}
}

// What somebody else is looking at is neither seen nor moved, and nobody is told
// that nothing is left: neither while the other holds it, nor by a list.
func TestService_IncompleteWhileMessagesAreInFlight(t *testing.T) {
	y := newFixture(t)
	for i := range 15 {
		y.addDeadLetter("jobs-edge", "acme", fmt.Sprint("x", i))
	}
	q := y.queues["jobs-edge"]
	for _, held := range []int{15, 10} {
		messages, err := q.Receive(t.Context(), held, time.Minute)
		if err != nil || len(messages) != held {
			t.Fatal(len(messages), err)
		}
		if all := y.list("jobs-edge", 0); all[0].Complete || all[0].Messages != 15-held {
			t.Errorf("while %d are held: %+v", held, all)
		}
		if v := y.redrive(views.RedriveRequest{Limit: 1}); v.Complete || v.Moved+v.Remaining != 15-held {
			t.Errorf("while %d are held: %+v", held, v)
		}
		if err := q.Release(t.Context(), messages); err != nil {
			t.Fatal(err)
		}
	}
	if v := y.redrive(views.RedriveRequest{}); !v.Complete || v.Moved != 14 || v.Remaining != 0 {
		t.Errorf("when nobody holds any more: %+v", v)
	}
}

// However slow the queues are, one call is over in time for whoever waits for it:
// each has its part, and what there is no time for is told.
func TestService_OneDeadlineForAllQueues(t *testing.T) {
	for _, delay := range []time.Duration{2 * time.Second, 9 * time.Second, 20 * time.Second} {
		y := newFixture(t)
		for name, q := range y.queues {
			for i := range 100 {
				y.addDeadLetter(name, "acme", fmt.Sprint("x", i))
			}
			q.InjectError = func(what string) error {
				if what == "take" {
					y.now = y.now.Add(delay)
				}
				return nil
			}
		}
		begun := y.now
		v := y.redrive(views.RedriveRequest{Limit: 500})
		if took := y.now.Sub(begun); took > 15*time.Second+delay {
			t.Errorf("takes of %s: it has taken %s", delay, took)
		}
		if len(v.Queues) != 4 || v.Complete || v.Moved == 0 || v.Queues[3].Complete != (delay < 5*time.Second) {
			t.Errorf("takes of %s: %+v", delay, v)
		}
		if delay < 5*time.Second && (v.Queues[0].Moved == 0 || v.Queues[1].Moved == 0 || v.Queues[2].Moved == 0) {
			t.Errorf("not every queue had its turn: %+v", v)
		}
	}
}

// endlessBlocks never come to an end. They count how often they are read.
type endlessBlocks struct{ pages *int }

func (b endlessBlocks) Blocks(context.Context, string, workflow.Page) (workflow.List[workflow.Block], error) {
	*b.pages++
	return workflow.List[workflow.Block]{Items: []workflow.Block{{Name: "a", Pool: "edge"}}, NextToken: "more"}, nil
}

// Whoever asks for a queue by its name is not kept waiting for the blocks to be read;
// whoever asks for all only for so many, and is told that there may be more.
func TestService_BlockReadsAreBounded(t *testing.T) {
	y := newFixture(t)
	pages := 0
	y.Blocks = endlessBlocks{&pages}
	y.addDeadLetter("jobs-edge", "acme", "x")
	if all := y.list("jobs-edge", 0); pages != 0 || all[0].Messages != 1 {
		t.Errorf("%d pages, %+v", pages, all)
	}
	if v := y.redrive(views.RedriveRequest{}); pages != 20 || v.Complete || v.Moved != 1 {
		t.Errorf("%d pages, %+v", pages, v)
	}
}
