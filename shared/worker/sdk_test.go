package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

type target struct {
	Version string `json:"version"`
	Force   bool   `json:"force"`
}

type reached struct {
	Was string `json:"was"`
	Now string `json:"now"`
}

// one runs one job of a block and returns what its pack holds of it.
func one(t *testing.T, b worker.Block[target, reached], in workflow.JobInput, change ...func(*workflow.PackMessage)) (workflow.JobRecord, *rig) {
	t.Helper()
	r := newRig(t)
	w := r.worker(func(o *worker.Options) { o.Sequential = false })
	b.Name, b.Version, b.Idempotent = "fleet/upgrade", "1.0.0", true
	worker.Add(w, b)
	m := r.message(id, 0, 1, 1)
	m.Work.Block, m.Jobs = "fleet/upgrade:1.0.0", []workflow.JobInput{in}
	for _, c := range change {
		c(m)
	}
	r.done(w, m)
	return r.pack(m.Key).Jobs[0], r
}

var device = workflow.JobInput{
	Index: 0, Token: 17, Entity: &workflow.EntityKey{Type: "device", ID: "sw-7"},
	Attributes: json.RawMessage(`{"version":"1.0"}`), Parameters: json.RawMessage(`{"version":"2.0"}`),
}

func TestJob(t *testing.T) {
	var got worker.Job
	rec, r := one(t, worker.Block[target, reached]{
		Execute: func(ctx context.Context, job *worker.Job, p target) (reached, error) {
			got = *job
			var is struct {
				Version string `json:"version"`
			}
			if err := job.DecodeAttributes(&is); err != nil {
				return reached{}, err
			}
			return reached{is.Version, p.Version}, errors.Join(job.Set("version", p.Version), job.Remove("staged"))
		},
	}, device)
	if rec.Code != ok || rec.Outcome != sm.OutcomeOK || string(rec.Result) != `{"was":"1.0","now":"2.0"}` || rec.EndedAt.IsZero() {
		t.Errorf("%+v", rec)
	}
	if want := `[{"entity":{"type":"device","id":"sw-7"},"set":{"version":"2.0"},"remove":["staged"]}]`; string(rec.Updates) != want {
		t.Errorf("updates %s", rec.Updates)
	}
	if got.ID != "x.2.0.1" || got.Fence != "0000000017-0002-01-01" || got.Token != 17 || got.Attempt != 1 || got.Execution != "x" ||
		got.Step != "step" || got.Tenant != "t" || got.Block != "fleet/upgrade:1.0.0" || got.Operation != workflow.JobExecute ||
		!got.Deadline.Equal(r.Now().Add(10*time.Minute)) {
		t.Errorf("%+v", got)
	}
}

