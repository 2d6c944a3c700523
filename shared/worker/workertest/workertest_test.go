package workertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

type (
	parameters struct {
		Do string `json:"do"`
	}
	result struct {
		Version string `json:"version"`
	}
)

func newWorker() *worker.Worker {
	w := worker.New(worker.Options{Name: "test"})
	for _, version := range []string{"1.2.0", "1.10.0"} {
		worker.Register(w, worker.Block[parameters, result]{
			Name: "p/change", Version: version, Idempotent: true,
			ParameterSchema: json.RawMessage(`{"type":"object","properties":{"do":{"type":"string"}}}`),
			ResultSchema:    json.RawMessage(`{"type":"object","properties":{"version":{"minLength":1}}}`),
			Execute:         change,
			Acquire: func(context.Context, *worker.Job, parameters) ([]workflow.EntityKey, error) {
				return []workflow.EntityKey{{Type: "device", ID: "d7"}}, nil
			},
			Rollback: func(_ context.Context, job *worker.Job, _ parameters, undo *result) error {
				if undo == nil {
					return worker.Terminal("NOTHING", errors.New("there is nothing to undo"))
				}
				return job.SetAttribute("version", undo.Version)
			},
		})
	}
	return w
}

func change(ctx context.Context, job *worker.Job, p parameters) (result, error) {
	switch p.Do {
	case "panic":
		panic("oops")
	case "wait":
		job.Wait(workflow.AskedWait{Signal: "paid"})
	case "other":
		job.UpdateEntity(workflow.Update{Entity: workflow.EntityKey{Type: "device", ID: "d2"}, Set: map[string]json.RawMessage{"version": json.RawMessage(`"3"`)}})
		return result{"3"}, nil
	case "next":
		job.Next("end")
	case "sleep":
		<-ctx.Done()
		return result{}, ctx.Err()
	case "nothing":
		return result{}, nil
	}
	var done int
	if _, err := job.LoadCheckpoint("done", &done); err != nil {
		return result{}, err
	}
	job.Progress(50, "half")
	if err := job.Checkpoint(ctx, "done", done+1); err != nil {
		return result{}, err
	}
	job.Progress(100, "all")
	job.Log(slog.LevelWarn, "all of it")
	if p.Do == "fail" {
		return result{}, worker.Retryable("BUSY", errors.New("come again"))
	}
	if job.Entity != nil {
		if err := job.SetAttribute("version", "2"); err != nil {
			return result{}, err
		}
	}
	return result{fmt.Sprintf("%d %d %s", job.Attempt, job.Token, job.Block)}, nil
}

// All that a block does can be read.
func TestCall_ReturnsAllThatTheBlockDoes(t *testing.T) {
	w := newWorker()
	value, r := Execute[result](t, w, Job{Block: "p/change:1", Entity: "device/d1", Attempt: 3, Token: 9, Checkpoints: map[string]any{"done": 4}})
	if value.Version != "3 9 p/change:1.10.0" {
		t.Errorf("returned %q", value.Version)
	}
	if string(r.Attribute("version")) != `"2"` || r.Updates[0].Entity.String() != "device/d1" || r.Attribute("other") != nil {
		t.Errorf("updates %+v", r.Updates)
	}
	if string(r.Checkpoints["done"]) != "5" || len(r.Progress) != 2 || r.Progress[0].Percent != 50 || r.Progress[1].Message != "all" {
		t.Errorf("saved %s, progress %+v", r.Checkpoints, r.Progress)
	}
	if len(r.Logs) != 1 || r.Logs[0].Level != workflow.LogWarn || r.Logs[0].Text != "all of it" || r.LogsDropped != 0 {
		t.Errorf("logged %+v", r.Logs)
	}
	if r := Call(t, w, Job{Block: "p/change", Parameters: parameters{"fail"}}); r.Failure == nil || r.Failure.Code != "BUSY" || string(r.Checkpoints["done"]) != "1" || r.JSON != nil {
		t.Errorf("%+v", r)
	}
	if r := Call(t, w, Job{Block: "p/change", Parameters: parameters{"wait"}}); r.Wait == nil || r.Wait.Signal != "paid" {
		t.Errorf("%+v", r)
	}
	if r := Call(t, w, Job{Block: "p/change", Parameters: parameters{"next"}}); r.Next != "end" {
		t.Errorf("%+v", r)
	}
	if r := Call(t, w, Job{Block: "p/change", Entity: "device/d1", Parameters: parameters{"other"}}); len(r.Updates) != 1 || r.Attribute("version") != nil {
		t.Errorf("of another entity: %+v", r)
	}
	if r := Call(t, w, Job{Block: "p/change", Operation: workflow.JobAcquire}); len(r.Entities) != 1 || r.Entities[0].ID != "d7" {
		t.Errorf("%+v", r)
	}
	if r := Call(t, w, Job{Block: "p/change", Operation: workflow.JobRollback, Entity: "device/d1", Undo: result{"1"}}); r.Failure != nil || string(r.Attribute("version")) != `"1"` {
		t.Errorf("%+v", r)
	}
}

// Failures are those that the worker makes of what a block does.
func TestCall_FailsAsTheWorkerDoes(t *testing.T) {
	w := newWorker()
	for code, job := range map[string]Job{
		"PANIC":                    {Parameters: parameters{"panic"}},
		workflow.FailureTimeout:    {Parameters: parameters{"sleep"}, Timeout: 20 * time.Millisecond},
		"RESULT_SCHEMA":            {Parameters: parameters{"nothing"}},
		workflow.FailureParameters: {Parameters: json.RawMessage(`{"d":1}`)},
		"INVALID":                  {Parameters: parameters{"next"}, Entity: "device/d1"},
		"NOTHING":                  {Operation: workflow.JobRollback},
	} {
		job.Block = "p/change"
		if r := Call(t, w, job); r.Failure == nil || r.Failure.Code != code || r.Decode(&result{}) == nil {
			t.Errorf("want %s, got %+v", code, r.Failure)
		}
	}
}

// What no service would call is a mistake of the test.
func TestMessage_RefusesWhatNoServiceCalls(t *testing.T) {
	for want, job := range map[string]Job{
		"the worker has no block p/other; it has p/change:1.10.0, p/change:1.2.0": {Block: "p/other"},
		"want an entity as TYPE/ID":              {Block: "p/change", Entity: "d1"},
		"parameters.do: got number, want string": {Block: "p/change", Parameters: json.RawMessage(`{"do":1}`)},
	} {
		if _, err := message(newWorker(), job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
