package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A result that does not match the block's schema fails the job for good. The failure
// names the place, and the result is kept for the rollback.
func TestJobResult_MustMatchResultSchema(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["version"],"properties":{"version":{"type":"string"},"n":{"minimum":0}},"additionalProperties":false}`)
	for result, path := range map[string]string{
		`{"version":"17.3"}`:     "",
		`{"version":17}`:         "result.version",
		`{}`:                     "result.version",
		`{"version":"1","x":{}}`: "result.x",
		`null`:                   "result",
	} {
		r := newFixture(t)
		w := r.worker()
		worker.Register(w, worker.Block[map[string]any, json.RawMessage]{Name: "test/large", Version: "1.0.0", Idempotent: true,
			Execute: func(context.Context, *worker.Job, map[string]any) (json.RawMessage, error) {
				return json.RawMessage(result), nil
			},
			Rollback: func(context.Context, *worker.Job, map[string]any, *json.RawMessage) error { return nil },
		})
		m := r.newMessage(largeBlock, 0, 1, 1)
		m.Work.ResultSchema = schema
		m.Work.Retry = &workflow.Retry{MaxRetries: 3}
		r.mustHandle(w, m)
		rec := r.pack(m.Key).Jobs[0]
		if path == "" {
			if rec.Code != codeOK {
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
		// The schema does not apply to a rollback.
		m.Key.StepRunSeq, m.Work.Kind = m.Key.StepRunSeq+1, workflow.JobRollback
		r.mustHandle(w, m)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	}
}

// What nobody could read later is not stored, whatever the block returns it in: the job
// fails for good, and the failure names the place.
func TestJobResult_MustBeReadableJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for name, c := range map[string]struct{ value, place string }{
		"readable":         {deep(90), ""},
		"not UTF-8":        {"{\"v\":\"a\xffb\"}", "not UTF-8"},
		"too deep":         {deep(5000), ".a.a.a"},
		"two of one field": {`{"b":{"a":1,"a":2}}`, ".b.a"},
		"not a number":     {`{"n":1e9999999}`, ".n"},
	} {
		for _, field := range []string{"result", "updates"} {
			r := newFixture(t)
			w := r.worker()
			worker.Register(w, worker.Block[map[string]any, json.RawMessage]{Name: "test/large", Version: "1.0.0", Idempotent: true,
				Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (json.RawMessage, error) {
					if field == "result" {
						return json.RawMessage(c.value), nil
					}
					return nil, job.SetAttribute("x", json.RawMessage(c.value))
				},
			})
			m := r.newMessage(largeBlock, 0, 1, 1)
			m.Work.Retry = &workflow.Retry{MaxRetries: 3}
			r.mustHandle(w, m)
			rec := r.pack(m.Key).Jobs[0]
			switch {
			case c.place == "":
				if rec.Code != codeOK {
					t.Errorf("%s, %s: %+v", name, field, rec.Failure)
				}
			case rec.Code != codeFailed || rec.Failure.Code != "INVALID" || rec.Failure.Retryable:
				t.Errorf("%s, %s: %s, %+v", name, field, rec.Code, rec.Failure)
			case !strings.Contains(rec.Failure.Message, field) || !strings.Contains(rec.Failure.Message, c.place):
				t.Errorf("%s, %s: %q does not name the place", name, field, rec.Failure.Message)
			}
			if code := rec.Code; code == codeFailed && len(rec.Result)+len(rec.Updates) > 4 {
				t.Errorf("%s, %s: %s and %s are stored", name, field, rec.Result, rec.Updates)
			}
		}
	}
}

// A block of a global step asks to wait; what nobody could wait for fails the job for good.
func TestJobResult_AsksToWait(t *testing.T) {
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	input := func(schema string) *workflow.AskedInput { return &workflow.AskedInput{Schema: json.RawMessage(schema)} }
	for name, c := range map[string]struct {
		wait            workflow.AskedWait
		kind            workflow.JobKind
		onEntity, next  bool
		place, code     string
		dropped, breaks bool
	}{
		"a time":               {wait: workflow.AskedWait{Until: until, Reason: "why"}},
		"a signal":             {wait: workflow.AskedWait{Signal: "paid"}},
		"input":                {wait: workflow.AskedWait{Until: until, Input: input(`{"type":"object"}`)}},
		"any input":            {wait: workflow.AskedWait{Input: input("")}},
		"an undo":              {wait: workflow.AskedWait{Signal: "paid"}, kind: workflow.JobRollback, dropped: true},
		"an entity":            {wait: workflow.AskedWait{Signal: "paid"}, onEntity: true, place: "wait:", code: workflow.FailureWaitNotGlobal},
		"nothing":              {wait: workflow.AskedWait{Reason: "why"}, place: "wait.until"},
		"two things":           {wait: workflow.AskedWait{Signal: "paid", Input: input("")}, place: "wait.signal"},
		"no name":              {wait: workflow.AskedWait{Signal: "no name"}, place: "wait.signal"},
		"no schema":            {wait: workflow.AskedWait{Input: input(`{"type":"nothing"}`)}, place: "wait.input.schema"},
		"an unreadable schema": {wait: workflow.AskedWait{Input: input(`{"type":"object","type":"string"}`)}, place: "wait.input.schema"},
		"too much":             {wait: workflow.AskedWait{Until: until, Reason: strings.Repeat("x", workflow.MaxAskedBytes)}, place: "wait:"},
		"and the next step":    {wait: workflow.AskedWait{Until: until}, next: true, place: "wait:"},
		"and a break":          {wait: workflow.AskedWait{Until: until}, breaks: true, place: "wait:"},
	} {
		r := newFixture(t)
		w := r.worker()
		ask := func(job *worker.Job) {
			job.Wait(c.wait)
			if c.next {
				job.Next("end")
			}
			if c.breaks {
				job.Break()
			}
		}
		worker.Register(w, worker.Block[map[string]any, json.RawMessage]{Name: "test/large", Version: "1.0.0", Idempotent: true,
			Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (json.RawMessage, error) {
				ask(job)
				return nil, nil
			},
			Rollback: func(_ context.Context, job *worker.Job, _ map[string]any, _ *json.RawMessage) error {
				ask(job)
				return nil
			},
		})
		m := r.newMessage(largeBlock, 0, 1, 1)
		m.Work.ResultSchema = json.RawMessage(`{"type":"object"}`) // of the last call
		if c.kind != "" {
			m.Work.Kind = c.kind
		}
		m.Jobs[0].Entity = nil
		if c.onEntity {
			m.Jobs[0].Entity = &workflow.EntityKey{Type: "device", ID: "a"}
		}
		r.mustHandle(w, m)
		rec := r.pack(m.Key).Jobs[0]
		switch {
		case c.place != "" && (rec.Code != codeFailed || rec.Failure.Code != cmp.Or(c.code, "INVALID") || !strings.Contains(rec.Failure.Message, c.place) || rec.Wait != nil):
			t.Errorf("%s: %s, %+v", name, rec.Code, rec.Failure)
		case c.place == "" && (rec.Code != codeOK || (rec.Wait == nil) != c.dropped):
			t.Errorf("%s: %s, %+v, %+v", name, rec.Code, rec.Wait, rec.Failure)
		case c.place == "" && !c.dropped && (rec.Wait.Kind() != c.wait.Kind() || !rec.Wait.Until.Equal(c.wait.Until)):
			t.Errorf("%s: %+v", name, rec.Wait)
		}
	}
}

// A block that is called again gets the outcome of its wait.
func TestJob_IsResumed(t *testing.T) {
	r := newFixture(t)
	w := r.worker()
	var told []*workflow.Resume
	worker.Register(w, worker.Block[map[string]any, json.RawMessage]{Name: "test/large", Version: "1.0.0", Idempotent: true,
		Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (json.RawMessage, error) {
			told = append(told, job.Resume)
			return nil, nil
		},
	})
	for lane, resume := range []string{"", `{"kind":"SIGNAL","value":{"n":1}}`, `{"kind":"INPUT","timedOut":true}`} {
		m := r.newMessage(largeBlock, lane, 1, 1)
		m.Jobs[0].Resume = json.RawMessage(resume)
		r.mustHandle(w, m)
	}
	if told[0] != nil || told[1].Kind != workflow.WaitSignal || string(told[1].Value) != `{"n":1}` || told[1].TimedOut || told[2].Kind != workflow.WaitInput || !told[2].TimedOut {
		t.Errorf("%+v %+v %+v", told[0], told[1], told[2])
	}
}

// endpointFunc is an EndpointCaller.
type endpointFunc func(*worker.Job) worker.JobResult

func (f endpointFunc) Call(_ context.Context, _ *workflow.Endpoint, job *worker.Job) worker.JobResult {
	return f(job)
}

// The details of a failure are stored too. The failure keeps its code.
func TestJobResult_FailureDetailsMustBeReadableJSON(t *testing.T) {
	r := newFixture(t)
	w := r.worker(func(o *worker.Options) {
		o.HTTPBlocks = endpointFunc(func(*worker.Job) worker.JobResult {
			return worker.JobResult{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "BUSY", Retryable: true, Details: json.RawMessage("{\"v\":\"\xff\"}")}}
		})
	})
	m := r.newMessage(largeBlock, 0, 1, 1)
	m.Work.HTTP = &workflow.Endpoint{URL: "http://127.0.0.1/"}
	r.mustHandle(w, m)
	f := r.pack(m.Key).Jobs[0].Failure
	if f == nil || f.Code != "BUSY" || !f.Retryable || !json.Valid(f.Details) || !strings.Contains(string(f.Details), "error.details") {
		t.Errorf("%+v with %s", f, f.Details)
	}
}

// workerWithAcquire returns a worker with a block whose Acquire calls find.
func workerWithAcquire(r *fixture, find func(job *worker.Job) ([]workflow.EntityKey, error)) *worker.Worker {
	w := r.worker()
	worker.Register(w, worker.Block[map[string]string, int]{Name: "test/large", Version: "1.0.0",
		Execute: func(context.Context, *worker.Job, map[string]string) (int, error) { return 0, nil },
		Acquire: func(_ context.Context, job *worker.Job, p map[string]string) ([]workflow.EntityKey, error) {
			if p["site"] != "b" {
				r.Errorf("parameters %v", p)
			}
			return find(job)
		}})
	return w
}

func acquireMessage(r *fixture, block string) *workflow.PackMessage {
	m := r.newMessage(block, 0, 1, 1)
	m.Work.Kind, m.Work.Pure = workflow.JobAcquire, true
	m.Jobs = []workflow.JobInput{{Parameters: json.RawMessage(`{"site":"b"}`)}}
	return m
}

// Acquire records each entity once. It is pure, so its pack is not claimed.
func TestBlock_AcquireCountsEachEntityOnce(t *testing.T) {
	a, b := workflow.EntityKey{Type: "device", ID: "a"}, workflow.EntityKey{Type: "site", ID: "b"}
	r := newFixture(t)
	m := acquireMessage(r, largeBlock)
	r.mustHandle(workerWithAcquire(r, func(*worker.Job) ([]workflow.EntityKey, error) { return []workflow.EntityKey{b, a, b}, nil }), m)
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	if p := r.pack(m.Key); !slices.Equal(p.Jobs[0].Entities, []workflow.EntityKey{b, a}) || p.Cost.TotalWriteUnits() != 0 {
		t.Errorf("%s", text(p))
	}
}

func TestBlock_AcquireRejectsInvalidEntities(t *testing.T) {
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
		r := newFixture(t)
		m := acquireMessage(r, largeBlock)
		r.mustHandle(workerWithAcquire(r, find), m)
		if rec := r.pack(m.Key).Jobs[0]; rec.Code != codeFailed || rec.Failure.Code != code || len(rec.Entities) != 0 {
			t.Errorf("%s: %+v", code, rec)
		}
	}
	r := newFixture(t)
	m := acquireMessage(r, pure)
	r.mustHandle(r.worker(), m)
	if rec := r.pack(m.Key).Jobs[0]; rec.Code != codeFailed || rec.Failure.Code != "NO_ACQUIRE" {
		t.Errorf("a block without acquire: %+v", rec)
	}
}

// A block may find up to MaxEntities entities, however long their ids are. What does
// not fit into the pack item is stored as payload.
func TestBlock_AcquireStoresManyEntitiesAsPayload(t *testing.T) {
	var many []workflow.EntityKey
	for i := range worker.MaxEntities {
		many = append(many, workflow.EntityKey{Type: "device", ID: fmt.Sprintf("%060d", i)})
	}
	r := newFixture(t)
	m := acquireMessage(r, largeBlock)
	r.mustHandle(workerWithAcquire(r, func(*worker.Job) ([]workflow.EntityKey, error) { return many, nil }), m)
	rec := r.pack(m.Key).Jobs[0]
	if rec.Code != codeOK || rec.ResultRef == nil || len(rec.Entities) != 0 {
		t.Fatalf("%s with %d entities: %+v", rec.Code, len(rec.Entities), rec.Failure)
	}
	r.withoutFaults(func(v sim.View) {
		raw, err := v.Packs.LoadPayload(context.Background(), m.Key, *rec.ResultRef)
		var stored []workflow.EntityKey
		if err != nil || json.Unmarshal(raw, &stored) != nil || !slices.Equal(stored, many) {
			t.Errorf("%d entities are stored: %v", len(stored), err)
		}
	})
}

// A job may update its own entity and others. An invalid update fails the job.
func TestJob_UpdatesAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		update workflow.Update
		code   string
	}{
		"another entity": {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b"}, Remove: []string{"x"}}, ""},
		"no entity":      {workflow.Update{Remove: []string{"x"}}, "INVALID"},
		"invalid id":     {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b/c"}, Remove: []string{"x"}}, "INVALID"},
		"empty name":     {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b"}, Remove: []string{""}}, "INVALID"},
		"too large":      {workflow.Update{Entity: workflow.EntityKey{Type: "site", ID: "b"}, Remove: []string{strings.Repeat("x", workflow.MaxResultBytes)}}, "LIMIT"},
	} {
		r := newFixture(t)
		r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			job.UpdateEntity(c.update)
			return nil, job.SetAttribute("version", "2")
		}
		m := r.newMessage(idempotent, 0, 1, 1)
		r.mustHandle(r.worker(), m)
		rec := r.pack(m.Key).Jobs[0]
		switch {
		case c.code != "":
			if rec.Code != codeFailed || rec.Failure.Code != c.code || rec.Failure.Retryable || len(rec.Updates) > 0 {
				t.Errorf("%s: %+v", name, rec)
			}
		case string(rec.Updates) != `[{"entity":{"type":"device","id":"d0"},"set":{"version":"2"}},{"entity":{"type":"site","id":"b"},"remove":["x"]}]`:
			t.Errorf("%s: %s %+v", name, rec.Updates, rec.Failure)
		}
	}
}

// A block that is executed to undo something neither names the next step nor waits.
func TestJobResult_OfACompensationGoesNowhere(t *testing.T) {
	for name, does := range map[string]func(*worker.Job){
		"next": func(j *worker.Job) { j.Next("elsewhere") },
		"wait": func(j *worker.Job) { j.Wait(workflow.AskedWait{Until: time.Now().Add(time.Hour)}) },
	} {
		r := newFixture(t)
		w := r.worker()
		worker.Register(w, worker.Block[map[string]any, any]{Name: "test/large", Version: "1.0.0", Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (any, error) {
			does(job)
			return 1, nil
		}})
		m := r.newMessage(largeBlock, 0, 1, 1)
		m.Work.Compensates, m.Work.CannotWait, m.Jobs[0].Entity = true, true, nil
		r.mustHandle(w, m)
		if rec := r.pack(m.Key).Jobs[0]; rec.Code != codeOK || rec.Next != "" || rec.Wait != nil {
			t.Errorf("%s: %+v", name, rec)
		}
	}
}
