package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// faultScenario is a step run of several lanes with a window of one and a retry. Workers
// run it while calls fail and workers crash. Its invariants are checked at every call.
type faultScenario struct {
	*fixture
	kind   string
	lanes  int
	items  map[workflow.PackKey]*workflow.Pack // the packs as written, so that a check needs no call
	finals map[workflow.PackKey]string         // each pack as it was when it became final
	closed bool                                // the engine has closed the step run
}

const jobsPerLane = 2

func newFaultScenario(t *testing.T, kind string, seed uint64) *faultScenario {
	p := &faultScenario{fixture: newFixture(t), kind: kind, lanes: 3, items: map[workflow.PackKey]*workflow.Pack{}, finals: map[workflow.PackKey]string{}}
	p.World = sim.New(seed)
	p.PoolQueue("default")
	p.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		p.checkStart(job)
		// Allow a crash or a pause here, as in a port call.
		if _, fault := p.Intercept("block"); fault == faults.CrashBefore || fault == faults.CrashAfter {
			panic(faults.Crash{Call: faults.Call{Name: "block " + job.ID}})
		}
		if job.Attempt == 1 && job.Entity.ID == "d3" {
			return nil, worker.Retryable("FLAKY", errors.New("the first attempt fails"))
		}
		return map[string]int{"attempt": job.Attempt}, nil
	}
	return p
}

// firstMessage returns the message of the first lane, with the others in its chain.
func (p *faultScenario) firstMessage() *workflow.PackMessage {
	m := p.newMessage(p.kind, 0, p.lanes, jobsPerLane)
	m.NotAfter = sim.StartTime.Add(24 * time.Hour)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(10 * time.Second)}
	for lane := 1; lane < p.lanes; lane++ {
		m.Chain = append(m.Chain, workflow.LaneJobs{Lane: lane, Jobs: inputs(lane, jobsPerLane)})
	}
	return m
}

// checkStart checks that a job starts only in a claimed pack, and a job that must not run
// twice only once per attempt.
func (p *faultScenario) checkStart(job *worker.Job) {
	p.Helper()
	if p.kind == pure {
		return
	}
	var index int
	if _, err := fmt.Sscanf(job.Entity.ID, "d%d", &index); err != nil {
		p.Fatal(err)
	}
	pack := p.items[stepRun.Pack(index/jobsPerLane, job.Attempt)]
	if pack == nil || pack.Final() {
		p.Errorf("job %s starts while its pack is %+v", job.ID, pack)
	}
	if n := p.startCount(job.ID); p.kind == nonIdempotent && n > 1 {
		p.Errorf("job %s starts %d times", job.ID, n)
	}
}

// checkedPorts checks that a follow-up of a pack is sent only when it may be.
type checkedPorts struct {
	worker.Packs
	worker.Sender
	p *faultScenario
}

// recordWrite returns a function that records the pack if it was written.
func (c checkedPorts) recordWrite(p *workflow.Pack) func(bool, *workflow.Pack, error) (bool, *workflow.Pack, error) {
	return func(ok bool, old *workflow.Pack, err error) (bool, *workflow.Pack, error) {
		if ok && err == nil {
			item := *p
			c.p.items[p.Key] = &item
		}
		return ok, old, err
	}
}

func (c checkedPorts) Claim(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	return c.recordWrite(p)(c.Packs.Claim(ctx, p))
}

func (c checkedPorts) TakeOver(ctx context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return c.recordWrite(next)(c.Packs.TakeOver(ctx, seen, next))
}

func (c checkedPorts) Finish(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	return c.recordWrite(p)(c.Packs.Finish(ctx, p))
}

func (c checkedPorts) FinishUnclaimed(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	return c.recordWrite(p)(c.Packs.FinishUnclaimed(ctx, p))
}

func (c checkedPorts) AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error) {
	if last := c.p.lastPackOf(key.Lane); last == nil || last.Unsuccessful() && !end.Unsuccessful {
		c.p.Errorf("lane %d is added with %+v, while its last pack is %+v", key.Lane, end, last)
	}
	return c.Packs.AddDone(ctx, key, end)
}