func TestOutcomes(t *testing.T) {
	for want, say := range map[sm.Outcome]func(*worker.Job){
		sm.OutcomeOK: func(*worker.Job) {}, sm.OutcomeBreak: (*worker.Job).Break, sm.OutcomeNoop: (*worker.Job).NoOp,
	} {
		rec, _ := one(t, worker.Block[target, reached]{
			Execute: func(_ context.Context, job *worker.Job, _ target) (reached, error) { say(job); return reached{}, nil },
		}, device)
		if rec.Outcome != want || rec.Code != ok {
			t.Errorf("%s: %+v", want, rec)
		}
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		execute   func() (reached, error)
		in        workflow.JobInput
		code      string
		retryable bool
	}{
		"a plain error":     {func() (reached, error) { return reached{}, errors.New("busy") }, device, "ERROR", true},
		"a retryable error": {func() (reached, error) { return reached{}, worker.Retryable("BUSY", errors.New("busy")) }, device, "BUSY", true},
		"a terminal error":  {func() (reached, error) { return reached{}, worker.Terminal("GONE", errors.New("gone")) }, device, "GONE", false},
		"a panic":           {func() (reached, error) { panic("no such slot") }, device, "PANIC", false},
		"an ended goroutine": {func() (reached, error) {
			runtime.Goexit()
			return reached{}, nil
		}, device, "PANIC", false},
		"a result that is too large":  {func() (reached, error) { return reached{Was: strings.Repeat("x", 1<<20)}, nil }, device, "LIMIT", false},
		"parameters of another type":  {nil, workflow.JobInput{Parameters: json.RawMessage(`{"version":2}`)}, "PARAMETERS", false},
		"an unknown parameter":        {nil, workflow.JobInput{Parameters: json.RawMessage(`{"release":"2"}`)}, "PARAMETERS", false},
		"an update without an entity": {nil, workflow.JobInput{}, "ERROR", true},
	} {
		t.Run(name, func(t *testing.T) {
			rec, r := one(t, worker.Block[target, reached]{
				Execute: func(_ context.Context, job *worker.Job, _ target) (reached, error) {
					if c.execute == nil {
						return reached{}, job.Set("a", 1)
					}
					return c.execute()
				},
			}, c.in)
			if rec.Code != failed || rec.Outcome != sm.OutcomeError || rec.Failure == nil || rec.Failure.Code != c.code || rec.Failure.Retryable != c.retryable || len(rec.Result) > 0 {
				t.Errorf("%s: %+v", rec.Code, rec.Failure)
			}
			if name == "a panic" && (!strings.Contains(r.logged.String(), "stack") || strings.Contains(rec.Failure.Message, ".go:")) {
				t.Error("the stack belongs into the log, and nowhere else")
			}
		})
	}
}

func TestNothingToMark(t *testing.T) {
	if worker.Retryable("A", nil) != nil || worker.Terminal("A", nil) != nil {
		t.Error("an error without an error")
	}
	cause := errors.New("cause")
	if !errors.Is(worker.Terminal("A", cause), cause) {
		t.Error("the cause is lost")
	}
}

// R14: a block that this worker does not have.
func TestR14NoSuchBlock(t *testing.T) {
	for _, change := range []func(*workflow.PackMessage){
		func(m *workflow.PackMessage) { m.Work.Block = "fleet/upgrade:9.0.0" },
		func(m *workflow.PackMessage) { m.Work.HTTP = &workflow.Endpoint{URL: "http://localhost"} },
	} {
		rec, _ := one(t, worker.Block[target, reached]{
			Execute: func(context.Context, *worker.Job, target) (reached, error) { return reached{}, nil },
		}, device, change)
		if rec.Failure == nil || rec.Failure.Code != "HANDLER_NOT_FOUND" || rec.Failure.Retryable || !rec.Failure.Unsent {
			t.Errorf("%+v", rec)
		}
	}
}

func TestRollback(t *testing.T) {
	execute := func(context.Context, *worker.Job, target) (reached, error) {
		t.Error("executed")
		return reached{}, nil
	}
	undo := func(m *workflow.PackMessage) { m.Work.Kind = workflow.JobRollback }
	var got []*reached
	b := worker.Block[target, reached]{Execute: execute, Rollback: func(_ context.Context, _ *worker.Job, p target, result *reached) error {
		if p.Version != "2.0" {
			t.Errorf("parameters %+v", p)
		}
		got = append(got, result)
		return nil
	}}
	for result, code := range map[string]string{`{"was":"1.0"}`: "", "": "", "null": "", `"text"`: "RESULT"} {
		in := device
		in.Result = json.RawMessage(result)
		got = nil
		rec, _ := one(t, b, in, undo)
		switch {
		case code != "":
			if rec.Failure == nil || rec.Failure.Code != code || rec.Failure.Retryable || got != nil {
				t.Errorf("%q: %+v", result, rec.Failure)
			}
		case rec.Code != ok || len(got) != 1:
			t.Errorf("%q: %+v", result, rec)
		case (got[0] == nil) != (len(result) < 5) || (got[0] != nil && got[0].Was != "1.0"):
			t.Errorf("%q becomes %+v", result, got[0])
		}
	}
	b.Rollback = nil
	if rec, _ := one(t, b, device, undo); rec.Failure == nil || rec.Failure.Code != "NO_ROLLBACK" {
		t.Errorf("%+v", rec)
	}
}

