package dispatch_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/tests/sim"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fixture is a world with the engine's side of one step run. Its packs are written
// by hand, as workers would.
type fixture struct {
	*testing.T
	*sim.World
	ports sim.View
	d     *dispatch.Dispatcher
	r     *dispatch.StepRun
	queue *sim.Queue
}

const (
	lease        = time.Minute
	skewAndGrace = 7 * time.Second // skew and grace
)

// newFixture is a run of so many jobs in packs of so many; change may make it
// another one.
func newFixture(t *testing.T, jobs, size int, change func(*workflow.StepRun, *workflow.Work)) *fixture {
	b := &fixture{T: t, World: sim.New(1)}
	b.ports, b.queue = b.Open(), b.PoolQueue("default")
	b.d = &dispatch.Dispatcher{Packs: b.ports.Packs, Sender: b.ports.Sender, Limits: dispatch.Limits{
		Skew: 2 * time.Second, Grace: 5 * time.Second, RedispatchInterval: time.Minute, MaxTakeovers: 3,
		MessageLife: time.Hour, Unclaimed: 20 * time.Minute, Stuck: 12 * time.Minute, ChainBytes: 64 << 10, Parallel: 1,
	}}
	step := &workflow.StepRun{
		Seq: 3, Label: "one", Ordinal: 1, Kind: workflow.JobExecute, Status: sm.StepRunning,
		EnteredAt: b.Now(), DispatchedAt: b.Now(), Jobs: jobs, PackSize: size, MaxAttempts: 1,
	}
	work := workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0", Step: "one", Pool: "default", Lanes: step.Lanes()}
	if change != nil {
		change(step, &work)
	}
	step.MaxAttempts = work.MaxAttempts()
	b.r = &dispatch.StepRun{Tenant: "t", Execution: "x", Step: step, Work: work, Jobs: func(context.Context) ([]workflow.JobInput, error) {
		var all []workflow.JobInput
		for i := range jobs {
			all = append(all, workflow.JobInput{Index: i, Entity: &workflow.EntityKey{Type: "device", ID: letter(i)}, Parameters: json.RawMessage(`{}`)})
		}
		return all, nil
	}}
	return b
}

func letter(i int) string { return string(rune('a' + i)) }

func withRetries(n int) func(*workflow.StepRun, *workflow.Work) {
	return func(_ *workflow.StepRun, w *workflow.Work) {
		w.Retry = &workflow.Retry{MaxRetries: n, Delay: workflow.Duration(time.Minute)}
	}
}

func (b *fixture) key(lane, attempt int) workflow.PackKey {
	return workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 3}.Pack(lane, attempt)
}

// writePack writes a pack: claimed now unless it is final, with the codes given for
// the jobs from the first on.
func (b *fixture) writePack(lane, attempt int, state workflow.PackState, first int, codes ...workflow.JobCode) *workflow.Pack {
	b.Helper()
	p := &workflow.Pack{Key: b.key(lane, attempt), State: workflow.PackClaimed, Token: 1, Lease: b.Now().Add(lease), Nonce: b.Nonce(), Worker: "w", ClaimedAt: b.Now()}
	for i, c := range codes {
		rec := workflow.JobRecord{Index: first + i, Code: c}
		switch c {
		case workflow.JobCodeOK:
			rec.Result = json.RawMessage(`"done"`)
		case workflow.JobCodeFail:
			rec.Failure = &workflow.Failure{Code: "REFUSED", Message: "no", Retryable: true}
		}
		p.Jobs = append(p.Jobs, rec)
	}
	ok, _, err := b.ports.Packs.Claim(b.Context(), p)
	if err == nil && ok && state != workflow.PackClaimed {
		p.State, p.FinishedAt = state, b.Now()
		ok, _, err = b.ports.Packs.Finish(b.Context(), p)
	}
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	return p
}

func (b *fixture) readPack(lane, attempt int) *workflow.Pack {
	b.Helper()
	p, err := b.ports.Packs.Pack(b.Context(), b.key(lane, attempt))
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func (b *fixture) doneLanes() map[int]bool {
	b.Helper()
	set, err := b.ports.Packs.DoneSet(b.Context(), b.key(0, 1).StepRunKey(), 0)
	if err != nil {
		b.Fatal(err)
	}
	return set.Done
}

func (b *fixture) report(timerFired bool) *lifecycle.Report {
	b.Helper()
	rep, err := b.d.Report(b.Context(), b.r, b.Now(), timerFired)
	if err != nil {
		b.Fatal(err)
	}
	return rep
}

func (b *fixture) close() *lifecycle.Report {
	b.Helper()
	rep, err := b.d.CloseStepRun(b.Context(), b.r, b.Now())
	if err != nil {
		b.Fatal(err)
	}
	return rep
}

// drainQueue are the packs that were sent, whatever their delay.
func (b *fixture) drainQueue() (all []*workflow.PackMessage) {
	now := b.Now()
	b.Advance(time.Hour)
	for {
		m, ok := b.queue.Receive(0)
		if !ok {
			break
		}
		b.queue.Delete(m)
		all = append(all, m.Pack())
	}
	b.Advance(now.Sub(b.Now()))
	return all
}

func laneNumbers(messages []*workflow.PackMessage) (all []int) {
	for _, m := range messages {
		all = append(all, m.Key.Lane)
	}
	return all
}

func (b *fixture) wantCodes(p *workflow.Pack, want ...workflow.JobCode) {
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
