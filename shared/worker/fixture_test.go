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

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// The kinds of blocks, as the protocol tells them apart.
const (
	pure          = "test/pure:1.0.0" // changes nothing
	idempotent    = "test/id:1.0.0"   // may run again
	nonIdempotent = "test/nd:1.0.0"   // must not run twice
)

var kinds = []string{pure, idempotent, nonIdempotent}

// lease is the default lease; pastLease is later than its end by any clock.
const (
	lease     = time.Minute
	pastLease = lease + 5*time.Second
)

// stepRun is the run that all messages are of.
var stepRun = workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 2}

// fixture is a world with workers in it whose only block does as it is told.
type fixture struct {
	*testing.T
	*sim.World
	logs bytes.Buffer

	// blockFunc is what the block does; it may be nil.
	blockFunc func(ctx context.Context, job *worker.Job) (map[string]int, error)

	mu         sync.Mutex
	started    []worker.Job // in order
	running    int
	maxRunning int // running at a time
}

func newFixture(t *testing.T) *fixture {
	r := &fixture{T: t, World: sim.New(1)}
	r.PoolQueue("default")
	return r
}

// worker makes a worker that a simulation drives: one goroutine, the world's
// clock. change may change its options.
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

// concurrent is for workers in a bubble of their own time, with all their goroutines.
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

// startCount is how often a job was begun.
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

// newMessage offers a lane of a run with so many lanes, each of so many jobs.
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

func inputs(lane, jobs int) (all []workflow.JobInput) {
	for i := lane * jobs; i < (lane+1)*jobs; i++ {
		all = append(all, workflow.JobInput{Index: i, Entity: &workflow.EntityKey{Type: "device", ID: fmt.Sprint("d", i)}, Token: int64(100 + i)})
	}
	return all
}

// ports opens a view for one message.
func (r *fixture) ports() worker.Ports {
	v := r.Open()
	return worker.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
}

// handle lets a worker answer a message, and reports whether it died.
func (r *fixture) handle(w *worker.Worker, m *workflow.PackMessage) (d worker.Disposition, crashed bool, err error) {
	crashed = faults.CatchCrash(func() { d, err = w.Handle(context.Background(), m, r.ports()) })
	return d, crashed, err
}

// mustHandle lets a worker answer a message and wants it to be over with.
func (r *fixture) mustHandle(w *worker.Worker, m *workflow.PackMessage) {
	r.Helper()
	if d, crashed, err := r.handle(w, m); crashed || err != nil || !d.Done {
		r.Fatalf("not done: %+v, crashed %v, %v", d, crashed, err)
	}
}

// withoutFaults does something that no fault befalls.
func (r *fixture) withoutFaults(do func(v sim.View)) {
	r.Helper()
	if faults := r.Faults; faults != nil {
		r.Faults = nil
		defer func() { r.Faults = faults }()
	}
	do(r.Open())
}

// pack is an item as it stands, nil if absent.
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

// jobCodes are the codes of a pack's jobs.
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

// doneSet is the done set of the run's first shard.
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

// wakeups takes what was sent to the engine.
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

// sentPacks takes what was sent to the pool, whenever it may be worked on.
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

// crashOnStart lets the worker die when the block has been begun for the nth time.
func (r *fixture) crashOnStart(n int) {
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		if n--; n == 0 {
			panic(faults.Crash{Call: faults.Call{Name: "block"}})
		}
		return nil, nil
	}
}

// cancel is what the engine does to a claimed pack of a run that is closing.
func (r *fixture) cancel(key workflow.PackKey) {
	r.Helper()
	r.withoutFaults(func(v sim.View) {
		if ok, err := v.Packs.RequestCancel(context.Background(), key); !ok || err != nil {
			r.Errorf("nothing to cancel: %v %v", ok, err)
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
