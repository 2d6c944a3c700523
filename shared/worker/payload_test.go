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
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const largeBlock = "test/large:1.0.0"

// addLargeResultBlock registers a block whose results consist of prefix and size bytes.
func (r *fixture) addLargeResultBlock(w *worker.Worker, prefix string, size func(job *worker.Job) int) *worker.Worker {
	worker.Register(w, worker.Block[map[string]any, string]{
		Name: "test/large", Version: "1.0.0",
		Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (string, error) {
			return prefix + strings.Repeat("x", size(job)), nil
		},
		Rollback: func(_ context.Context, job *worker.Job, _ map[string]any, result *string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.started = append(r.started, *job)
			if result == nil {
				return worker.Terminal("NONE", errors.New("no result"))
			}
			return nil
		},
	})
	return w
}

func kilobytes(n int) func(*worker.Job) int { return func(*worker.Job) int { return n << 10 } }

// storedResult returns a job's result, from the pack or from its payload.
func (r *fixture) storedResult(key workflow.PackKey, i int) (s string) {
	r.Helper()
	rec := r.pack(key).Jobs[i]
	raw := []byte(rec.Result)
	if rec.ResultRef != nil {
		if len(rec.Result) > 0 {
			r.Error("the pack has both a result and a payload reference")
		}
		r.withoutFaults(func(v sim.View) {
			var err error
			if raw, err = v.Packs.LoadPayload(context.Background(), key, *rec.ResultRef); err != nil {
				r.Fatal(err)
			}
		})
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		r.Fatal(err)
	}
	return s
}

// If the results do not fit into the pack item, the largest are stored as payload
// until the rest fits. Every job keeps its own result.
func TestWorker_StoresLargeResultsAsPayload(t *testing.T) {
	for _, setKind := range []func(*workflow.Work){
		func(w *workflow.Work) {}, func(w *workflow.Work) { w.Idempotent = true }, func(w *workflow.Work) { w.Pure = true },
	} {
		r := newFixture(t)
		sizes := []int{40, 200, 30, 900, 50}
		size := func(job *worker.Job) int { return sizes[int(job.Token-100)] << 10 }
		m := r.newMessage(largeBlock, 0, 1, len(sizes))
		setKind(&m.Work)
		r.mustHandle(r.addLargeResultBlock(r.worker(), "m", size), m)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK, codeOK, codeOK)
		for i, kb := range sizes {
			if n := len(r.storedResult(m.Key, i)); n != kb<<10+1 {
				t.Errorf("the result of job %d has %d bytes, want %d KB", i, n, kb)
			}
			if offloaded := r.pack(m.Key).Jobs[i].ResultRef != nil; offloaded != (kb >= 200) {
				t.Errorf("the result of job %d (%d KB) is stored as payload: %v", i, kb, offloaded)
			}
		}
	}
}

// Updates are not stored as payload. A job whose updates exceed its share of the item
// fails, and keeps its result for the rollback.
func TestWorker_LargeUpdatesFailJob(t *testing.T) {
	r := newFixture(t)
	w := r.worker()
	worker.Register(w, worker.Block[map[string]any, string]{Name: "test/large", Version: "1.0.0", Idempotent: true,
		Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (string, error) {
			if job.Token == 101 {
				return "done", job.SetAttribute("a", strings.Repeat("x", 270<<10))
			}
			return "done", nil
		}})
	m := r.newMessage(largeBlock, 0, 1, 3)
	r.mustHandle(w, m)
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeFailed, codeOK)
	rec := r.pack(m.Key).Jobs[1]
	if rec.Failure.Code != "LIMIT" || rec.Failure.Retryable || string(rec.Result) != `"done"` || len(rec.Updates) > 0 {
		t.Errorf("%+v", rec)
	}
}

// A worker stores a payload and crashes, or its write fails, before the pack refers to
// the payload. Then the result of the worker that takes over counts.
func TestWorker_CrashBetweenPayloadAndFinish(t *testing.T) {
	for _, c := range []struct {
		call  string
		fault faults.Fault
	}{
		{"packs.save_payload", faults.CrashBefore}, {"packs.save_payload", faults.CrashAfter}, {"packs.save_payload", faults.LostReply},
		{"packs.finish", faults.CrashBefore}, {"packs.finish", faults.LostReply}, {"packs.finish", faults.CrashAfter},
	} {
		r := newFixture(t)
		m := r.newMessage(largeBlock, 0, 1, 1)
		m.Work.Idempotent = true
		r.Faults = faults.Next(c.call, c.fault)
		if _, crashed, err := r.handle(r.addLargeResultBlock(r.worker(), "first", kilobytes(700)), m); !crashed && err == nil {
			t.Fatalf("%s at %s: the fault had no effect", c.fault, c.call)
		}
		r.Faults = nil
		r.Advance(pastLease)
		r.mustHandle(r.addLargeResultBlock(r.worker(), "second", kilobytes(400)), m)
		want := "second"
		if c.call == "packs.finish" && c.fault != faults.CrashBefore {
			want = "first" // the write reached the item
		}
		if got := r.storedResult(m.Key, 0); !strings.HasPrefix(got, want) {
			t.Errorf("%s at %s: the result is from the %.6s worker", c.fault, c.call, got)
		}
	}
}

