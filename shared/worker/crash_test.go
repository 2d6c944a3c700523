package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A play is a run of several lanes with a window of one and a retry, worked on
// while calls fail and workers die. What must hold is judged at every call.
type play struct {
	*rig
	kind   string
	lanes  int
	items  map[workflow.PackKey]*workflow.Pack // the packs, for whoever judges: looking must be no call
	finals map[workflow.PackKey]string         // each pack as it was when it became final
	closed bool                                // the engine has closed the run
}

const jobsPerLane = 2

func newPlay(t *testing.T, kind string, seed uint64) *play {
	p := &play{rig: newRig(t), kind: kind, lanes: 3, items: map[workflow.PackKey]*workflow.Pack{}, finals: map[workflow.PackKey]string{}}
	p.World = sim.New(seed)
	p.MakePool("default")
	p.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		p.judgeStart(job)
		// A place to die or to stand still in, as in a call.
		if _, fault := p.Reach("block"); fault == fate.CrashBefore || fault == fate.CrashAfter {
			panic(fate.Crash{Call: fate.Call{Name: "block " + job.ID}})
		}
		if job.Attempt == 1 && job.Entity.ID == "d3" {
			return nil, worker.Retryable("FLAKY", errors.New("the first attempt fails"))
		}
		return map[string]int{"attempt": job.Attempt}, nil
	}
	return p
}

func (p *play) first() *workflow.PackMessage {
	m := p.message(p.kind, 0, p.lanes, jobsPerLane)
	m.NotAfter = sim.Dawn.Add(24 * time.Hour)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(10 * time.Second)}
	for lane := 1; lane < p.lanes; lane++ {
		m.Chain = append(m.Chain, workflow.LaneJobs{Lane: lane, Jobs: inputs(lane, jobsPerLane)})
	}
	return m
}

// judgeStart: a job begins only in a pack that is claimed, and one of a block that
// must not run twice only once an attempt.
func (p *play) judgeStart(job *worker.Job) {
	p.Helper()
	if p.kind == pure {
		return
	}
	var index int
	if _, err := fmt.Sscanf(job.Entity.ID, "d%d", &index); err != nil {
		p.Fatal(err)
	}
	pack := p.items[run.Pack(index/jobsPerLane, job.Attempt)]
	if pack == nil || pack.Final() {
		p.Errorf("job %s begins while its pack is %+v", job.ID, pack)
	}
	if n := p.starts(job.ID); p.kind == nd && n > 1 {
		p.Errorf("job %s begins %d times", job.ID, n)
	}
}

// judged lets everything that follows a pack through only if it may follow.
type judged struct {
	worker.Packs
	worker.Queue
	p *play
}

// kept keeps what is known to be written.
func (j judged) kept(p *workflow.Pack) func(bool, *workflow.Pack, error) (bool, *workflow.Pack, error) {
	return func(ok bool, old *workflow.Pack, err error) (bool, *workflow.Pack, error) {
		if ok && err == nil {
			item := *p
			j.p.items[p.Key] = &item
		}
		return ok, old, err
	}
}

func (j judged) Claim(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	return j.kept(p)(j.Packs.Claim(ctx, p))
}

func (j judged) TakeOver(ctx context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return j.kept(next)(j.Packs.TakeOver(ctx, seen, next))
}

func (j judged) Finish(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	return j.kept(p)(j.Packs.Finish(ctx, p))
}

func (j judged) FinishUnclaimed(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	return j.kept(p)(j.Packs.FinishUnclaimed(ctx, p))
}

func (j judged) AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneEnd) (workflow.DoneSet, error) {
	if last := j.p.over(key.Lane); last == nil || last.Bad() && !end.Bad {
		j.p.Errorf("lane %d is added with %+v, while its last pack is %+v", key.Lane, end, last)
	}
	return j.Packs.AddDone(ctx, key, end)
}

func (j judged) Offer(ctx context.Context, now time.Time, packs []*workflow.PackMessage) ([]workflow.PackKey, error) {
	for _, m := range packs {
		switch k := m.Key; {
		case k.Attempt > 1:
			if before := j.p.items[run.Pack(k.Lane, k.Attempt-1)]; before == nil || before.State != workflow.PackFinished {
				j.p.Errorf("%s is sent after %+v", k, before)
			}
		case k.Lane > 0 && j.p.over(k.Lane-1) == nil:
			j.p.Errorf("lane %d is sent before lane %d is over", k.Lane, k.Lane-1)
		}
	}
	return j.Queue.Offer(ctx, now, packs)
}

// over is the lane's last pack if the lane is over.
func (p *play) over(lane int) *workflow.Pack {
	for attempt := 1; ; attempt++ {
		pack := p.items[run.Pack(lane, attempt)]
		if !pack.Final() {
			return nil
		}
		if len(workflow.Retries(pack, 2)) == 0 {
			return pack
		}
	}
}

