package dispatch_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fixture is a simulated world with one step run and its dispatcher. The tests write
// packs themselves, as workers would.
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
	skewAndGrace = 7 * time.Second
)

// newFixture makes a step run with a number of jobs in packs of packSize. change, if
// not nil, adjusts it.
func newFixture(t *testing.T, jobs, packSize int, change func(*workflow.StepRun, *workflow.Work)) *fixture {
	f := &fixture{T: t, World: sim.New(1)}
	f.ports, f.queue = f.Open(), f.PoolQueue("default")
	f.d = &dispatch.Dispatcher{Packs: f.ports.Packs, Sender: f.ports.Sender, Limits: dispatch.Limits{
		Skew: 2 * time.Second, Grace: 5 * time.Second, RedispatchInterval: time.Minute, MaxTakeovers: 3,
		MessageLife: time.Hour, Unclaimed: 20 * time.Minute, Stuck: 12 * time.Minute, ChainBytes: 64 << 10, Parallel: 1,
	}}
	step := &workflow.StepRun{
		Seq: 3, Label: "one", Ordinal: 1, Kind: workflow.JobExecute, Status: sm.StepRunning,
		EnteredAt: f.Now(), DispatchedAt: f.Now(), Jobs: jobs, PackSize: packSize, MaxAttempts: 1,
	}
	work := workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0", Step: "one", Pool: "default", Lanes: step.Lanes()}
	if change != nil {
		change(step, &work)
	}
	step.MaxAttempts = work.MaxAttempts()
	f.r = &dispatch.StepRun{Tenant: "t", Execution: "x", Step: step, Work: work, Jobs: func(context.Context) ([]workflow.JobInput, error) {
		var all []workflow.JobInput
		for i := range jobs {
			all = append(all, workflow.JobInput{Index: i, Entity: &workflow.EntityKey{Type: "device", ID: letter(i)}, Parameters: json.RawMessage(`{}`)})
		}
		return all, nil
	}}
	return f
}

func letter(i int) string { return string(rune('a' + i)) }

func withRetries(n int) func(*workflow.StepRun, *workflow.Work) {
	return func(_ *workflow.StepRun, w *workflow.Work) {
		w.Retry = &workflow.Retry{MaxRetries: n, Delay: workflow.Duration(time.Minute)}
	}
}

func (f *fixture) key(lane, attempt int) workflow.PackKey {
	return workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 3}.Pack(lane, attempt)
}

// writePack claims a pack now, with codes for its jobs from index first on, and then
// finishes it unless state is PackClaimed.
func (f *fixture) writePack(lane, attempt int, state workflow.PackState, first int, codes ...workflow.JobCode) *workflow.Pack {
	f.Helper()
	return f.writeFailedPack(lane, attempt, state, first, workflow.Failure{Code: "REFUSED", Message: "no", Retryable: true}, codes...)
}

// writeFailedPack is writePack with the failure of the jobs that fail.
func (f *fixture) writeFailedPack(lane, attempt int, state workflow.PackState, first int, why workflow.Failure, codes ...workflow.JobCode) *workflow.Pack {
	f.Helper()
	p := &workflow.Pack{Key: f.key(lane, attempt), State: workflow.PackClaimed, Token: 1, Lease: f.Now().Add(lease), Nonce: f.Nonce(), Worker: "w", ClaimedAt: f.Now()}
	for i, c := range codes {
		rec := workflow.JobRecord{Index: first + i, Code: c}
		switch c {
		case workflow.JobCodeOK:
			rec.Result = json.RawMessage(`"done"`)
		case workflow.JobCodeFail:
			rec.Failure = &why
		}
		p.Jobs = append(p.Jobs, rec)
	}
	ok, _, err := f.ports.Packs.Claim(f.Context(), p)
	if err == nil && ok && state != workflow.PackClaimed {
		p.State, p.FinishedAt = state, f.Now()
		ok, _, err = f.ports.Packs.Finish(f.Context(), p)
	}
	if err != nil || !ok {
		f.Fatal(ok, err)
	}
	return p
}

func (f *fixture) readPack(lane, attempt int) *workflow.Pack {
	f.Helper()
	p, err := f.ports.Packs.Pack(f.Context(), f.key(lane, attempt))
	if err != nil {
		f.Fatal(err)
	}
	return p
}

func (f *fixture) doneLanes() map[int]bool {
	f.Helper()
	set, err := f.ports.Packs.DoneSet(f.Context(), f.key(0, 1).StepRunKey(), 0)
	if err != nil {
		f.Fatal(err)
	}
	return set.Done
}

func (f *fixture) report(timerFired bool) *lifecycle.Report {
	f.Helper()
	rep, err := f.d.Report(f.Context(), f.r, f.Now(), timerFired)
	if err != nil {
		f.Fatal(err)
	}
	if rep.Offered {
		f.r.Step.OfferedAt = f.Now()
	}
	if rep.PassedOver && !f.r.Step.PassedOver() {
		f.r.Step.PassedOverAt = f.Now()
	}
	if rep.Behind {
		f.r.Step.PassedOverAt = time.Time{}
	}
	return rep
}

// unclaimedAfterOffer checks twice, as the engine does by its timer: the first check sends
// the packs once more, the next one reports whether they are still unclaimed.
func (f *fixture) unclaimedAfterOffer() bool {
	f.Helper()
	if f.r.DueAt = (time.Time{}); f.report(true).Unclaimed {
		f.Error("unclaimed before the packs were sent once more")
	}
	f.Advance(time.Minute)
	f.r.DueAt = f.Now()
	return f.report(true).Unclaimed
}

func (f *fixture) close() *lifecycle.Report {
	f.Helper()
	rep, err := f.d.CloseStepRun(f.Context(), f.r, f.Now())
	if err != nil {
		f.Fatal(err)
	}
	return rep
}

// drainQueue receives and deletes all packs in the queue, whatever their delay.
func (f *fixture) drainQueue() (all []*workflow.PackMessage) {
	now := f.Now()
	f.Advance(time.Hour)
	for {
		m, ok := f.queue.Receive(0)
		if !ok {
			break
		}
		f.queue.Delete(m)
		all = append(all, m.Pack())
	}
	f.Advance(now.Sub(f.Now()))
	return all
}

func laneNumbers(messages []*workflow.PackMessage) (all []int) {
	for _, m := range messages {
		all = append(all, m.Key.Lane)
	}
	return all
}

func (f *fixture) wantCodes(p *workflow.Pack, want ...workflow.JobCode) {
	f.Helper()
	if p == nil || len(p.Jobs) != len(want) {
		f.Fatalf("the pack is %+v, want %v", p, want)
	}
	for i, rec := range p.Jobs {
		if rec.Code != want[i] {
			f.Errorf("job %d is %s, want %s", rec.Index, rec.Code, want[i])
		}
	}
}
