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
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The kinds of blocks, as the protocol tells them apart.
const (
	pure = "test/pure:1.0.0" // changes nothing
	id   = "test/id:1.0.0"   // may run again
	nd   = "test/nd:1.0.0"   // must not run twice
)

var kinds = []string{pure, id, nd}

// lease is the default lease; pastLease is later than its end by any clock.
const (
	lease     = time.Minute
	pastLease = lease + 5*time.Second
)

// run is the run that all messages are of.
var run = workflow.RunKey{Tenant: "t", Execution: "x", Visit: 1, RunSeq: 2}

// rig is a world with workers in it whose only block does as it is told.
type rig struct {
	*testing.T
	*sim.World
	logged bytes.Buffer

	// behave is what the block does; it may be nil.
	behave func(ctx context.Context, job *worker.Job) (map[string]int, error)

	mu      sync.Mutex
	started []worker.Job // in order
	running int
	most    int // running at a time
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, World: sim.New(1)}
	r.MakePool("default")
	return r
}

// worker makes a worker that a simulation drives: one goroutine, the world's
// clock. change may change its options.
func (r *rig) worker(change ...func(*worker.Options)) *worker.Worker {
	o := worker.Options{
		Name: "w", Sequential: true, Now: r.Now, Nonce: r.Nonce, Jitter: func() float64 { return 0 },
		Log: slog.New(slog.NewTextHandler(&r.logged, nil)),
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
			Pure: kind == pure, Idempotent: kind == id, Execute: r.execute,
		}
		if kind != pure {
			b.Rollback = func(ctx context.Context, job *worker.Job, p map[string]any, _ *map[string]int) error {
				_, err := r.execute(ctx, job, p)
				return err
			}
		}
		worker.Add(w, b)
	}
	return w
}

// live is for workers in a bubble of their own time, with all their goroutines.
func live(o *worker.Options) { o.Sequential, o.Now = false, time.Now }

func (r *rig) execute(ctx context.Context, job *worker.Job, _ map[string]any) (map[string]int, error) {
	r.mu.Lock()
	r.started = append(r.started, *job)
	r.running++
	r.most = max(r.most, r.running)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	}()
	if r.behave != nil {
		return r.behave(ctx, job)
	}
	return map[string]int{"attempt": job.Attempt}, nil
}

// starts is how often a job was begun.
func (r *rig) starts(jobID string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.started {
		if r.started[i].ID == jobID {
			n++
		}
	}
	return n
}

// message offers a lane of a run with so many lanes, each of so many jobs.
func (r *rig) message(kind string, lane, lanes, jobs int) *workflow.PackMessage {
	m := &workflow.PackMessage{
		Key: run.Pack(lane, 1),
		Work: workflow.Work{
			Kind: workflow.JobExecute, Block: kind, Step: "step", Pool: "default", Pure: kind == pure, Idempotent: kind == id,
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
func (r *rig) ports() worker.Ports {
	v := r.Open()
	return worker.Ports{Packs: v.Packs, Queue: v.Board, Meter: v.Meter}
}

// handle lets a worker answer a message, and reports whether it died.
func (r *rig) handle(w *worker.Worker, m *workflow.PackMessage) (d worker.Disposition, crashed bool, err error) {
	crashed = fate.Survive(func() { d, err = w.Handle(context.Background(), m, r.ports()) })
	return d, crashed, err
}

// done lets a worker answer a message and wants it to be over with.
func (r *rig) done(w *worker.Worker, m *workflow.PackMessage) {
	r.Helper()
	if d, crashed, err := r.handle(w, m); crashed || err != nil || !d.Done {
		r.Fatalf("not done: %+v, crashed %v, %v", d, crashed, err)
	}
}

// without does something that no fault befalls.
func (r *rig) without(do func(v sim.View)) {
	r.Helper()
	if faults := r.Faults; faults != nil {
		r.Faults = nil
		defer func() { r.Faults = faults }()
	}
	do(r.Open())
}

// pack is an item as it stands, nil if absent.
func (r *rig) pack(key workflow.PackKey) (p *workflow.Pack) {
	r.Helper()
	r.without(func(v sim.View) {
		var err error
		if p, err = v.Packs.Pack(context.Background(), key); err != nil {
			r.Fatal(err)
		}
	})
	return p
}

// codes are the codes of a pack's jobs.
func codes(p *workflow.Pack) (all []workflow.JobCode) {
	if p == nil {
		return nil
	}
	for _, j := range p.Jobs {
		all = append(all, j.Code)
	}
	return all
}

// want compares a pack's state, token and codes.
func (r *rig) want(key workflow.PackKey, state workflow.PackState, token int, want ...workflow.JobCode) {
	r.Helper()
	p := r.pack(key)
	if p == nil || p.State != state || p.Token != token || !slices.Equal(codes(p), want) {
		raw, _ := json.Marshal(p)
		r.Errorf("the pack is %s, want %s, token %d, %v", raw, state, token, want)
	}
}

// set is the done set of the run's first shard.
func (r *rig) set() (s workflow.DoneSet) {
	r.Helper()
	r.without(func(v sim.View) {
		var err error
		if s, err = v.Packs.Done(context.Background(), run, 0); err != nil {
			r.Fatal(err)
		}
	})
	return s
}

// looks takes what was sent to the engine.
func (r *rig) looks() (all []workflow.Look) {
	for {
		m, ok := r.Lifecycle().Receive(time.Hour)
		if !ok {
			return all
		}
		r.Lifecycle().Delete(m)
		all = append(all, m.Look())
	}
}

// offered takes what was sent to the pool, whenever it may be worked on.
func (r *rig) offered() (all []*workflow.PackMessage) {
	r.Advance(15 * time.Minute)
	defer r.Advance(-15 * time.Minute)
	q := r.MakePool("default")
	for {
		m, ok := q.Receive(time.Hour)
		if !ok {
			return all
		}
		q.Delete(m)
		all = append(all, m.Pack())
	}
}

// die lets the worker die when the block has been begun for the nth time.
func (r *rig) die(n int) {
	r.behave = func(context.Context, *worker.Job) (map[string]int, error) {
		if n--; n == 0 {
			panic(fate.Crash{Call: fate.Call{Name: "block"}})
		}
		return nil, nil
	}
}

// cancel is what the engine does to a claimed pack of a run that is closing.
func (r *rig) cancel(key workflow.PackKey) {
	r.Helper()
	r.without(func(v sim.View) {
		if ok, err := v.Packs.AskCancel(context.Background(), key); !ok || err != nil {
			r.Errorf("nothing to cancel: %v %v", ok, err)
		}
	})
}

// Short names of the codes.
const (
	none        = workflow.CodeNone
	startedCode = workflow.CodeStarted
	ok          = workflow.CodeOK
	failed      = workflow.CodeFail
	unknown     = workflow.CodeUnknown
	notExecuted = workflow.CodeNotExecuted
)
