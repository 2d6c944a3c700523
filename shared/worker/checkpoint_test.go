package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// savedText is what a job has saved, as text.
func savedText(saved map[string]json.RawMessage) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(saved)) {
		all = append(all, key+"="+string(saved[key]))
	}
	return strings.Join(all, " ")
}

// R27: a job that is taken over continues from everything that it has saved, and the worker that
// lost it can save nothing more. The same holds for a pure job that no worker had claimed before it
// saved something.
func TestCheckpoint_IsThereAfterATakeover(t *testing.T) {
	for _, kind := range []string{pure, idempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 2)
		var lost *worker.Job
		r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
			for n := range 3 {
				if err := job.Checkpoint(ctx, fmt.Sprint("part", n), n); err != nil {
					t.Fatal(err)
				}
			}
			if err := job.Checkpoint(ctx, "part0", nil); err != nil {
				t.Fatal(err)
			}
			lost = job
			panic("the process dies")
		}
		func() {
			defer func() { _ = recover() }()
			_, _, _ = r.handle(r.worker(), m)
		}()
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted, codeStarted)

		r.Advance(pastLease)
		r.started = nil
		var found []string
		r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
			found = append(found, savedText(job.Checkpoints()))
			if len(found) == 1 {
				if err := lost.Checkpoint(ctx, "late", true); !workflow.Is(err, workflow.CodeClaimLost) {
					t.Errorf("%s: the worker that lost the job saved something: %v", kind, err)
				}
			}
			var n int
			if ok, err := job.LoadCheckpoint("part2", &n); ok != (len(found) == 1) || err != nil || ok && n != 2 {
				t.Errorf("part2 is %d, %v, %v", n, ok, err)
			}
			return nil, nil
		}
		r.mustHandle(r.worker(), m)
		if want := []string{"part1=1 part2=2", ""}; !slices.Equal(found, want) {
			t.Errorf("%s: found %q, want %q", kind, found, want)
		}
		r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, codeOK)
		for _, rec := range r.pack(m.Key).Jobs {
			if len(rec.Checkpoints) > 0 || rec.Progress != nil {
				t.Errorf("%s: a job that has succeeded keeps %v", kind, rec)
			}
		}
	}
}

// A job of a block that must not be repeated is not taken over. What it saved stays in its record.
func TestCheckpoint_OfAnUnrepeatableJobIsKept(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 9, 2)
	r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
		if err := job.Checkpoint(ctx, "at", "reload"); err != nil {
			t.Fatal(err)
		}
		panic("the process dies")
	}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = r.handle(r.worker(), m)
	}()
	r.Advance(pastLease)
	r.blockFunc = nil
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackFinished, 2, codeUnknown, codeOK)
	if saved := savedText(r.pack(m.Key).Jobs[0].Checkpoints); saved != `at="reload"` {
		t.Errorf("saved %q", saved)
	}
}

// The next attempt of a failed job gets everything that all earlier attempts have saved, unless the
// retry says fresh.
func TestCheckpoint_IsThereInTheNextAttempt(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		r := newFixture(t)
		m := r.newMessage(idempotent, 0, 9, 1)
		m.Work.Retry = &workflow.Retry{MaxRetries: 3, Delay: workflow.Duration(time.Minute), Fresh: fresh}
		var found []string
		r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
			found = append(found, savedText(job.Checkpoints()))
			if job.Attempt != 2 { // the second one saves nothing
				if err := job.Checkpoint(ctx, fmt.Sprint("attempt", job.Attempt), true); err != nil {
					t.Fatal(err)
				}
			}
			return nil, errors.New("busy")
		}
		for range 4 {
			r.mustHandle(r.worker(), m)
			if sent := r.sentPacks(); len(sent) > 0 {
				m = sent[0]
			}
			r.Advance(2 * time.Minute)
		}
		want := []string{"", "attempt1=true", "attempt1=true", "attempt1=true attempt3=true"}
		if fresh {
			want = []string{"", "", "", ""}
		}
		if !slices.Equal(found, want) {
			t.Errorf("fresh %v: found %q, want %q", fresh, found, want)
		}
	}
}

