package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const large = "test/large:1.0.0"

// largely is a worker with a block whose results are as long as size says, and
// begin with a mark.
func (r *rig) largely(w *worker.Worker, mark string, size func(job *worker.Job) int) *worker.Worker {
	worker.Add(w, worker.Block[map[string]any, string]{
		Name: "test/large", Version: "1.0.0",
		Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (string, error) {
			return mark + strings.Repeat("x", size(job)), nil
		},
		Rollback: func(_ context.Context, job *worker.Job, _ map[string]any, result *string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.started = append(r.started, *job)
			if result == nil {
				return worker.Terminal("NONE", errors.New("there is no result"))
			}
			return nil
		},
	})
	return w
}

func kilobytes(n int) func(*worker.Job) int { return func(*worker.Job) int { return n << 10 } }

// result is what a job has left, wherever it is.
func (r *rig) result(key workflow.PackKey, i int) (s string) {
	r.Helper()
	rec := r.pack(key).Jobs[i]
	raw := []byte(rec.Result)
	if rec.Stored != nil {
		if len(rec.Result) > 0 {
			r.Error("a result that is stored stands in the pack too")
		}
		r.without(func(v sim.View) {
			var err error
			if raw, err = v.Packs.Load(context.Background(), key, *rec.Stored); err != nil {
				r.Fatal(err)
			}
		})
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		r.Fatal(err)
	}
	return s
}

// Of what does not fit into the pack's item, the largest results go out until the
// rest does; every job keeps its own.
func TestLargeResultsAreStored(t *testing.T) {
	for _, kind := range []func(*workflow.Work){
		func(w *workflow.Work) {}, func(w *workflow.Work) { w.Idempotent = true }, func(w *workflow.Work) { w.Pure = true },
	} {
		r := newRig(t)
		sizes := []int{40, 200, 30, 900, 50}
		size := func(job *worker.Job) int { return sizes[int(job.Token-100)] << 10 }
		m := r.message(large, 0, 1, len(sizes))
		kind(&m.Work)
		r.done(r.largely(r.worker(), "m", size), m)
		r.want(m.Key, workflow.PackFinished, 1, ok, ok, ok, ok, ok)
		for i, kb := range sizes {
			if n := len(r.result(m.Key, i)); n != kb<<10+1 {
				t.Errorf("job %d has left %d bytes, want %d KB", i, n, kb)
			}
			if out := r.pack(m.Key).Jobs[i].Stored != nil; out != (kb >= 200) {
				t.Errorf("the result of job %d (%d KB) is stored outside: %v", i, kb, out)
			}
		}
	}
}

// What a job leaves besides its result is not stored: more than its share of the
// item fails it, and the result stays for whoever undoes the job.
func TestLargeUpdatesFail(t *testing.T) {
	r := newRig(t)
	w := r.worker()
	worker.Add(w, worker.Block[map[string]any, string]{Name: "test/large", Version: "1.0.0", Idempotent: true,
		Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (string, error) {
			if job.Token == 101 {
				return "done", job.Set("a", strings.Repeat("x", 270<<10))
			}
			return "done", nil
		}})
	m := r.message(large, 0, 1, 3)
	r.done(w, m)
	r.want(m.Key, workflow.PackFinished, 1, ok, failed, ok)
	rec := r.pack(m.Key).Jobs[1]
	if rec.Failure.Code != "LIMIT" || rec.Failure.Retryable || string(rec.Result) != `"done"` || len(rec.Updates) > 0 {
		t.Errorf("%+v", rec)
	}
}

// Whoever stores a result and dies, or cannot, before the pack refers to it has
// left nothing that counts: the next one's result is the one that is read.
func TestDeathBetweenStoringAndTheEnd(t *testing.T) {
	for _, c := range []struct {
		call  string
		fault fate.Fault
	}{
		{"packs.save", fate.CrashBefore}, {"packs.save", fate.CrashAfter}, {"packs.save", fate.LostReply},
		{"packs.finish", fate.CrashBefore}, {"packs.finish", fate.LostReply}, {"packs.finish", fate.CrashAfter},
	} {
		r := newRig(t)
		m := r.message(large, 0, 1, 1)
		m.Work.Idempotent = true
		r.Faults = fate.Next(c.call, c.fault)
		if _, crashed, err := r.handle(r.largely(r.worker(), "first", kilobytes(700)), m); !crashed && err == nil {
			t.Fatalf("%s at %s: nothing happened", c.fault, c.call)
		}
		r.Faults = nil
		r.Advance(pastLease)
		r.done(r.largely(r.worker(), "second", kilobytes(400)), m)
		want := "second"
		if c.call == "packs.finish" && c.fault != fate.CrashBefore {
			want = "first" // it had landed
		}
		if got := r.result(m.Key, 0); !strings.HasPrefix(got, want) {
			t.Errorf("%s at %s: the result is the one of %.6s", c.fault, c.call, got)
		}
	}
}