func (c checkedPorts) SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) ([]workflow.PackKey, error) {
	for _, m := range packs {
		switch k := m.Key; {
		case k.Attempt > 1:
			if before := c.p.items[stepRun.Pack(k.Lane, k.Attempt-1)]; before == nil || before.State != workflow.PackFinished {
				c.p.Errorf("%s is sent after %+v", k, before)
			}
		case k.Lane > 0 && c.p.lastPackOf(k.Lane-1) == nil:
			c.p.Errorf("lane %d is sent before lane %d is done", k.Lane, k.Lane-1)
		}
	}
	return c.Sender.SendPacks(ctx, now, packs)
}

// lastPackOf returns the lane's last pack, nil if the lane is not done.
func (p *faultScenario) lastPackOf(lane int) *workflow.Pack {
	for attempt := 1; ; attempt++ {
		pack := p.items[stepRun.Pack(lane, attempt)]
		if !pack.Final() {
			return nil
		}
		if len(workflow.RetryableJobs(pack, 2)) == 0 {
			return pack
		}
	}
}

// receive hands a message to a worker, which may crash. It reports whether there was a
// message.
func (p *faultScenario) receive(w *worker.Worker) (received bool) {
	q := p.PoolQueue("default")
	msg, ok := q.Receive(30 * time.Second)
	if !ok {
		return false
	}
	ports := p.ports()
	var d worker.Disposition
	var err error
	crashed := faults.CatchCrash(func() {
		checked := checkedPorts{ports.Packs, ports.Sender, p}
		d, err = w.Handle(context.Background(), msg.Pack(), worker.Ports{Packs: checked, Sender: checked, Meter: ports.Meter})
	})
	switch {
	case crashed || err != nil:
	case d.Done:
		q.Delete(msg)
	default:
		q.ChangeVisibility(msg, d.RetryAfter)
	}
	return true
}

// recordFinals reads all packs between calls and records those that are final.
func (p *faultScenario) recordFinals() {
	p.Helper()
	for lane := range p.lanes {
		for attempt := 1; attempt <= 2; attempt++ {
			key := stepRun.Pack(lane, attempt)
			if p.finals[key] != "" {
				continue
			}
			if p.items[key] = p.pack(key); p.items[key].Final() {
				p.finals[key] = text(p.items[key])
			}
		}
	}
}

// wantFinalsUnchanged checks that no final pack has changed.
func (p *faultScenario) wantFinalsUnchanged() {
	p.Helper()
	for key, before := range p.finals {
		if now := text(p.pack(key)); now != before {
			p.Errorf("%s is %s, was %s", key, now, before)
		}
	}
}

func text(p *workflow.Pack) string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// drain receives until no message is left.
func (p *faultScenario) drain(w *worker.Worker) {
	p.Helper()
	for range 500 {
		if p.receive(w) {
			p.recordFinals()
			continue
		}
		at, ok := p.PoolQueue("default").NextVisible()
		if !ok {
			return
		}
		p.Advance(at.Sub(p.Now()))
	}
	p.Fatal("there are still messages after 500 receives")
}