func TestBlocks(t *testing.T) {
	w := worker.New(worker.Options{Pool: "fleet"})
	run := func(context.Context, *worker.Job, target) (reached, error) { return reached{}, nil }
	undo := func(context.Context, *worker.Job, target, *reached) error { return nil }
	worker.Add(w, worker.Block[target, reached]{Name: "b/two", Version: "1.0.0", Execute: run, Pure: true, RunOn: "global", Timeout: time.Minute})
	worker.Add(w, worker.Block[target, reached]{Name: "a/one", Version: "2.1.0", Execute: run, Rollback: undo, Pool: "other",
		UndoHarmless: true, ParameterSchema: json.RawMessage(`{"type":"object"}`)})
	blocks := w.Blocks()
	if len(blocks) != 2 || blocks[0].Ref().String() != "a/one:2.1.0" || !blocks[0].Reversible || !blocks[0].UndoHarmless || blocks[0].Pool != "other" ||
		string(blocks[0].ParameterSchema) != `{"type":"object"}` {
		t.Errorf("%+v", blocks)
	}
	if b := blocks[1]; !b.Pure || b.Reversible || b.Pool != "fleet" || b.RunOn != "global" || b.Timeout.Std() != time.Minute {
		t.Errorf("%+v", b)
	}
	for name, b := range map[string]worker.Block[target, reached]{
		"no name":              {Version: "1.0.0", Execute: run},
		"a range of versions":  {Name: "a/b", Version: "1", Execute: run},
		"nothing to execute":   {Name: "a/b", Version: "1.0.0"},
		"pure and reversible":  {Name: "a/b", Version: "1.0.0", Execute: run, Rollback: undo, Pure: true},
		"the same block again": {Name: "b/two", Version: "1.0.0", Execute: run},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", name)
				}
			}()
			worker.Add(w, b)
		}()
	}
}

// Retries: what failed in a way that repeating can help is offered again, after
// its pause, with all that the lane still needs.
func TestRetries(t *testing.T) {
	r := newRig(t)
	fail := map[string]error{"d1": errors.New("again"), "d2": worker.Terminal("GONE", errors.New("gone"))}
	r.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) { return nil, fail[job.Entity.ID] }
	m := r.message(nd, 0, 3, 3)
	m.Work.Retry = &workflow.Retry{MaxRetries: 2, Delay: workflow.Duration(10 * time.Second), Backoff: 2, Jitter: 0.5}
	m.Chain = []workflow.LaneJobs{{Lane: 2, Jobs: inputs(2, 3)}}
	w := r.worker(func(o *worker.Options) { o.Jitter = func() float64 { return 1 } })
	r.done(w, m)
	sent := r.offered()
	if len(sent) != 1 || len(r.set().Done) != 0 || len(r.looks()) != 0 {
		t.Fatalf("%d messages; the lane is not over", len(sent))
	}
	next := sent[0]
	if next.Key.Attempt != 2 || len(next.Jobs) != 1 || next.Jobs[0].Index != 1 || !next.Bad || len(next.Chain) != 1 ||
		!next.NotBefore.Equal(r.Now().Add(15*time.Second)) {
		t.Errorf("%+v", next)
	}
	if next.Cost.Writes() != 4 {
		t.Errorf("the attempt takes along %v writes", next.Cost.Writes())
	}
	if d, _, err := r.handle(w, next); err != nil || d.Done || d.After != 15*time.Second {
		t.Errorf("before its time: %+v %v", d, err)
	}
	delete(fail, "d1")
	r.Advance(15 * time.Second)
	r.done(w, next)
	// The attempt went well, but the lane has a job that was not tried again.
	if set := r.set(); !set.Done[0] || !set.Bad[0] || len(r.looks()) != 1 || set.Cost.Writes() != 4+2 {
		t.Errorf("%+v", set)
	}
	if sent := r.offered(); len(sent) != 1 || sent[0].Key != run.Pack(2, 1) || len(sent[0].Chain) != 0 {
		t.Errorf("the window moves on to %+v", sent)
	}
	ids := []string{}
	for _, job := range r.started {
		ids = append(ids, job.ID)
	}
	if want := []string{"x.2.0.1", "x.2.1.1", "x.2.2.1", "x.2.1.2"}; !slices.Equal(ids, want) {
		t.Errorf("jobs %v", ids)
	}
}

