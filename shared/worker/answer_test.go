package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A result that does not fit the block's schema fails the job for good, says what
// is wrong with it, and stays for whoever undoes the job.
func TestResultSchema(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["version"],"properties":{"version":{"type":"string"},"n":{"minimum":0}},"additionalProperties":false}`)
	for result, path := range map[string]string{
		`{"version":"17.3"}`:            "",
		`{"version":17}`:                "result.version",
		`{}`:                            "result.version",
		`{"version":"1","x":{}}`:        "result.x",
		`null`:                          "result",
		`{"version":"1","n":1e9999999}`: "result.n", // whose exact value nobody can work with
	} {
		r := newRig(t)
		w := r.worker()
		worker.Add(w, worker.Block[map[string]any, json.RawMessage]{Name: "test/large", Version: "1.0.0", Idempotent: true,
			Execute: func(context.Context, *worker.Job, map[string]any) (json.RawMessage, error) {
				return json.RawMessage(result), nil
			},
			Rollback: func(context.Context, *worker.Job, map[string]any, *json.RawMessage) error { return nil },
		})
		m := r.message(large, 0, 1, 1)
		m.Work.ResultSchema = schema
		m.Work.Retry = &workflow.Retry{MaxRetries: 3}
		r.done(w, m)
		rec := r.pack(m.Key).Jobs[0]
		if path == "" {
			if rec.Code != ok {
				t.Errorf("%s: %+v", result, rec.Failure)
			}
			continue
		}
		var details struct{ Issues []workflow.Issue }
		if rec.Failure == nil || json.Unmarshal(rec.Failure.Details, &details) != nil || len(details.Issues) != 1 {
			t.Fatalf("%s: %s, %+v", result, rec.Code, rec.Failure)
		}
		if rec.Failure.Code != "RESULT_SCHEMA" || rec.Failure.Retryable || details.Issues[0].Path != path || string(rec.Result) != result {
			t.Errorf("%s: %+v, at %s, with %s", result, rec.Failure, details.Issues[0].Path, rec.Result)
		}
		// What undoes a job has no result.
		m.Key.RunSeq, m.Work.Kind = m.Key.RunSeq+1, workflow.JobRollback
		r.done(w, m)
		r.want(m.Key, workflow.PackFinished, 1, ok)
	}
}

// acquiring is a worker with a block that finds what it is told to.
func acquiring(r *rig, find func(job *worker.Job) ([]workflow.EntityKey, error)) *worker.Worker {
	w := r.worker()
	worker.Add(w, worker.Block[map[string]string, int]{Name: "test/large", Version: "1.0.0",
		Execute: func(context.Context, *worker.Job, map[string]string) (int, error) { return 0, nil },
		Acquire: func(_ context.Context, job *worker.Job, p map[string]string) ([]workflow.EntityKey, error) {
			if p["site"] != "b" {
				r.Errorf("parameters %v", p)
			}
			return find(job)
		}})
	return w
}

func acquire(r *rig, block string) *workflow.PackMessage {
	m := r.message(block, 0, 1, 1)
	m.Work.Kind, m.Work.Pure = workflow.JobAcquire, true
	m.Jobs = []workflow.JobInput{{Parameters: json.RawMessage(`{"site":"b"}`)}}
	return m
}

// A block's acquire finds entities, each counted once; it is pure, so that nobody
// claims its pack.
func TestAcquire(t *testing.T) {
	a, b := workflow.EntityKey{Type: "device", ID: "a"}, workflow.EntityKey{Type: "site", ID: "b"}
	r := newRig(t)
	m := acquire(r, large)
	r.done(acquiring(r, func(*worker.Job) ([]workflow.EntityKey, error) { return []workflow.EntityKey{b, a, b}, nil }), m)
	r.want(m.Key, workflow.PackFinished, 1, ok)
	if p := r.pack(m.Key); !slices.Equal(p.Jobs[0].Entities, []workflow.EntityKey{b, a}) || p.Cost.Writes() != 0 {
		t.Errorf("%s", text(p))
	}
}

func TestAcquireRefuses(t *testing.T) {
	for code, find := range map[string]func(*worker.Job) ([]workflow.EntityKey, error){
		"INVALID": func(*worker.Job) ([]workflow.EntityKey, error) {
			return []workflow.EntityKey{{Type: "device", ID: "a/b"}}, nil
		},
		"LIMIT": func(*worker.Job) ([]workflow.EntityKey, error) {
			return make([]workflow.EntityKey, worker.MaxEntities+1), nil
		},
		"GONE": func(*worker.Job) ([]workflow.EntityKey, error) {
			return nil, worker.Terminal("GONE", fmt.Errorf("no such site"))
		},
	} {
		r := newRig(t)
		m := acquire(r, large)
		r.done(acquiring(r, find), m)
		if rec := r.pack(m.Key).Jobs[0]; rec.Code != failed || rec.Failure.Code != code || len(rec.Entities) != 0 {
			t.Errorf("%s: %+v", code, rec)
		}
	}
	r := newRig(t)
	m := acquire(r, pure)
	r.done(r.worker(), m)
	if rec := r.pack(m.Key).Jobs[0]; rec.Code != failed || rec.Failure.Code != "NO_ACQUIRE" {
		t.Errorf("a block without acquire: %+v", rec)
	}
}

// A block may find as many entities as the limit says, however long their names:
// what no item holds is stored.
func TestAcquireMany(t *testing.T) {
	var many []workflow.EntityKey
	for i := range worker.MaxEntities {
		many = append(many, workflow.EntityKey{Type: "device", ID: fmt.Sprintf("%060d", i)})
	}
	r := newRig(t)
	m := acquire(r, large)
	r.done(acquiring(r, func(*worker.Job) ([]workflow.EntityKey, error) { return many, nil }), m)
	rec := r.pack(m.Key).Jobs[0]
	if rec.Code != ok || rec.Stored == nil || len(rec.Entities) != 0 {
		t.Fatalf("%s with %d entities: %+v", rec.Code, len(rec.Entities), rec.Failure)
	}
	r.without(func(v sim.View) {
		raw, err := v.Packs.Load(context.Background(), m.Key, *rec.Stored)
		var stored []workflow.EntityKey
		if err != nil || json.Unmarshal(raw, &stored) != nil || !slices.Equal(stored, many) {
			t.Errorf("%d entities are stored: %v", len(stored), err)
		}
	})
}

// A job asks for updates of its own entity and of others; what is no update fails
// it.
func TestUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		update workflow.Update
		code   string
	}{
		"another entity": {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b"}, Remove: []string{"x"}}, ""},
		"no entity":      {workflow.Update{Remove: []string{"x"}}, "INVALID"},
		"no such id":     {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b/c"}, Remove: []string{"x"}}, "INVALID"},
		"no name":        {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b"}, Remove: []string{""}}, "INVALID"},
		"too large":      {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b"}, Remove: []string{strings.Repeat("x", workflow.MaxResult)}}, "LIMIT"},
	} {
		r := newRig(t)
		r.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			job.Update(c.update)
			return nil, job.Set("version", "2")
		}
		m := r.message(id, 0, 1, 1)
		r.done(r.worker(), m)
		rec := r.pack(m.Key).Jobs[0]
		switch {
		case c.code != "":
			if rec.Code != failed || rec.Failure.Code != c.code || rec.Failure.Retryable || len(rec.Updates) > 0 {
				t.Errorf("%s: %+v", name, rec)
			}
		case string(rec.Updates) != `[{"entity":{"type":"device","id":"d0"},"set":{"version":"2"}},{"entity":{"type":"site","id":"b"},"remove":["x"]}]`:
			t.Errorf("%s: %s %+v", name, rec.Updates, rec.Failure)
		}
	}
}