// wantComplete checks that the step run is complete and that its job codes agree with the
// jobs that started.
func (p *faultScenario) wantComplete() {
	p.Helper()
	p.wantFinalsUnchanged()
	set := p.doneSet()
	if len(set.Done) != p.lanes {
		p.Errorf("lanes done: %v", set.Done)
	}
	if len(p.wakeups()) == 0 {
		p.Error("no wake-up was sent")
	}
	for lane := range p.lanes {
		last := p.lastPackOf(lane)
		if last == nil {
			p.Errorf("lane %d is not done", lane)
			continue
		}
		for attempt := 1; attempt <= last.Key.Attempt; attempt++ {
			for _, j := range p.pack(stepRun.Pack(lane, attempt)).Jobs {
				n := p.startCount(workflow.JobID(stepRun.Execution, stepRun.Seq, j.Index, attempt))
				if (n == 0) != (j.Code == codeNotExecuted) && j.Code != codeUnknown {
					p.Errorf("job %d of attempt %d is %s after %d starts", j.Index, attempt, j.Code, n)
				}
				if j.Code == codeUnknown && p.kind != nonIdempotent && !p.closed {
					p.Errorf("job %d of a %s block is UNKNOWN", j.Index, p.kind)
				}
			}
		}
		if !p.closed && p.kind != nonIdempotent && last.Unsuccessful() {
			p.Errorf("lane %d is unsuccessful: %v", lane, jobCodes(last))
		}
	}
}

// Each fault is injected at each call, the block's own included. The message is delivered
// again, and the step run must complete: without the engine's timer, unless the fault hits
// the one call after which only the timer knows that the next lane was not sent.
func TestWorker_SurvivesFaultAtEveryCall(t *testing.T) {
	for _, kind := range kinds {
		for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
			calls := 0
			for n := 1; ; n++ {
				p := newFaultScenario(t, kind, uint64(n))
				p.withoutFaults(func(v sim.View) {
					if _, err := v.Sender.SendPacks(context.Background(), p.Now(), []*workflow.PackMessage{p.firstMessage()}); err != nil {
						t.Fatal(err)
					}
				})
				injected := "" // the call that got the fault
				plan := faults.At(n, fault)
				p.Faults = func(c faults.Call) faults.Fault {
					f := plan(c)
					if f != faults.None {
						injected = c.Name
					}
					return f
				}
				p.drain(p.worker())
				p.Faults = nil
				for range p.lanes {
					if len(p.doneSet().Done) == p.lanes {
						break
					}
					if injected != "packs.add_done" && injected != "sender.send_packs" {
						t.Errorf("the timer is needed after a fault at %s", injected)
					}
					p.Advance(pastLease)
					p.runEngine(false)
					p.drain(p.worker())
				}
				p.wantComplete()
				if t.Failed() {
					t.Fatalf("%s, %s at call %d: %v", kind, fault, n, p.Trace())
				}
				if injected == "" {
					break
				}
				calls = n
			}
			if calls < 15 {
				t.Errorf("%s: only %d calls, want at least 15", kind, calls)
			}
		}
	}
}

// runEngine does the engine's part: it closes the step run, or walks its lanes as its timer
// does. It reports whether the step run is complete.
func (p *faultScenario) runEngine(closeStepRun bool) (complete bool) {
	p.Helper()
	m := p.firstMessage()
	jobs := m.Jobs
	for _, c := range m.Chain {
		jobs = append(jobs, c.Jobs...)
	}
	p.withoutFaults(func(v sim.View) {
		d := dispatch.Dispatcher{Packs: v.Packs, Sender: v.Sender, Limits: dispatch.Limits{
			Skew: 2 * time.Second, Grace: 5 * time.Second, RedispatchInterval: time.Minute, MaxTakeovers: 5,
			MessageLife: 24 * time.Hour, Unclaimed: 1000 * time.Hour, ChainBytes: 1 << 16, Parallel: 1,
		}}
		r := &dispatch.StepRun{
			Tenant: stepRun.Tenant, Execution: stepRun.Execution, Work: m.Work,
			Step: &workflow.StepRun{
				Seq: stepRun.Seq, Ordinal: stepRun.Ordinal, Label: "step", Kind: workflow.JobExecute, Status: sm.StepRunning,
				Pure: m.Work.Pure, Idempotent: m.Work.Idempotent, Jobs: len(jobs), PackSize: jobsPerLane, Window: 1, MaxAttempts: 2,
				EnteredAt: sim.StartTime, DispatchedAt: sim.StartTime,
			},
			Jobs: func(context.Context) ([]workflow.JobInput, error) { return jobs, nil },
		}
		advance := d.CloseStepRun
		if !closeStepRun {
			advance = func(ctx context.Context, r *dispatch.StepRun, now time.Time) (*lifecycle.Report, error) {
				return d.Report(ctx, r, now, true)
			}
		}
		report, err := advance(context.Background(), r, p.Now())
		if err != nil {
			p.Fatal(err)
		}
		complete = report.Complete
	})
	p.recordFinals()
	return complete
}