// Two workers store results of the same job at the same time, call by call in any
// order, one of them after its lease has ended: what is read is whole and belongs
// to the one whose end was written.
func TestStoredResultsDoNotMix(t *testing.T) {
	for _, pureBlock := range []bool{false, true} {
		for seed := range uint64(20) {
			r := newRig(t)
			r.World = sim.New(seed)
			m := r.message(large, 0, 1, 1)
			m.Work.Idempotent, m.Work.Pure = !pureBlock, pureBlock
			one, two := r.largely(r.worker(), "one", kilobytes(950)), r.largely(r.worker(), "two", kilobytes(700))
			a := r.Task("one", func() { _, _, _ = r.handle(one, m) })
			if !a.Until("packs.save") {
				t.Fatal("nothing is stored")
			}
			r.Advance(pastLease)
			b := r.Task("two", func() { _, _, _ = r.handle(two, m) })
			r.Interleave(a, b)
			got := r.result(m.Key, 0)
			if want := map[string]int{"one": 950<<10 + 3, "two": 700<<10 + 3}[got[:3]]; len(got) != want {
				t.Fatalf("seed %d: %d bytes of %.3s", seed, len(got), got)
			}
			if p := r.pack(m.Key); p.Token == 2 && got[:3] != "two" {
				t.Errorf("seed %d: the result of a token that is over is read", seed)
			}
		}
	}
}

// A job is told the whole of the result that it is to undo. Where that cannot be
// read, nothing begins.
func TestUndoingALargeResult(t *testing.T) {
	r := newRig(t)
	m := r.message(large, 0, 1, 1)
	w := r.largely(r.worker(), "m", kilobytes(900))
	r.done(w, m)
	undo := r.message(large, 0, 1, 1)
	undo.Key.RunSeq++
	undo.Work.Kind = workflow.JobRollback
	undo.Jobs[0].Stored = r.pack(m.Key).Jobs[0].Stored.At(m.Key)

	r.Faults = fate.Next("packs.load", fate.Throttled)
	if _, _, err := r.handle(w, undo); err == nil || r.pack(undo.Key) != nil {
		t.Fatalf("it goes on without the result: %v", err)
	}
	r.Faults = nil
	r.done(w, undo)
	r.want(undo.Key, workflow.PackFinished, 1, ok)
	if n := len(r.started[0].Result); n != 900<<10+3 {
		t.Errorf("it was told %d bytes", n)
	}

	// A program elsewhere is told the same.
	undo.Key.Lane++
	loan, _, err := w.Lend(context.Background(), undo, r.ports())
	if err != nil || loan == nil || len(loan.Jobs) != 1 || len(loan.Jobs[0].Result) != 900<<10+3 {
		t.Errorf("%+v, %v", loan, err)
	}
}

// Jobs that are too large for a message are worked on as any others, and so is
// what follows them.
func TestJobsOutsideTheMessage(t *testing.T) {
	r := newRig(t)
	r.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		if job.Attempt == 1 {
			return nil, worker.Retryable("BUSY", errors.New("again"))
		}
		return map[string]int{"parameters": len(job.Parameters)}, nil
	}
	m := r.message(id, 0, 3, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(time.Second)}
	m.Jobs[0].Parameters = json.RawMessage(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`)
	m.Chain = []workflow.LaneJobs{{Lane: 1, Jobs: inputs(1, 1)}, {Lane: 2, Jobs: inputs(2, 1)}}
	var sent *workflow.PackMessage
	r.without(func(v sim.View) {
		var err error
		sent, err = m.Room(func(key workflow.PackKey, data []byte) (workflow.Stored, error) {
			return v.Packs.Save(context.Background(), key, data)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if sent.Stored == nil || len(sent.Jobs) != 0 || len(sent.Chain) != 0 || sent.ChainCut != 1 || len(m.Jobs) != 1 {
		t.Fatalf("%+v", sent)
	}
	w := r.worker()
	r.done(w, sent)
	next := r.offered()
	if len(next) != 1 || next[0].Stored == nil || next[0].Key.Attempt != 2 || len(next[0].Jobs) != 0 {
		t.Fatalf("%+v", next)
	}
	r.Advance(time.Second)
	r.done(w, next[0])
	p := r.pack(next[0].Key)
	if want := fmt.Sprintf(`{"parameters":%d}`, 2<<20+11); len(p.Jobs) != 1 || string(p.Jobs[0].Result) != want {
		t.Errorf("%s", text(p))
	}
	if looks := r.looks(); len(looks) == 0 || looks[0].Lane == nil || *looks[0].Lane != 1 {
		t.Errorf("the engine is not told of the lane that was cut off: %+v", looks)
	}
}
