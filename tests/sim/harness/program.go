package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workerapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// NewWorkerAPI returns the service at which programs poll for packs, in the present world. queue returns
// the queue of a pool, and ownsQueues says which tenants may poll it.
func (s *Harness) NewWorkerAPI(queue func(pool string) workerapi.PoolQueue, ownsQueues func(tenant string) bool) *workerapi.Service {
	return &workerapi.Service{
		WorkerRegistry: &workers.Registry{Workers: s.Open().Workers, Now: s.clock, Timeouts: LivenessTimeouts},
		BlockRegistry:  s.Open().Registry,
		NewPorts: func() workerapi.Ports {
			v := s.Open()
			return workerapi.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
		},
		UnclaimedJobs: s.Query.UnclaimedJobs,
		PoolQueue:     func(_ context.Context, pool string) (workerapi.PoolQueue, error) { return queue(pool), nil },
		OwnsQueues:    ownsQueues,
		TokenKeys:     func(ctx context.Context) (token.Keys, error) { return s.Engine.TokenKeys(ctx) },
		Decode: func(body string) (*workflow.PackMessage, error) {
			var m *workflow.PackMessage
			return m, json.Unmarshal([]byte(body), &m)
		},
		WorkerOptions: worker.Options{LeaseDuration: time.Minute, MaxClockSkew: 2 * time.Second, MaxClaims: maxClaims, UnclaimedTimeout: time.Hour},
		Now:           s.clock, NewNonce: s.Nonce, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// request is what a program gets of a job.
type request struct {
	Operation workflow.JobKind
	Block     string
	Job       struct {
		ID, Execution, Step string
		Attempt             int
	}
	Entity *struct {
		workflow.EntityKey
		Attributes json.RawMessage
	}
	Parameters, Result json.RawMessage
	Fence              string
	Resume             *workflow.Resume
	Checkpoints        map[string]json.RawMessage
}

// CallOfProgram makes the call of a job that a program has polled, and returns what the program reports.
// Its outcome follows the script, as that of a call by a worker does. A program has no checkpoints.
func (s *Harness) CallOfProgram(job json.RawMessage) json.RawMessage {
	var r request
	if err := json.Unmarshal(job, &r); err != nil {
		panic(err)
	}
	ref, err := workflow.ParseRef(r.Block)
	if err != nil {
		panic(err)
	}
	b := s.blocks[ref.Package+"/"+ref.Name]
	c := BlockCall{
		Job: r.Job.ID, Kind: r.Operation, Step: r.Job.Step, Block: b.Package + "/" + b.Name, Attempt: r.Job.Attempt, Fence: r.Fence,
		Execution: r.Job.Execution, Resume: r.Resume, Parameters: r.Parameters, Pure: b.Pure, Repeatable: b.Repeatable(), Checkpoints: r.Checkpoints,
	}
	if string(r.Result) != "null" {
		c.Result = r.Result
	}
	if r.Entity != nil {
		c.Entity, c.Attributes = r.Entity.ID, r.Entity.Attributes
	}
	o := s.scripted(c)
	o.mayCrash(c)
	answer := map[string]any{"job": c.Job, "outcome": "OK"}
	switch {
	case o.FailCode != "":
		answer["outcome"] = "ERROR"
		answer["error"] = map[string]any{"code": o.FailCode, "message": cmp.Or(o.FailMessage, "scripted failure"), "retryable": o.Retryable}
	case r.Operation == workflow.JobAcquire:
		found := []string{}
		for _, id := range o.Acquired {
			found = append(found, "device/"+id)
		}
		answer["entities"] = found
	case r.Operation == workflow.JobExecute:
		maps.Copy(answer, s.success(c, o))
	}
	raw, err := workflow.EncodeJSON(answer)
	if err != nil {
		panic(err)
	}
	return raw
}

// success is what a program reports of a call that has executed.
func (s *Harness) success(c BlockCall, o *Outcome) map[string]any {
	answer := map[string]any{"result": o.Result, "next": o.Next, "wait": o.Wait}
	if o.Result == nil {
		answer["result"] = json.RawMessage(fmt.Sprintf(`{"attempt":%d}`, c.Attempt))
	}
	if o.Break {
		answer["outcome"] = "BREAK"
	}
	updates := o.Updates
	if len(o.SetAttributes) > 0 {
		set := map[string]json.RawMessage{}
		for name, value := range o.SetAttributes {
			set[name], _ = workflow.EncodeJSON(value)
		}
		updates = append([]workflow.Update{{Entity: workflow.EntityKey{Type: "device", ID: c.Entity}, Set: set}}, updates...)
	}
	if len(updates) > 0 {
		answer["updates"] = updates
	}
	return answer
}