// Several workers run at once. Their calls interleave in random order, with pauses longer
// than a lease, duplicate messages, faults and crashes. For every other seed the engine
// closes the step run meanwhile.
func TestWorker_SurvivesRandomFaultsAndInterleavings(t *testing.T) {
	for seed := range uint64(210) {
		kind := kinds[seed%3]
		p := newFaultScenario(t, kind, seed)
		p.QueueFaults.DuplicateOneIn, p.QueueFaults.Shuffle = 4, true
		r := rand.New(rand.NewPCG(seed, 1))
		p.runEngine(false)
		p.Faults = faults.Randomly(r, 25, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		mayClose := seed%2 == 0
		var tasks []*faults.Task
		for step := range 220 {
			for i := 0; i < len(tasks); i++ {
				if tasks[i].Done() {
					tasks = append(tasks[:i], tasks[i+1:]...)
					i--
				}
			}
			switch n := r.IntN(20); {
			case n < 3 && len(tasks) < 3:
				tasks = append(tasks, p.StartTask(fmt.Sprint("w", step), func() { p.receive(p.worker()) }))
			case n == 3:
				p.Advance(time.Duration(r.IntN(40)) * time.Second)
			case n == 4 && r.IntN(4) == 0:
				p.Advance(pastLease)
			case n == 5 && mayClose && step > 20:
				p.closed = true
				p.runEngine(true)
			case n == 6 && !p.closed && r.IntN(3) == 0:
				p.runEngine(false)
			case len(tasks) > 0 && n > 6:
				tasks[r.IntN(len(tasks))].Step()
			}
			p.recordFinals()
		}
		p.Faults = nil
		for _, task := range tasks {
			if r.IntN(2) == 0 {
				task.Kill()
			} else {
				task.Finish()
			}
			p.recordFinals()
		}
		complete := false
		for range 60 {
			p.drain(p.worker())
			if complete = p.runEngine(p.closed); complete {
				break
			}
			p.Advance(pastLease)
		}
		if !complete {
			t.Errorf("the step run does not complete")
		}
		if p.drain(p.worker()); !p.closed {
			p.wantComplete()
		} else {
			startedBefore := len(p.started)
			p.wantClosed()
			if kind != pure && len(p.started) != startedBefore {
				t.Errorf("a job of a closed step run started")
			}
		}
		if t.Failed() {
			t.Fatalf("%s, seed %d, closed %v: %v", kind, seed, p.closed, p.Trace())
		}
	}
}

// wantClosed delivers every message that may still arrive after the step run was closed.
func (p *faultScenario) wantClosed() {
	p.Helper()
	for lane := range p.lanes {
		m := p.firstMessage()
		m.Key.Lane, m.Jobs, m.Chain = lane, inputs(lane, jobsPerLane), nil
		_, _, _ = p.handle(p.worker(), m)
	}
	p.wantFinalsUnchanged()
	for lane := range p.lanes {
		for attempt := 1; attempt <= 2; attempt++ {
			pack := p.pack(stepRun.Pack(lane, attempt))
			if pack == nil && attempt == 1 {
				p.Errorf("lane %d is open", lane)
			}
			if pack == nil {
				continue
			}
			for _, j := range pack.Jobs {
				n := p.startCount(workflow.JobID(stepRun.Execution, stepRun.Seq, j.Index, attempt))
				if p.kind != pure && j.Code == codeNotExecuted && n > 0 {
					p.Errorf("job %d of attempt %d counts as not executed after %d starts", j.Index, attempt, n)
				}
			}
		}
	}
}
