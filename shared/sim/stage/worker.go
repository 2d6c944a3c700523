package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxClaims is TMAX, for the worker as for the engine.
const maxClaims = 5

// Crew makes the workers n, instead of one. It is called before any block is
// registered.
func (s *Stage) Crew(n int) {
	s.workers = nil
	for i := range n {
		s.workers = append(s.workers, s.newWorker(fmt.Sprintf("w%d", i)))
	}
}

// newWorker is a worker of the SDK that does everything in the goroutine that
// calls it.
func (s *Stage) newWorker(name string) *worker.Worker {
	return worker.New(worker.Options{
		Name: name, Concurrency: 1000, Lease: time.Minute, Skew: 2 * time.Second, MaxClaims: maxClaims, Unclaimed: time.Hour, Sequential: true,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: s.clock, Nonce: func() string { return s.Nonce() }, Jitter: func() float64 { return 0 }, Floor: func() int64 { return s.Engine.Policy.Floor },
	})
}

// Work is one of the workers' way with a message. again asks for it to come back
// later.
func (s *Stage) Work(who int, m *workflow.PackMessage) (again time.Duration, err error) {
	v := s.Open()
	d, err := s.workers[who].Handle(context.Background(), m, worker.Ports{Packs: v.Packs, Queue: v.Board, Meter: v.Meter})
	if err != nil || d.Done {
		return 0, err
	}
	return max(d.After, time.Second), nil
}

// offer lets the workers offer a block whose every call follows the script.
func (s *Stage) offer(b workflow.Block) {
	block := worker.Block[json.RawMessage, json.RawMessage]{
		Name: b.Package + "/" + b.Name, Version: b.Version, Pure: b.Pure, Idempotent: b.Idempotent, UndoHarmless: b.UndoHarmless,
		Execute: func(_ context.Context, j *worker.Job, _ json.RawMessage) (json.RawMessage, error) {
			return s.call(&b, j)
		},
	}
	block.Acquire = func(_ context.Context, j *worker.Job, _ json.RawMessage) ([]workflow.EntityKey, error) {
		o, err := s.outcome(&b, j)
		if err != nil {
			return nil, err
		}
		var keys []workflow.EntityKey
		for _, name := range o.Found {
			keys = append(keys, workflow.EntityKey{Type: "device", ID: name})
		}
		return keys, nil
	}
	if b.Reversible {
		block.Rollback = func(_ context.Context, j *worker.Job, _ json.RawMessage, _ *json.RawMessage) error {
			_, err := s.call(&b, j)
			return err
		}
	}
	for _, w := range s.workers {
		worker.Add(w, block)
	}
}

// outcome is what the script says of one call of a block.
func (s *Stage) outcome(b *workflow.Block, j *worker.Job) (*Outcome, error) {
	c := Call{
		Job: j.ID, Kind: j.Operation, Step: j.Step, Attempt: j.Attempt, Fence: j.Fence,
		Execution: j.Execution, Result: j.Result, Parameters: j.Parameters, Pure: b.Pure, Repeatable: b.Repeatable(),
	}
	if j.Entity != nil {
		c.Entity = j.Entity.ID
	}
	if s.Enter != nil {
		s.Enter()
	}
	s.Called = append(s.Called, c)
	o := &Outcome{}
	if s.Script != nil {
		if scripted := s.Script(c); scripted != nil {
			o = scripted
		}
	}
	if o.Meanwhile != nil {
		o.Meanwhile()
	}
	switch {
	case o.Die:
		panic(fate.Crash{Call: fate.Call{Name: "block " + c.Job}})
	case o.Fail != "" && o.Retryable:
		return nil, worker.Retryable(o.Fail, errors.New("as the script says"))
	case o.Fail != "":
		return nil, worker.Terminal(o.Fail, errors.New("as the script says"))
	}
	return o, nil
}

// call is one call of a block that does something or undoes it.
func (s *Stage) call(b *workflow.Block, j *worker.Job) (json.RawMessage, error) {
	o, err := s.outcome(b, j)
	if err != nil {
		return nil, err
	}
	for name, value := range o.Set {
		if err := j.Set(name, value); err != nil {
			return nil, err
		}
	}
	if o.Result == nil {
		return json.RawMessage(fmt.Sprintf(`{"attempt":%d}`, j.Attempt)), nil
	}
	return o.Result, nil
}
