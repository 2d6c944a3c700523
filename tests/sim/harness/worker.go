package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxClaims is how often a pack may be claimed, for workers and engine.
const maxClaims = 5

// SetWorkerCount replaces the workers by n new ones. Call it before registering blocks.
func (s *Harness) SetWorkerCount(n int) {
	s.workers = nil
	for i := range n {
		s.workers = append(s.workers, s.newWorker(fmt.Sprintf("w%d", i)))
	}
}

// newWorker makes a worker of the SDK that does everything in the caller's goroutine.
func (s *Harness) newWorker(name string) *worker.Worker {
	return worker.New(worker.Options{
		Name: name, Concurrency: 1000, LeaseDuration: time.Minute, MaxClockSkew: 2 * time.Second, MaxClaims: maxClaims, UnclaimedTimeout: time.Hour, Sequential: true,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Secrets: secretsOf{s}, Sealed: sealedOf{s},
		Now: s.clock, NewNonce: func() string { return s.Nonce() }, Jitter: func() float64 { return 0 }, MinFencingToken: func() int64 { return s.Engine.Policy.MinFencingToken },
	})
}

// secretsOf returns the secrets of a harness.
type secretsOf struct{ s *Harness }

// Secret is the value of a secret.
func (of secretsOf) Secret(_ context.Context, _, name string) (string, error) {
	value, ok := of.s.Secrets[name]
	if !ok {
		return "", workflow.Errorf(workflow.CodeNotFound, "there is no secret %q", name)
	}
	return value, nil
}

// sealedOf opens with what the harness has now.
type sealedOf struct{ s *Harness }

// Open is the value of a sealed parameter.
func (of sealedOf) Open(ctx context.Context, tenant, execution string, s *workflow.Sealed, parameter string) (string, error) {
	if of.s.Sealed == nil {
		return "", workflow.Errorf(workflow.CodeNotFound, "nothing is sealed here")
	}
	return of.s.Sealed.Open(ctx, tenant, execution, s, parameter)
}

// HandlePack lets one worker handle a message. A positive retryAfter asks for redelivery after that
// time.
func (s *Harness) HandlePack(index int, m *workflow.PackMessage) (retryAfter time.Duration, err error) {
	v := s.Open()
	d, err := s.workers[index].Handle(context.Background(), m, worker.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter})
	if err != nil || d.Done {
		return 0, err
	}
	return max(d.RetryAfter, time.Second), nil
}

// addToWorkers registers with all workers a block whose calls follow the script.
func (s *Harness) addToWorkers(b workflow.Block) {
	s.blocks[b.Package+"/"+b.Name] = b
	block := worker.Block[json.RawMessage, json.RawMessage]{
		Name: b.Package + "/" + b.Name, Version: b.Version, Pure: b.Pure, Idempotent: b.Idempotent, UndoHarmless: b.UndoHarmless,
		Execute: func(_ context.Context, j *worker.Job, _ json.RawMessage) (json.RawMessage, error) {
			return s.callBlock(&b, j)
		},
	}
	block.Acquire = func(_ context.Context, j *worker.Job, _ json.RawMessage) ([]workflow.EntityKey, error) {
		o, err := s.scriptedOutcome(&b, j)
		if err != nil {
			return nil, err
		}
		var keys []workflow.EntityKey
		for _, name := range o.Acquired {
			keys = append(keys, workflow.EntityKey{Type: "device", ID: name})
		}
		return keys, nil
	}
	if b.Reversible {
		block.Rollback = func(_ context.Context, j *worker.Job, _ json.RawMessage, _ *json.RawMessage) error {
			_, err := s.callBlock(&b, j)
			return err
		}
	}
	for _, w := range s.workers {
		worker.Register(w, block)
	}
}

// AddHTTPStep adds the blocks of http steps to all workers. Their calls follow the script.
func (s *Harness) AddHTTPStep() {
	for _, block := range []string{workflow.HTTPReadBlock, workflow.HTTPSetBlock, workflow.HTTPSendBlock} {
		ref, _ := workflow.ParseRef(block)
		b, _ := workflow.BuiltinBlock(ref)
		s.addToWorkers(b)
	}
}

// scriptedOutcome records a call of a block and returns the outcome that the script decides.
func (s *Harness) scriptedOutcome(b *workflow.Block, j *worker.Job) (*Outcome, error) {
	c := BlockCall{
		Job: j.ID, Kind: j.Operation, Step: j.Step, Block: b.Package + "/" + b.Name, Attempt: j.Attempt, Fence: j.Fence,
		Execution: j.ExecutionID, Result: j.Result, Resume: j.Resume, Parameters: j.Parameters, Attributes: j.Attributes, Pure: b.Pure, Repeatable: b.Repeatable(), Checkpoints: j.Checkpoints(),
	}
	if j.Entity != nil {
		c.Entity = j.Entity.ID
	}
	o := s.scripted(c)
	if o.Log != "" {
		j.Log(slog.LevelInfo, o.Log)
	}
	for _, key := range o.Saves {
		if err := j.Checkpoint(context.Background(), key, true); err != nil {
			return nil, worker.Retryable("NOT_SAVED", err)
		}
		o.Saved(key)
	}
	o.mayCrash(c)
	switch {
	case o.FailCode != "" && o.Retryable:
		return nil, worker.WithDetails(worker.Retryable(o.FailCode, errors.New(cmp.Or(o.FailMessage, "scripted failure"))), o.FailDetails)
	case o.FailCode != "":
		return nil, worker.Terminal(o.FailCode, errors.New(cmp.Or(o.FailMessage, "scripted failure")))
	}
	return o, nil
}

// mayCrash crashes the caller of a block if the outcome says so.
func (o *Outcome) mayCrash(c BlockCall) {
	if o.Crash {
		panic(faults.Crash{Call: faults.Call{Name: "block " + c.Job}})
	}
}

// scripted records a call of a block and returns its outcome.
func (s *Harness) scripted(c BlockCall) *Outcome {
	if s.BeforeBlock != nil {
		s.BeforeBlock()
	}
	s.BlockCalls = append(s.BlockCalls, c)
	o := &Outcome{}
	if s.Script != nil {
		if scripted := s.Script(c); scripted != nil {
			o = scripted
		}
	}
	if o.During != nil {
		o.During()
	}
	return o
}

// callBlock makes one call of a block that executes or rolls back.
func (s *Harness) callBlock(b *workflow.Block, j *worker.Job) (json.RawMessage, error) {
	o, err := s.scriptedOutcome(b, j)
	if err != nil {
		return nil, err
	}
	if o.Next != "" {
		j.Next(o.Next)
	}
	if o.Wait != nil {
		j.Wait(*o.Wait)
	}
	if o.Break {
		j.Break()
	}
	for name, value := range o.SetAttributes {
		if err := j.SetAttribute(name, value); err != nil {
			return nil, err
		}
	}
	for _, u := range o.Updates {
		j.UpdateEntity(u)
	}
	if o.Result == nil {
		return json.RawMessage(fmt.Sprintf(`{"attempt":%d}`, j.Attempt)), nil
	}
	return o.Result, nil
}