// receive takes a message and lets a worker answer it, which may die of it.
func (p *play) receive(w *worker.Worker) (worked bool) {
	q := p.MakePool("default")
	msg, ok := q.Receive(30 * time.Second)
	if !ok {
		return false
	}
	ports := p.ports()
	var d worker.Disposition
	var err error
	died := fate.Survive(func() {
		j := judged{ports.Packs, ports.Queue, p}
		d, err = w.Handle(context.Background(), msg.Pack(), worker.Ports{Packs: j, Queue: j, Meter: ports.Meter})
	})
	switch {
	case died || err != nil:
	case d.Done:
		q.Delete(msg)
	default:
		q.Defer(msg, d.After)
	}
	return true
}

// watch looks at all packs, between calls, and remembers those that are final.
func (p *play) watch() {
	p.Helper()
	for lane := range p.lanes {
		for attempt := 1; attempt <= 2; attempt++ {
			key := run.Pack(lane, attempt)
			if p.finals[key] != "" {
				continue
			}
			if p.items[key] = p.pack(key); p.items[key].Final() {
				p.finals[key] = text(p.items[key])
			}
		}
	}
}

// unchanged sees to it that what was final has stayed as it was.
func (p *play) unchanged() {
	p.Helper()
	for key, was := range p.finals {
		if is := text(p.pack(key)); is != was {
			p.Errorf("%s is %s, was %s", key, is, was)
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

// drain goes on until no message is left.
func (p *play) drain(w *worker.Worker) {
	p.Helper()
	for range 500 {
		if p.receive(w) {
			p.watch()
			continue
		}
		at, ok := p.MakePool("default").Next()
		if !ok {
			return
		}
		p.Advance(at.Sub(p.Now()))
	}
	p.Fatal("messages never end")
}

// end judges a run that should be over, and what its codes say about what was.
func (p *play) end() {
	p.Helper()
	p.unchanged()
	set := p.set()
	if len(set.Done) != p.lanes {
		p.Errorf("lanes done: %v", set.Done)
	}
	if len(p.looks()) == 0 {
		p.Error("nobody tells the engine")
	}
	for lane := range p.lanes {
		last := p.over(lane)
		if last == nil {
			p.Errorf("lane %d is not over", lane)
			continue
		}
		for attempt := 1; attempt <= last.Key.Attempt; attempt++ {
			for _, j := range p.pack(run.Pack(lane, attempt)).Jobs {
				n := p.starts(workflow.JobID(run.Execution, run.RunSeq, j.Index, attempt))
				if (n == 0) != (j.Code == notExecuted) && j.Code != unknown {
					p.Errorf("job %d of attempt %d is %s after %d starts", j.Index, attempt, j.Code, n)
				}
				if j.Code == unknown && p.kind != nd && !p.closed {
					p.Errorf("job %d of %s is not known", j.Index, p.kind)
				}
			}
		}
		if !p.closed && p.kind != nd && last.Bad() {
			p.Errorf("lane %d is bad: %v", lane, codes(last))
		}
	}
}

// TestCrashAtEveryCall: each fault at each call, the block's own included. The
// message comes again, and all that follows must follow.
func TestCrashAtEveryCall(t *testing.T) {
	for _, kind := range kinds {
		for _, fault := range []fate.Fault{fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated} {
			calls := 0
			for n := 1; ; n++ {
				p := newPlay(t, kind, uint64(n))
				p.without(func(v sim.View) {
					if _, err := v.Board.Offer(context.Background(), p.Now(), []*workflow.PackMessage{p.first()}); err != nil {
						t.Fatal(err)
					}
				})
				struck := false
				plan := fate.At(n, fault)
				p.Faults = func(c fate.Call) fate.Fault {
					f := plan(c)
					struck = struck || f != fate.None
					return f
				}
				p.drain(p.worker())
				p.Faults = nil
				p.end()
				if t.Failed() {
					t.Fatalf("%s, %s at call %d: %v", kind, fault, n, p.Trace())
				}
				if !struck {
					break
				}
				calls = n
			}
			if calls < 15 {
				t.Errorf("%s: only %d calls", kind, calls)
			}
		}
	}
}

// engine is the other side: it closes the run, or looks after it.
func (p *play) engine(closing bool) (complete bool) {
	p.Helper()
	m := p.first()
	jobs := m.Jobs
	for _, c := range m.Chain {
		jobs = append(jobs, c.Jobs...)
	}
	p.without(func(v sim.View) {
		d := delivery.Delivery{Packs: v.Packs, Board: v.Board, Limits: delivery.Limits{
			Skew: 2 * time.Second, Grace: 5 * time.Second, Poll: time.Minute, MaxTakeovers: 5,
			MessageLife: 24 * time.Hour, Unclaimed: 1000 * time.Hour, ChainBytes: 1 << 16, Parallel: 1,
		}}
		r := &delivery.Run{
			Tenant: run.Tenant, Execution: run.Execution, Work: m.Work,
			Step: &workflow.StepRun{
				RunSeq: run.RunSeq, Visit: run.Visit, Label: "step", Kind: workflow.JobExecute, Status: sm.StepRunning,
				Pure: m.Work.Pure, Idempotent: m.Work.Idempotent, Jobs: len(jobs), PackSize: jobsPerLane, Window: 1, MaxAttempts: 2,
				EnteredAt: sim.Dawn, EpochTime: sim.Dawn,
			},
			Jobs: func(context.Context) ([]workflow.JobInput, error) { return jobs, nil },
		}
		look := d.Close
		if !closing {
			look = func(ctx context.Context, r *delivery.Run, now time.Time) (*lifecycle.Report, error) {
				return d.Report(ctx, r, now, true)
			}
		}
		report, err := look(context.Background(), r, p.Now())
		if err != nil {
			p.Fatal(err)
		}
		complete = report.Complete
	})
	p.watch()
	return complete
}

// TestRandomPlays: several workers at once, in every order of their calls and
// with pauses longer than leases in the middle of jobs, copies of messages,
// faults and deaths; in some plays the engine closes the run meanwhile.
func TestRandomPlays(t *testing.T) {
	for seed := range uint64(210) {
		kind := kinds[seed%3]
		p := newPlay(t, kind, seed)
		p.Deliveries.Duplicate, p.Deliveries.Shuffle = 4, true
		r := rand.New(rand.NewPCG(seed, 1))
		p.engine(false)
		p.Faults = fate.Randomly(r, 25, fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated)
		closing := seed%2 == 0
		var tasks []*fate.Task
		for step := range 220 {
			for i := 0; i < len(tasks); i++ {
				if tasks[i].Over() {
					tasks = append(tasks[:i], tasks[i+1:]...)
					i--
				}
			}
			switch n := r.IntN(20); {
			case n < 3 && len(tasks) < 3:
				tasks = append(tasks, p.Task(fmt.Sprint("w", step), func() { p.receive(p.worker()) }))
			case n == 3:
				p.Advance(time.Duration(r.IntN(40)) * time.Second)
			case n == 4 && r.IntN(4) == 0:
				p.Advance(pastLease)
			case n == 5 && closing && step > 20:
				p.closed = true
				p.engine(true)
			case n == 6 && !p.closed && r.IntN(3) == 0:
				p.engine(false)
			case len(tasks) > 0 && n > 6:
				tasks[r.IntN(len(tasks))].Step()
			}
			p.watch()
		}
		p.Faults = nil
		for _, task := range tasks {
			if r.IntN(2) == 0 {
				task.Kill()
			} else {
				task.Finish()
			}
			p.watch()
		}
		complete := false
		for range 60 {
			p.drain(p.worker())
			if complete = p.engine(p.closed); complete {
				break
			}
			p.Advance(pastLease)
		}
		if !complete {
			t.Errorf("the run is never complete")
		}
		if p.drain(p.worker()); !p.closed {
			p.end()
		} else {
			begun := len(p.started)
			p.closedEnd()
			if kind != pure && len(p.started) != begun {
				t.Errorf("something of a closed run was begun")
			}
		}
		if t.Failed() {
			t.Fatalf("%s, seed %d, closed %v: %v", kind, seed, p.closed, p.Trace())
		}
	}
}

// closedEnd delivers whatever may still arrive of a run that is closed.
func (p *play) closedEnd() {
	p.Helper()
	for lane := range p.lanes {
		m := p.first()
		m.Key.Lane, m.Jobs, m.Chain = lane, inputs(lane, jobsPerLane), nil
		_, _, _ = p.handle(p.worker(), m)
	}
	p.unchanged()
	for lane := range p.lanes {
		for attempt := 1; attempt <= 2; attempt++ {
			pack := p.pack(run.Pack(lane, attempt))
			if pack == nil && attempt == 1 {
				p.Errorf("lane %d is open", lane)
			}
			if pack == nil {
				continue
			}
			for _, j := range pack.Jobs {
				n := p.starts(workflow.JobID(run.Execution, run.RunSeq, j.Index, attempt))
				if p.kind != pure && j.Code == notExecuted && n > 0 {
					p.Errorf("job %d of attempt %d counts as not executed after %d starts", j.Index, attempt, n)
				}
			}
		}
	}
}