// A lane has updates if a job of any attempt that came to OK asks for some.
func TestLanesWithUpdates(t *testing.T) {
	for _, asks := range []string{"d0", "d1", ""} {
		r := newRig(t)
		r.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			if job.Entity.ID == asks || job.Attempt == 1 && job.Entity.ID == "d1" {
				if err := job.Set("version", "2.0"); err != nil {
					t.Error(err)
				}
			}
			if job.Attempt == 1 && job.Entity.ID == "d1" {
				return nil, errors.New("again")
			}
			return nil, nil
		}
		m := r.message(id, 0, 2, 2)
		m.Work.Retry = &workflow.Retry{MaxRetries: 1}
		r.done(r.worker(), m)
		next := r.offered()
		if len(next) != 1 || next[0].Updates != (asks == "d0") {
			t.Fatalf("%q asks: %+v", asks, next)
		}
		r.done(r.worker(), next[0])
		if set := r.set(); !set.Done[0] || set.Bad[0] || set.Updates[0] != (asks != "") {
			t.Errorf("%q asks: %+v", asks, set)
		}
	}
}

// A chain that was cut: the engine is asked for the lane.
func TestChainCut(t *testing.T) {
	r := newRig(t)
	m := r.message(pure, 0, 9, 1)
	m.ChainCut = 4
	r.done(r.worker(), m)
	if looks := r.looks(); len(looks) != 1 || looks[0].Lane == nil || *looks[0].Lane != 4 {
		t.Errorf("%+v", looks)
	}
}

// A run of one pack has no done set: the engine reads the pack, and the look
// carries what its last write has cost.
func TestSingleLane(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 1, 1)
		m.Cost = workflow.Cost{Functions: 7}
		r.done(r.worker(), m)
		looks := r.looks()
		if len(looks) != 1 || looks[0].Cost.Writes() != 1 || len(r.set().Done) != 0 {
			t.Errorf("%s: %+v", kind, looks)
		}
		p := r.pack(m.Key)
		if want := map[string]float64{pure: 0, id: 1, nd: 1}[kind]; p.Cost.Writes() != want || p.Cost.Functions != 7 {
			t.Errorf("%s: the pack's cost %+v", kind, p.Cost)
		}
	}
}

// Writes on the good path: pure 1, repeatable 2, others one more for each job
// after the first; and one for the done set.
func TestWritesOnTheGoodPath(t *testing.T) {
	for kind, want := range map[string]float64{pure: 1, id: 2, nd: 6} {
		r := newRig(t)
		calls := r.Calls()
		r.done(r.worker(), r.message(kind, 0, 2, 5))
		if got := float64(r.Calls() - calls - 1); got != want {
			t.Errorf("%s: %v writes and one for the set, want %v", kind, got, want)
		}
	}
}

// Pure blocks that may take long are claimed, so that nobody takes their jobs for
// jobs without a worker.
func TestLongPureJobsAreClaimed(t *testing.T) {
	r := newRig(t)
	m := r.message(pure, 0, 1, 1)
	m.Work.Timeout = workflow.Duration(31 * time.Minute)
	r.behave = func(context.Context, *worker.Job) (map[string]int, error) {
		r.want(m.Key, workflow.PackClaimed, 1, startedCode)
		return nil, nil
	}
	r.done(r.worker(), m)
	r.want(m.Key, workflow.PackFinished, 1, ok)
}
