package delivery_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// bench is a world with the engine's side of one step run. Its packs are written
// by hand, as workers would.
type bench struct {
	*testing.T
	*sim.World
	view sim.View
	d    *delivery.Delivery
	r    *delivery.Run
	pool *queue.Queue
}

const (
	lease = time.Minute
	slack = 7 * time.Second // skew and grace
)

// newBench is a run of so many jobs in packs of so many; change may make it
// another one.
func newBench(t *testing.T, jobs, size int, change func(*workflow.StepRun, *workflow.Work)) *bench {
	b := &bench{T: t, World: sim.New(1)}
	b.view, b.pool = b.Open(), b.MakePool("default")
	b.d = &delivery.Delivery{Packs: b.view.Packs, Board: b.view.Board, Limits: delivery.Limits{
		Skew: 2 * time.Second, Grace: 5 * time.Second, Poll: time.Minute, MaxTakeovers: 3,
		MessageLife: time.Hour, Unclaimed: 20 * time.Minute, Stuck: 12 * time.Minute, ChainBytes: 64 << 10, Parallel: 1,
	}}
	step := &workflow.StepRun{
		RunSeq: 3, Label: "one", Visit: 1, Kind: workflow.JobExecute, Status: sm.StepRunning,
		EnteredAt: b.Now(), EpochTime: b.Now(), Jobs: jobs, PackSize: size, MaxAttempts: 1,
	}
	work := workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0", Step: "one", Pool: "default", Lanes: step.Lanes()}
	if change != nil {
		change(step, &work)
	}
	step.MaxAttempts = work.MaxAttempts()
	b.r = &delivery.Run{Tenant: "t", Execution: "x", Step: step, Work: work, Jobs: func(context.Context) ([]workflow.JobInput, error) {
		var all []workflow.JobInput
		for i := range jobs {
			all = append(all, workflow.JobInput{Index: i, Entity: &workflow.EntityKey{Type: "device", ID: letter(i)}, Parameters: json.RawMessage(`{}`)})
		}
		return all, nil
	}}
	return b
}

func letter(i int) string { return string(rune('a' + i)) }

func retried(n int) func(*workflow.StepRun, *workflow.Work) {
	return func(_ *workflow.StepRun, w *workflow.Work) {
		w.Retry = &workflow.Retry{MaxRetries: n, Delay: workflow.Duration(time.Minute)}
	}
}

func (b *bench) key(lane, attempt int) workflow.PackKey {
	return workflow.RunKey{Tenant: "t", Execution: "x", Visit: 1, RunSeq: 3}.Pack(lane, attempt)
}

// pack writes a pack: claimed now unless it is final, with the codes given for
// the jobs from the first on.
func (b *bench) pack(lane, attempt int, state workflow.PackState, first int, codes ...workflow.JobCode) *workflow.Pack {
	b.Helper()
	p := &workflow.Pack{Key: b.key(lane, attempt), State: workflow.PackClaimed, Token: 1, Lease: b.Now().Add(lease), Nonce: b.Nonce(), Worker: "w", ClaimedAt: b.Now()}
	for i, c := range codes {
		rec := workflow.JobRecord{Index: first + i, Code: c}
		switch c {
		case workflow.CodeOK:
			rec.Result = json.RawMessage(`"done"`)
		case workflow.CodeFail:
			rec.Failure = &workflow.Failure{Code: "REFUSED", Message: "no", Retryable: true}
		}
		p.Jobs = append(p.Jobs, rec)
	}
	ok, _, err := b.view.Packs.Claim(b.Context(), p)
	if err == nil && ok && state != workflow.PackClaimed {
		p.State, p.FinishedAt = state, b.Now()
		ok, _, err = b.view.Packs.Finish(b.Context(), p)
	}
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	return p
}

func (b *bench) read(lane, attempt int) *workflow.Pack {
	b.Helper()
	p, err := b.view.Packs.Pack(b.Context(), b.key(lane, attempt))
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func (b *bench) done() map[int]bool {
	b.Helper()
	set, err := b.view.Packs.Done(b.Context(), b.key(0, 1).Run(), 0)
	if err != nil {
		b.Fatal(err)
	}
	return set.Done
}

func (b *bench) report(alarm bool) *lifecycle.Report {
	b.Helper()
	rep, err := b.d.Report(b.Context(), b.r, b.Now(), alarm)
	if err != nil {
		b.Fatal(err)
	}
	return rep
}

func (b *bench) close() *lifecycle.Report {
	b.Helper()
	rep, err := b.d.Close(b.Context(), b.r, b.Now())
	if err != nil {
		b.Fatal(err)
	}
	return rep
}

// sent are the packs that were sent, whatever their delay.
func (b *bench) sent() (all []*workflow.PackMessage) {
	now := b.Now()
	b.Advance(time.Hour)
	for {
		m, ok := b.pool.Receive(0)
		if !ok {
			break
		}
		b.pool.Delete(m)
		all = append(all, m.Pack())
	}
	b.Advance(now.Sub(b.Now()))
	return all
}

func lanes(messages []*workflow.PackMessage) (all []int) {
	for _, m := range messages {
		all = append(all, m.Key.Lane)
	}
	return all
}

func (b *bench) codes(p *workflow.Pack, want ...workflow.JobCode) {
	b.Helper()
	if p == nil || len(p.Jobs) != len(want) {
		b.Fatalf("the pack is %+v, want %v", p, want)
	}
	for i, rec := range p.Jobs {
		if rec.Code != want[i] {
			b.Errorf("job %d is %s, want %s", rec.Index, rec.Code, want[i])
		}
	}
}