// Two workers store results of the same job, with their calls interleaved in any order;
// one of them does so after its lease has expired. The result is complete and belongs to
// the worker that finished the pack.
func TestWorker_ConcurrentPayloadsDoNotMix(t *testing.T) {
	for _, pureBlock := range []bool{false, true} {
		for seed := range uint64(20) {
			r := newFixture(t)
			r.World = sim.New(seed)
			m := r.newMessage(largeBlock, 0, 1, 1)
			m.Work.Idempotent, m.Work.Pure = !pureBlock, pureBlock
			one, two := r.addLargeResultBlock(r.worker(), "one", kilobytes(950)), r.addLargeResultBlock(r.worker(), "two", kilobytes(700))
			a := r.StartTask("one", func() { _, _, _ = r.handle(one, m) })
			if !a.RunUntil("packs.save_payload") {
				t.Fatal("no payload is stored")
			}
			r.Advance(pastLease)
			b := r.StartTask("two", func() { _, _, _ = r.handle(two, m) })
			r.Interleave(a, b)
			got := r.storedResult(m.Key, 0)
			if want := map[string]int{"one": 950<<10 + 3, "two": 700<<10 + 3}[got[:3]]; len(got) != want {
				t.Fatalf("seed %d: %d bytes of %.3s", seed, len(got), got)
			}
			if p := r.pack(m.Key); p.Token == 2 && got[:3] != "two" {
				t.Errorf("seed %d: the result belongs to an old token", seed)
			}
		}
	}
}

// A rollback receives the whole result that it is to rollback. If the payload cannot be
// read, no job starts.
func TestWorker_RollbackLoadsLargeResult(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(largeBlock, 0, 1, 1)
	w := r.addLargeResultBlock(r.worker(), "m", kilobytes(900))
	r.mustHandle(w, m)
	rollback := r.newMessage(largeBlock, 0, 1, 1)
	rollback.Key.StepRunSeq++
	rollback.Work.Kind = workflow.JobRollback
	rollback.Jobs[0].ResultRef = r.pack(m.Key).Jobs[0].ResultRef.InPack(m.Key)

	r.Faults = faults.Next("packs.load_payload", faults.Throttled)
	if _, _, err := r.handle(w, rollback); err == nil || r.pack(rollback.Key) != nil {
		t.Fatalf("the pack is claimed although the result cannot be read: %v", err)
	}
	r.Faults = nil
	r.mustHandle(w, rollback)
	r.wantPack(rollback.Key, workflow.PackFinished, 1, codeOK)
	if n := len(r.started[0].Result); n != 900<<10+3 {
		t.Errorf("the rollback received %d bytes", n)
	}

	// So does a rollback that another program runs.
	rollback.Key.Lane++
	remote, _, err := w.LeaseRemote(context.Background(), rollback, r.ports())
	if err != nil || remote == nil || len(remote.Jobs) != 1 || len(remote.Jobs[0].Result) != 900<<10+3 {
		t.Errorf("%+v, %v", remote, err)
	}
}

// Jobs that are too large for a message are loaded from their payload, and so are those
// of the next attempt.
func TestWorker_LoadsJobsFromPayload(t *testing.T) {
	r := newFixture(t)
	r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		if job.Attempt == 1 {
			return nil, worker.Retryable("BUSY", errors.New("again"))
		}
		return map[string]int{"parameters": len(job.Parameters)}, nil
	}
	m := r.newMessage(idempotent, 0, 3, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(time.Second)}
	m.Jobs[0].Parameters = json.RawMessage(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`)
	m.Chain = []workflow.LaneJobs{{Lane: 1, Jobs: inputs(1, 1)}, {Lane: 2, Jobs: inputs(2, 1)}}
	var sent *workflow.PackMessage
	r.withoutFaults(func(v sim.View) {
		var err error
		sent, err = m.OffloadPayload(func(key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
			return v.Packs.SavePayload(context.Background(), key, data)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if sent.JobsRef == nil || len(sent.Jobs) != 0 || len(sent.Chain) != 0 || sent.ChainCut != 1 || len(m.Jobs) != 1 {
		t.Fatalf("%+v", sent)
	}
	w := r.worker()
	r.mustHandle(w, sent)
	next := r.sentPacks()
	if len(next) != 1 || next[0].JobsRef == nil || next[0].Key.Attempt != 2 || len(next[0].Jobs) != 0 {
		t.Fatalf("%+v", next)
	}
	r.Advance(time.Second)
	r.mustHandle(w, next[0])
	p := r.pack(next[0].Key)
	if want := fmt.Sprintf(`{"parameters":%d}`, 2<<20+11); len(p.Jobs) != 1 || string(p.Jobs[0].Result) != want {
		t.Errorf("%s", text(p))
	}
	if wakeups := r.wakeups(); len(wakeups) == 0 || wakeups[0].Lane == nil || *wakeups[0].Lane != 1 {
		t.Errorf("the engine is not asked for the lane that was cut off: %+v", wakeups)
	}
}
