package shape

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// some is nil for a value that is nothing.
func some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// raw is nil for JSON that is not there.
func raw(m json.RawMessage) *json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	return &m
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func orNoKeys[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// Definition is a version with its source.
func Definition(p workflow.Published) gen.Definition {
	d := gen.Definition{
		Package: p.Ref.Package, Name: p.Ref.Name, Version: p.Ref.Version,
		Digest: p.Digest, PublishedAt: some(p.PublishedAt), PublishedBy: some(p.PublishedBy), Archived: p.Archived,
		Definition: raw(p.Source),
	}
	if p.Warnings != nil {
		d.Warnings = &p.Warnings
	}
	return d
}

// DefinitionHead is a version without its source.
func DefinitionHead(p workflow.Published) gen.Definition {
	p.Source = nil
	return Definition(p)
}

// Block is a registered block.
func Block(b workflow.Block) gen.Block {
	pool := b.Pool
	if pool == "" {
		pool = "default"
	}
	return gen.Block{
		Package: b.Package, Name: b.Name, Version: b.Version, Description: some(b.Description), RunOn: some(b.RunOn),
		Pure: b.Pure, Idempotent: b.Idempotent, Reversible: b.Reversible, UndoHarmless: b.UndoHarmless,
		Pool: pool, Timeout: some(b.Timeout),
		ParameterSchema: raw(b.ParameterSchema), ResultSchema: raw(b.ResultSchema), Http: b.HTTP,
	}
}

// Entity is an entity.
func Entity(e workflow.Entity) gen.Entity {
	attributes := e.Attributes
	if len(attributes) == 0 {
		attributes = json.RawMessage("{}")
	}
	return gen.Entity{Type: e.Type, Id: e.ID, Attributes: attributes, Groups: orEmpty(e.Groups), Version: e.Version, Token: e.Token}
}

// Execution is a run.
func Execution(x views.ExecutionView) views.ExecutionView {
	x.Labels = orNoKeys(x.Labels)
	x.Entities = orNoKeys(x.Entities)
	x.Children = orEmpty(x.Children)
	x.Blocks = orNoKeys(x.Blocks)
	x.Dropped.For = orEmpty(x.Dropped.For)
	if x.Waiting != nil {
		waiting := *x.Waiting
		waiting.For = orEmpty(waiting.For)
		x.Waiting = &waiting
	}
	return x
}

// Event is an event of a run.
func Event(e workflow.Event) gen.Event {
	return gen.Event{
		Sequence: e.Sequence, At: e.At, Layer: gen.EventLayer(e.Layer), Type: e.Type, From: some(e.From), To: some(e.To),
		Step: some(e.Step), Entity: some(e.Entity), Actor: some(e.Actor), Data: e.Data,
	}
}

// Job is one attempt of a job.
func Job(j workflow.Job) gen.Job {
	out := gen.Job{
		Id: j.ID, Kind: j.Kind, Step: j.Step, Visit: j.Visit, Wave: j.Wave, Entity: j.Entity, State: j.State, Attempt: j.Attempt,
		Replaces: j.Replaces, ReplacedBy: j.ReplacedBy, Worker: j.Worker, Token: j.Token,
		CreatedAt: j.CreatedAt, ClaimedAt: j.ClaimedAt, StartedAt: j.StartedAt, EndedAt: j.EndedAt,
		Outcome: j.Outcome, Result: j.Result,
	}
	if f := j.Error; f != nil {
		out.Error = &gen.JobFailure{Code: f.Code, Message: f.Message, Step: some(f.Step), Entity: some(f.Entity), Retryable: f.Retryable, Details: f.Details}
	}
	return out
}

// Result is what the steps of a run gave.
func Result(v views.ResultView) views.ResultView {
	steps := make(map[string]views.StepResult, len(v.Steps))
	for label, s := range v.Steps {
		s.Results = orNoKeys(s.Results)
		steps[label] = s
	}
	v.Steps = steps
	return v
}

// Cost is what a run has consumed.
func Cost(c views.CostView) views.CostView {
	c.WriteUnits, c.ReadUnits, c.Lines = orNoKeys(c.WriteUnits), orNoKeys(c.ReadUnits), orEmpty(c.Lines)
	return c
}

// Lock is the lock of an entity.
func Lock(l views.LockView) views.LockView {
	l.Waiting = orEmpty(l.Waiting)
	return l
}

// Worker is a polling worker.
func Worker(v views.WorkerView) views.WorkerView {
	v.Blocks, v.Jobs = orEmpty(v.Blocks), orEmpty(v.Jobs)
	return v
}

// Pool is what waits for the workers of a pool.
func Pool(v views.PoolView) views.PoolView {
	v.Claims = orEmpty(v.Claims)
	return v
}

// DeadLetters is what a queue has given up on.
func DeadLetters(v views.DeadLetterQueue) views.DeadLetterQueue {
	letters := orEmpty(v.Letters)
	for i := range letters {
		letters[i].Jobs = orEmpty(letters[i].Jobs)
	}
	v.Letters = letters
	return v
}

// Redrive is what came of putting dead letters back.
func Redrive(v views.RedriveView) views.RedriveView {
	v.Queues = orEmpty(v.Queues)
	return v
}

// Sweep is what the next sweep would do.
func Sweep(v views.SweepView) views.SweepView {
	v.Executions, v.Workers, v.Schedules = orEmpty(v.Executions), orEmpty(v.Workers), orEmpty(v.Schedules)
	return v
}