// What a job may save is bounded, by job and by pack, and an error leaves what it had.
func TestCheckpoint_IsBounded(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 4)
	large := strings.Repeat("x", 60<<10)
	refused := 0
	r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
		if err := job.Checkpoint(ctx, "twice", large+large); !workflow.Is(err, workflow.CodeTooLarge) {
			t.Errorf("more than a job may save: %v", err)
		}
		if err := job.Checkpoint(ctx, strings.Repeat("k", 129), 1); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("a key that is too long: %v", err)
		}
		if err := job.Checkpoint(ctx, "once", large); workflow.Is(err, workflow.CodeTooLarge) {
			refused++
			if len(job.Checkpoints()) > 0 {
				t.Error("what was refused is there")
			}
		} else if err != nil {
			t.Error(err)
		}
		return nil, worker.Terminal("STOP", errors.New("stop"))
	}
	r.mustHandle(r.worker(), m)
	if refused != 2 {
		t.Errorf("%d of 4 jobs could not save 60 KiB, want those beyond 128 KiB", refused)
	}
}

// No value of a secret is saved.
func TestCheckpoint_HoldsNoSecret(t *testing.T) {
	const secret = "correct horse battery"
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 1)
	m.Jobs[0].Parameters = json.RawMessage(`{"password":"${secret.login}"}`)
	m.Work.Secrets = []workflow.SecretPlace{{Path: []string{"password"}, Parts: []workflow.SecretPart{{Secret: "login"}}}}
	r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
		job.Progress(10, "as "+secret)
		if err := job.Checkpoint(ctx, secret, "used "+secret); err != nil {
			t.Fatal(err)
		}
		return nil, errors.New("busy")
	}
	r.mustHandle(r.worker(func(o *worker.Options) { o.Secrets = oneSecret(secret) }), m)
	raw, _ := json.Marshal(r.pack(m.Key).Jobs)
	if text := string(raw); strings.Contains(text, secret) || strings.Count(text, "${secret.login}") != 3 {
		t.Errorf("saved %s", raw)
	}
}

type oneSecret string

func (s oneSecret) Secret(context.Context, string, string) (string, error) { return string(s), nil }

// R56: a job's progress is stored with the next heartbeat, and costs no write of its own. Pure
// jobs, which nobody claims, are claimed then.
func TestProgress_ComesWithTheHeartbeat(t *testing.T) {
	for _, kind := range kinds {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			m := r.newMessage(kind, 0, 1, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
				for n := range 50 {
					job.Progress(float64(2*n)+0.04, fmt.Sprintf("port %d", n))
					time.Sleep(time.Second)
				}
				return nil, worker.Terminal("STOP", errors.New("stop"))
			}
			ports := r.ports()
			counted := &extendCounter{Packs: ports.Packs}
			ports.Packs = counted
			go func() {
				time.Sleep(30 * time.Second)
				rec := r.pack(m.Key).Jobs[0]
				if rec.Progress == nil || rec.Progress.Percent != 40 && rec.Progress.Percent != 38 || !strings.HasPrefix(rec.Progress.Message, "port ") {
					t.Errorf("%s: progress %+v", kind, rec.Progress)
				}
			}()
			if _, err := r.worker(concurrent).Handle(context.Background(), m, ports); err != nil {
				t.Fatal(err)
			}
			if counted.writes > 2 {
				t.Errorf("%s: %d writes of 50 s of work, want one each 20 s", kind, counted.writes)
			}
			if p := r.pack(m.Key).Jobs[0].Progress; p == nil || p.Percent != 98 {
				t.Errorf("%s: at its end %+v", kind, p)
			}
		})
	}
}

// extendCounter counts the writes of a pack between its claim and its end.
type extendCounter struct {
	worker.Packs
	writes int
}

func (c *extendCounter) Extend(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	c.writes++
	return c.Packs.Extend(ctx, p)
}

