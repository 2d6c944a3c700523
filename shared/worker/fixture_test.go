package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The kinds of blocks that the protocol distinguishes.
const (
	pure          = "test/pure:1.0.0" // changes nothing
	idempotent    = "test/id:1.0.0"   // may run again
	nonIdempotent = "test/nd:1.0.0"   // must not run twice
)

var kinds = []string{pure, idempotent, nonIdempotent}

// lease is the default lease duration; after pastLease it has expired by any clock.
const (
	lease     = time.Minute
	pastLease = lease + 5*time.Second
)

// stepRun is the step run of all messages.
var stepRun = workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 2}

// fixture is a simulated world with workers whose blocks all call blockFunc.
type fixture struct {
	*testing.T
	*sim.World
	logs bytes.Buffer

	// blockFunc is what every block does. Nil: return the attempt.
	blockFunc func(ctx context.Context, job *worker.Job) (map[string]int, error)

	mu         sync.Mutex
	started    []worker.Job // in the order of their start
	running    int
	maxRunning int // highest value of running
}

func newFixture(t *testing.T) *fixture {
	r := &fixture{T: t, World: sim.New(1)}
	r.PoolQueue("default")
	return r
}

// worker returns a worker for the simulation: one goroutine, and the world's clock.
// change may change its options.
func (r *fixture) worker(change ...func(*worker.Options)) *worker.Worker {
	o := worker.Options{
		Name: "w", Sequential: true, Now: r.Now, NewNonce: r.Nonce, Jitter: func() float64 { return 0 },
		Logger: slog.New(slog.NewTextHandler(&r.logs, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	w := worker.New(o)
	for _, kind := range kinds {
		ref, err := workflow.ParseRef(kind)
		if err != nil {
			r.Fatal(err)
		}
		b := worker.Block[map[string]any, map[string]int]{
			Name: ref.Package + "/" + ref.Name, Version: ref.Version,
			Pure: kind == pure, Idempotent: kind == idempotent, Execute: r.execute,
		}
		if kind != pure {
			b.Rollback = func(ctx context.Context, job *worker.Job, p map[string]any, _ *map[string]int) error {
				_, err := r.execute(ctx, job, p)
				return err
			}
		}
		worker.Register(w, b)
	}
	return w
}

// concurrent makes a worker use all its goroutines, in a synctest bubble.
func concurrent(o *worker.Options) { o.Sequential, o.Now = false, time.Now }

func (r *fixture) execute(ctx context.Context, job *worker.Job, _ map[string]any) (map[string]int, error) {
	r.mu.Lock()
	r.started = append(r.started, *job)
	r.running++
	r.maxRunning = max(r.maxRunning, r.running)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	}()
	if r.blockFunc != nil {
		return r.blockFunc(ctx, job)
	}
	return map[string]int{"attempt": job.Attempt}, nil
}

// startCount returns how often a job was started.
func (r *fixture) startCount(jobID string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.started {
		if r.started[i].ID == jobID {
			n++
		}
	}
	return n
}

// newMessage returns the message of one lane, in a step run of so many lanes with so many
// jobs each.
func (r *fixture) newMessage(kind string, lane, lanes, jobs int) *workflow.PackMessage {
	m := &workflow.PackMessage{
		Key: stepRun.Pack(lane, 1),
		Work: workflow.Work{
			Kind: workflow.JobExecute, Block: kind, Step: "step", Pool: "default", Pure: kind == pure, Idempotent: kind == idempotent,
			Timeout: workflow.Duration(10 * time.Minute), Lanes: lanes,
		},
		NotAfter: r.Now().Add(24 * time.Hour),
	}
	m.Jobs = inputs(lane, jobs)
	return m
}

// inputs returns the jobs of one lane.
func inputs(lane, jobs int) (all []workflow.JobInput) {
	for i := lane * jobs; i < (lane+1)*jobs; i++ {
		all = append(all, workflow.JobInput{Index: i, Entity: &workflow.EntityKey{Type: "device", ID: fmt.Sprint("d", i)}, Token: int64(100 + i)})
	}
	return all
}

// ports opens the ports for one message.
func (r *fixture) ports() worker.Ports {
	v := r.Open()
	return worker.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
}

// handle hands a message to a worker and reports whether the worker crashed.
func (r *fixture) handle(w *worker.Worker, m *workflow.PackMessage) (d worker.Disposition, crashed bool, err error) {
	crashed = faults.CatchCrash(func() { d, err = w.Handle(context.Background(), m, r.ports()) })
	return d, crashed, err
}

// mustHandle hands a message to a worker and wants it done.
func (r *fixture) mustHandle(w *worker.Worker, m *workflow.PackMessage) {
	r.Helper()
	if d, crashed, err := r.handle(w, m); crashed || err != nil || !d.Done {
		r.Fatalf("not done: %+v, crashed %v, %v", d, crashed, err)
	}
}

// withoutFaults calls do without injecting faults.
func (r *fixture) withoutFaults(do func(v sim.View)) {
	r.Helper()
	if plan := r.Faults; plan != nil {
		r.Faults = nil
		defer func() { r.Faults = plan }()
	}
	do(r.Open())
}

// pack returns a pack item, nil if there is none.
func (r *fixture) pack(key workflow.PackKey) (p *workflow.Pack) {
	r.Helper()
	r.withoutFaults(func(v sim.View) {
		var err error
		if p, err = v.Packs.Pack(context.Background(), key); err != nil {
			r.Fatal(err)
		}
	})
	return p
}

// jobCodes returns the codes of a pack's jobs.
func jobCodes(p *workflow.Pack) (all []workflow.JobCode) {
	if p == nil {
		return nil
	}
	for _, j := range p.Jobs {
		all = append(all, j.Code)
	}
	return all
}

// wantPack compares a pack's state, token and codes.
func (r *fixture) wantPack(key workflow.PackKey, state workflow.PackState, token int, want ...workflow.JobCode) {
	r.Helper()
	p := r.pack(key)
	if p == nil || p.State != state || p.Token != token || !slices.Equal(jobCodes(p), want) {
		raw, _ := json.Marshal(p)
		r.Errorf("the pack is %s, want %s, token %d, %v", raw, state, token, want)
	}
}

// doneSet returns the done set of the step run's first shard.
func (r *fixture) doneSet() (s workflow.DoneSet) {
	r.Helper()
	r.withoutFaults(func(v sim.View) {
		var err error
		if s, err = v.Packs.DoneSet(context.Background(), stepRun, 0); err != nil {
			r.Fatal(err)
		}
	})
	return s
}

// wakeups removes and returns what was sent to the engine.
func (r *fixture) wakeups() (all []workflow.Wakeup) {
	for {
		m, ok := r.LifecycleQueue().Receive(time.Hour)
		if !ok {
			return all
		}
		r.LifecycleQueue().Delete(m)
		all = append(all, m.Wakeup())
	}
}

// sentPacks removes and returns what was sent to the pool, delayed messages included.
func (r *fixture) sentPacks() (all []*workflow.PackMessage) {
	r.Advance(15 * time.Minute)
	defer r.Advance(-15 * time.Minute)
	q := r.PoolQueue("default")
	for {
		m, ok := q.Receive(time.Hour)
		if !ok {
			return all
		}
		q.Delete(m)
		all = append(all, m.Pack())
	}
}

// crashOnStart crashes the worker at the n-th start of a block.
func (r *fixture) crashOnStart(n int) {
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		if n--; n == 0 {
			panic(faults.Crash{Call: faults.Call{Name: "block"}})
		}
		return nil, nil
	}
}

// cancel requests the cancellation of a claimed pack, as the engine does when it closes a
// step run.
func (r *fixture) cancel(key workflow.PackKey) {
	r.Helper()
	r.withoutFaults(func(v sim.View) {
		if ok, err := v.Packs.RequestCancel(context.Background(), key); !ok || err != nil {
			r.Errorf("cancel not requested: %v %v", ok, err)
		}
	})
}

// Short names of the codes.
const (
	codeNone        = workflow.JobCodeNone
	codeStarted     = workflow.JobCodeStarted
	codeOK          = workflow.JobCodeOK
	codeFailed      = workflow.JobCodeFail
	codeUnknown     = workflow.JobCodeUnknown
	codeNotExecuted = workflow.JobCodeNotExecuted
)
