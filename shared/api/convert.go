package api

import (
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// nilIfZero returns nil for the zero value.
func nilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// rawOrNil returns nil for empty JSON.
func rawOrNil(m json.RawMessage) *json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	return &m
}

// nonNilSlice returns an empty slice for nil, which is [] in JSON and not null.
func nonNilSlice[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// nonNilMap returns an empty map for nil, which is {} in JSON and not null.
func nonNilMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// definitionResponse converts a definition with its source.
func definitionResponse(p workflow.PublishedDefinition) gen.Definition {
	d := gen.Definition{
		Package: p.Ref.Package, Name: p.Ref.Name, Version: p.Ref.Version,
		Digest: p.Digest, PublishedAt: nilIfZero(p.PublishedAt), PublishedBy: nilIfZero(p.PublishedBy), Archived: p.Archived, Draft: p.Draft,
		Definition: rawOrNil(p.Source),
	}
	if p.Warnings != nil {
		d.Warnings = &p.Warnings
	}
	return d
}

// definitionHeadResponse converts a definition without its source.
func definitionHeadResponse(p workflow.PublishedDefinition) gen.Definition {
	p.Source = nil
	return definitionResponse(p)
}

// blockResponse converts a registered block.
func blockResponse(b workflow.Block) gen.Block {
	pool := b.Pool
	if pool == "" {
		pool = topology.PoolDefault
	}
	return gen.Block{
		Package: b.Package, Name: b.Name, Version: b.Version, Description: nilIfZero(b.Description), RunOn: nilIfZero(b.RunOn),
		Pure: b.Pure, Idempotent: b.Idempotent, Reversible: b.Reversible, UndoHarmless: b.UndoHarmless,
		Pool: pool, Timeout: nilIfZero(b.Timeout),
		ParameterSchema: rawOrNil(b.ParameterSchema), ResultSchema: rawOrNil(b.ResultSchema), Metadata: rawOrNil(b.Metadata), Http: b.HTTP,
	}
}

// entityResponse converts an entity.
func entityResponse(e workflow.Entity) gen.Entity {
	attributes := e.Attributes
	if len(attributes) == 0 {
		attributes = json.RawMessage("{}")
	}
	return gen.Entity{Type: e.Type, Id: e.ID, Attributes: attributes, Groups: nonNilSlice(e.Groups), Version: e.Version, Token: e.Token}
}

// executionResponse replaces null where the document promises a list or an object; the conversions
// of other views below do the same.
func executionResponse(x views.ExecutionView) views.ExecutionView {
	x.Labels = nonNilMap(x.Labels)
	x.Entities = nonNilMap(x.Entities)
	x.Children, x.ChildSets = nonNilSlice(x.Children), nonNilSlice(x.ChildSets)
	x.Unacknowledged = nonNilSlice(x.Unacknowledged)
	if x.Acknowledged != nil {
		all := *x.Acknowledged
		all.Earlier = nonNilSlice(all.Earlier)
		x.Acknowledged = &all
	}
	x.EntityOutcomes = nonNilMap(x.EntityOutcomes)
	x.FailedEntities = nonNilSlice(x.FailedEntities)
	x.FailedSteps = nonNilSlice(x.FailedSteps)
	x.RerunBy = nonNilSlice(x.RerunBy)
	x.Blocks = nonNilMap(x.Blocks)
	x.Dropped.Blockers = nonNilSlice(x.Dropped.Blockers)
	if x.Waiting != nil {
		waiting := *x.Waiting
		waiting.Blockers = nonNilSlice(waiting.Blockers)
		x.Waiting = &waiting
	}
	return x
}

// eventResponse converts an event.
func eventResponse(e workflow.Event) gen.Event {
	return gen.Event{
		Sequence: e.Sequence, At: e.At, Layer: gen.EventLayer(e.Layer), Type: e.Type, From: nilIfZero(e.From), To: nilIfZero(e.To),
		Step: nilIfZero(e.Step), Entity: nilIfZero(e.Entity), Actor: nilIfZero(e.Actor), Data: e.Data,
	}
}

// jobResponse converts an attempt of a job.
func jobResponse(j workflow.Job) gen.Job {
	out := gen.Job{
		Id: j.ID, Kind: j.Kind, Step: j.Step, Visit: j.StepRunOrdinal, Wave: j.Wave, Entity: j.Entity, Item: j.Item, ItemText: j.ItemText, State: j.State, Attempt: j.Attempt,
		Replaces: j.Replaces, ReplacedBy: j.ReplacedBy, Worker: j.Worker, Token: j.Token,
		CreatedAt: j.CreatedAt, ClaimedAt: j.ClaimedAt, StartedAt: j.StartedAt, EndedAt: j.EndedAt,
		Outcome: j.Outcome, Parameters: j.Parameters, Result: j.Result, Progress: j.Progress,
		Logs: nonNilSlice(j.Logs), LogsDropped: j.LogsDropped,
	}
	if j.StartedAt != nil && j.EndedAt != nil {
		took := max(j.EndedAt.Sub(*j.StartedAt), 0).String() // by the clocks of two programs
		out.Duration = &took
	}
	if len(j.Checkpoints) > 0 {
		out.Checkpoints = &j.Checkpoints
	}
	if f := j.Error; f != nil {
		out.Error = &gen.JobFailure{Code: f.Code, Message: f.Message, Step: nilIfZero(f.Step), Entity: nilIfZero(f.Entity), Retryable: f.Retryable, Details: f.Details}
	}
	return out
}

func resultResponse(v views.ResultView) views.ResultView {
	steps := make(map[string]views.StepResult, len(v.Steps))
	for label, s := range v.Steps {
		s.Results = nonNilMap(s.Results)
		steps[label] = s
	}
	v.Steps = steps
	return v
}

func costResponse(c views.CostView) views.CostView {
	c.WriteUnits, c.ReadUnits, c.Lines = nonNilMap(c.WriteUnits), nonNilMap(c.ReadUnits), nonNilSlice(c.Lines)
	return c
}

func planResponse(p views.PlanView) views.PlanView {
	p.Entities.ByType, p.Entities.Named, p.Entities.More = nonNilMap(p.Entities.ByType), nonNilSlice(p.Entities.Named), nonNilSlice(p.Entities.More)
	if p.Region != nil {
		p.Region = &views.PlannedRegion{Name: p.Region.Name, Known: p.Region.Known, Regions: nonNilSlice(p.Region.Regions)}
	}
	p.Blocks, p.Warnings = nonNilMap(p.Blocks), nonNilSlice(p.Warnings)
	p.Locked.Named, p.Steps, p.Cost.Lines = nonNilSlice(p.Locked.Named), slices.Clone(nonNilSlice(p.Steps)), nonNilSlice(p.Cost.Lines)
	for i := range p.Steps {
		p.Steps[i].Waves = nonNilSlice(p.Steps[i].Waves)
	}
	return p
}

func lockResponse(l views.LockView) views.LockView {
	l.SharedWith, l.Waiting = nonNilSlice(l.SharedWith), nonNilSlice(l.Waiting)
	return l
}

func workerResponse(v views.WorkerView) views.WorkerView {
	v.Blocks, v.Packs = nonNilSlice(v.Blocks), nonNilSlice(v.Packs)
	return v
}

func poolResponse(v views.PoolView) views.PoolView {
	v.Claims = nonNilSlice(v.Claims)
	return v
}

func deadLettersResponse(v views.DeadLetterQueue) views.DeadLetterQueue {
	letters := nonNilSlice(v.DeadLetters)
	for i := range letters {
		letters[i].Jobs = nonNilSlice(letters[i].Jobs)
	}
	v.DeadLetters = letters
	return v
}

func redriveResponse(v views.RedriveView) views.RedriveView {
	v.Queues = nonNilSlice(v.Queues)
	return v
}

func sweepResponse(v views.SweepView) views.SweepView {
	v.Executions, v.Workers, v.Schedules = nonNilSlice(v.Executions), nonNilSlice(v.Workers), nonNilSlice(v.Schedules)
	return v
}