// A polling program saves with its heartbeats, and whoever gets the job next receives what it
// saved.
func TestRemoteLease_KeepsCheckpointsOfAHeartbeat(t *testing.T) {
	for _, kind := range []string{pure, idempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 2)
		m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(time.Minute)}
		first := r.leaseRemote(m)
		heartbeat := func(saved string) (*worker.RemoteLease, error) {
			lease, _, err := r.resumeRemote(m, &worker.RemoteResult{Heartbeat: true, Reports: map[string]worker.JobReport{
				first.Jobs[0].ID: {Checkpoints: workflow.Checkpoints{"at": json.RawMessage(saved)}, Progress: &workflow.JobProgress{Percent: 150, Message: "half"}},
			}})
			return lease, err
		}
		if renewed, err := heartbeat(`7`); err != nil || renewed == nil {
			t.Fatal(renewed, err)
		}
		before := r.pack(m.Key).Lease
		r.Advance(10 * time.Second)
		if _, err := heartbeat(`"` + strings.Repeat("x", 70<<10) + `"`); !workflow.Is(err, workflow.CodeTooLarge) {
			t.Errorf("more than a job may save: %v", err)
		}
		if after := r.pack(m.Key).Lease; !after.After(before.Add(9 * time.Second)) {
			t.Errorf("%s: a heartbeat that says too much has renewed the lease by %s", kind, after.Sub(before))
		}
		rec := r.pack(m.Key).Jobs[0]
		if savedText(rec.Checkpoints) != "at=7" || rec.Progress == nil || rec.Progress.Percent != 100 || rec.Progress.Message != "half" {
			t.Errorf("%s: saved %+v", kind, rec)
		}

		r.Advance(pastLease)
		second := r.leaseRemote(m)
		if got := savedText(second.Jobs[0].Checkpoints()); got != "at=7" {
			t.Errorf("%s: taken over with %q", kind, got)
		}
		failed := worker.JobResult{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "BUSY", Retryable: true}, Checkpoints: workflow.Checkpoints{"then": json.RawMessage(`8`)}}
		r.wantEnded(m, &worker.RemoteResult{Results: map[string]worker.JobResult{second.Jobs[0].ID: failed, second.Jobs[1].ID: failed}})
		next := r.sentPacks()
		if len(next) != 1 || savedText(next[0].Jobs[0].Checkpoints) != "at=7 then=8" || savedText(next[0].Jobs[1].Checkpoints) != "then=8" {
			t.Errorf("%s: the next attempt has %+v", kind, next)
		}
	}
}

// What a job has removed does not come back: neither for the worker that takes it over, nor for its
// next attempt.
func TestCheckpoint_RemovedStaysRemoved(t *testing.T) {
	before := workflow.Checkpoints{"offset": json.RawMessage(`4096`)}
	for _, kind := range []string{pure, idempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		m.Jobs[0].Checkpoints = before
		r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
			if err := job.Checkpoint(ctx, "offset", nil); err != nil {
				t.Fatal(err)
			}
			panic(faults.Crash{})
		}
		_, _, _ = r.handle(r.worker(), m)
		r.Advance(pastLease)
		r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			if got := savedText(job.Checkpoints()); got != "" {
				t.Errorf("%s: taken over with %q", kind, got)
			}
			return nil, nil
		}
		r.mustHandle(r.worker(), m)
	}
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 3, Delay: workflow.Duration(time.Minute)}
	m.Jobs[0].Checkpoints = before
	id := r.leaseRemote(m).Jobs[0].ID
	removal := map[string]worker.JobReport{id: {Checkpoints: workflow.Checkpoints{"offset": json.RawMessage(`null`)}}}
	if _, _, err := r.resumeRemote(m, &worker.RemoteResult{Heartbeat: true, Reports: removal}); err != nil {
		t.Fatal(err)
	}
	failed := worker.JobResult{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "BUSY", Retryable: true}}
	r.wantEnded(m, &worker.RemoteResult{Results: map[string]worker.JobResult{id: failed}})
	if next := r.sentPacks(); len(next) != 1 || len(next[0].Jobs[0].Checkpoints) > 0 {
		t.Errorf("the next attempt has %+v", next)
	}
}

// A claim of pure jobs whose reply was lost is recognised: what is saved next is stored, and the result
// of a job that saves nothing more is not lost.
func TestCheckpoint_ClaimWithLostReply(t *testing.T) {
	for _, again := range []bool{true, false} {
		r := newFixture(t)
		m := r.newMessage(pure, 0, 9, 1)
		r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
			r.Faults = faults.Next("packs.claim", faults.LostReply)
			_ = job.Checkpoint(ctx, "offset", 1)
			if !again {
				return nil, nil
			}
			r.Advance(30 * time.Second)
			err := job.Checkpoint(ctx, "offset", 2)
			if p := r.pack(m.Key); err != nil || savedText(p.Jobs[0].Checkpoints) != "offset=2" || !p.Lease.Equal(r.Now().Add(lease)) {
				t.Errorf("%v: saved %q until %s", err, savedText(p.Jobs[0].Checkpoints), p.Lease)
			}
			return nil, nil
		}
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	}
}
