package api

import (
	"bytes"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The shapes: nouns whose own JSON leaves out what is empty get every field,
// null if nothing; the views have that already and only lose their nil lists.

// or is what p points to, or nothing.
func or[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

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

// orNone takes a null for something absent.
func orNone(m json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(m), []byte("null")) {
		return nil
	}
	return m
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

func definition(p workflow.Published) gen.Definition {
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

func definitionHead(p workflow.Published) gen.Definition {
	p.Source = nil
	return definition(p)
}

func block(b workflow.Block) gen.Block {
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

func entity(e workflow.Entity) gen.Entity {
	attributes := e.Attributes
	if len(attributes) == 0 {
		attributes = json.RawMessage("{}")
	}
	return gen.Entity{Type: e.Type, Id: e.ID, Attributes: attributes, Groups: orEmpty(e.Groups), Version: e.Version, Token: e.Token}
}

func execution(x views.ExecutionView) views.ExecutionView {
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

func event(e workflow.Event) gen.Event {
	return gen.Event{
		Sequence: e.Sequence, At: e.At, Layer: gen.EventLayer(e.Layer), Type: e.Type, From: some(e.From), To: some(e.To),
		Step: some(e.Step), Entity: some(e.Entity), Actor: some(e.Actor), Data: e.Data,
	}
}

func job(j workflow.Job) gen.Job {
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

func result(v views.ResultView) views.ResultView {
	steps := make(map[string]views.StepResult, len(v.Steps))
	for label, s := range v.Steps {
		s.Results = orNoKeys(s.Results)
		steps[label] = s
	}
	v.Steps = steps
	return v
}

func cost(c views.CostView) views.CostView {
	c.WriteUnits, c.ReadUnits, c.Lines = orNoKeys(c.WriteUnits), orNoKeys(c.ReadUnits), orEmpty(c.Lines)
	return c
}

func lock(l views.LockView) views.LockView {
	l.Waiting = orEmpty(l.Waiting)
	return l
}
