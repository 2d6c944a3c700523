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

type upgradeParameters struct {
	Version string `json:"version"`
	Force   bool   `json:"force"`
}

type upgradeResult struct {
	Was string `json:"was"`
	Now string `json:"now"`
}

// handleOne runs one job of a block and returns its record. change may change the
// message.
func handleOne(t *testing.T, b worker.Block[upgradeParameters, upgradeResult], in workflow.JobInput, change ...func(*workflow.PackMessage)) (workflow.JobRecord, *fixture) {
	t.Helper()
	r := newFixture(t)
	w := r.worker(func(o *worker.Options) { o.Sequential = false })
	b.Name, b.Version, b.Idempotent = "fleet/upgrade", "1.0.0", true
	worker.Register(w, b)
	m := r.newMessage(idempotent, 0, 1, 1)
	m.Work.Block, m.Jobs = "fleet/upgrade:1.0.0", []workflow.JobInput{in}
	for _, c := range change {
		c(m)
	}
	r.mustHandle(w, m)
	return r.pack(m.Key).Jobs[0], r
}

var deviceInput = workflow.JobInput{
	Index: 0, Token: 17, Entity: &workflow.EntityKey{Type: "device", ID: "sw-7"},
	Attributes: json.RawMessage(`{"version":"1.0"}`), Parameters: json.RawMessage(`{"version":"2.0"}`),
}

func TestJob_CarriesMessageFields(t *testing.T) {
	var got worker.Job
	rec, r := handleOne(t, worker.Block[upgradeParameters, upgradeResult]{
		Execute: func(ctx context.Context, job *worker.Job, p upgradeParameters) (upgradeResult, error) {
			got = *job
			var attributes struct {
				Version string `json:"version"`
			}
			if err := job.DecodeAttributes(&attributes); err != nil {
				return upgradeResult{}, err
			}
			return upgradeResult{attributes.Version, p.Version}, errors.Join(job.SetAttribute("version", p.Version), job.RemoveAttribute("staged"))
		},
	}, deviceInput)
	if rec.Code != codeOK || rec.Outcome != sm.OutcomeOK || string(rec.Result) != `{"was":"1.0","now":"2.0"}` || rec.EndedAt.IsZero() {
		t.Errorf("%+v", rec)
	}
	if want := `[{"entity":{"type":"device","id":"sw-7"},"set":{"version":"2.0"},"remove":["staged"]}]`; string(rec.Updates) != want {
		t.Errorf("updates %s", rec.Updates)
	}
	if got.ID != "x.2.0.1" || got.Fence != "0000000017-000002-01-01" || got.Token != 17 || got.Attempt != 1 || got.ExecutionID != "x" ||
		got.Step != "step" || got.Tenant != "t" || got.Block != "fleet/upgrade:1.0.0" || got.Operation != workflow.JobExecute ||
		!got.Deadline.Equal(r.Now().Add(10*time.Minute)) {
		t.Errorf("%+v", got)
	}
}

func TestJob_OutcomesAreRecorded(t *testing.T) {
	for want, setOutcome := range map[sm.Outcome]func(*worker.Job){
		sm.OutcomeOK: func(*worker.Job) {}, sm.OutcomeBreak: (*worker.Job).Break, sm.OutcomeNoop: (*worker.Job).NoOp,
	} {
		rec, _ := handleOne(t, worker.Block[upgradeParameters, upgradeResult]{
			Execute: func(_ context.Context, job *worker.Job, _ upgradeParameters) (upgradeResult, error) {
				setOutcome(job)
				return upgradeResult{}, nil
			},
		}, deviceInput)
		if rec.Outcome != want || rec.Code != codeOK {
			t.Errorf("%s: %+v", want, rec)
		}
	}
}

func TestBlock_FailuresAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		execute   func() (upgradeResult, error)
		in        workflow.JobInput
		code      string
		retryable bool
	}{
		"a plain error":     {func() (upgradeResult, error) { return upgradeResult{}, errors.New("busy") }, deviceInput, "ERROR", true},
		"a retryable error": {func() (upgradeResult, error) { return upgradeResult{}, worker.Retryable("BUSY", errors.New("busy")) }, deviceInput, "BUSY", true},
		"a terminal error":  {func() (upgradeResult, error) { return upgradeResult{}, worker.Terminal("GONE", errors.New("gone")) }, deviceInput, "GONE", false},
		"a panic":           {func() (upgradeResult, error) { panic("no such slot") }, deviceInput, "PANIC", false},
		"a call of Goexit": {func() (upgradeResult, error) {
			runtime.Goexit()
			return upgradeResult{}, nil
		}, deviceInput, "PANIC", false},
		"too large a result":          {func() (upgradeResult, error) { return upgradeResult{Was: strings.Repeat("x", 1<<20)}, nil }, deviceInput, "LIMIT", false},
		"a parameter of another type": {nil, workflow.JobInput{Parameters: json.RawMessage(`{"version":2}`)}, "PARAMETERS", false},
		"an unknown parameter":        {nil, workflow.JobInput{Parameters: json.RawMessage(`{"release":"2"}`)}, "PARAMETERS", false},
		"an update without an entity": {nil, workflow.JobInput{}, "ERROR", true},
	} {
		t.Run(name, func(t *testing.T) {
			rec, r := handleOne(t, worker.Block[upgradeParameters, upgradeResult]{
				Execute: func(_ context.Context, job *worker.Job, _ upgradeParameters) (upgradeResult, error) {
					if c.execute == nil {
						return upgradeResult{}, job.SetAttribute("a", 1)
					}
					return c.execute()
				},
			}, c.in)
			if rec.Code != codeFailed || rec.Outcome != sm.OutcomeError || rec.Failure == nil || rec.Failure.Code != c.code || rec.Failure.Retryable != c.retryable || len(rec.Result) > 0 {
				t.Errorf("%s: %+v", rec.Code, rec.Failure)
			}
			if name == "a panic" && (!strings.Contains(r.logs.String(), "stack") || strings.Contains(rec.Failure.Message, ".go:")) {
				t.Error("the stack must be in the log and nowhere else")
			}
		})
	}
}

func TestRetryable_NilErrorStaysNil(t *testing.T) {
	if worker.Retryable("A", nil) != nil || worker.Terminal("A", nil) != nil {
		t.Error("want nil for a nil error")
	}
	cause := errors.New("cause")
	if !errors.Is(worker.Terminal("A", cause), cause) {
		t.Error("errors.Is does not find the cause")
	}
}

// R14: a job of a block that this worker does not have fails for good.
func TestWorker_UnknownBlockFailsTerminally(t *testing.T) {
	for _, change := range []func(*workflow.PackMessage){
		func(m *workflow.PackMessage) { m.Work.Block = "fleet/upgrade:9.0.0" },
		func(m *workflow.PackMessage) { m.Work.HTTP = &workflow.Endpoint{URL: "http://localhost"} },
	} {
		rec, _ := handleOne(t, worker.Block[upgradeParameters, upgradeResult]{
			Execute: func(context.Context, *worker.Job, upgradeParameters) (upgradeResult, error) {
				return upgradeResult{}, nil
			},
		}, deviceInput, change)
		if rec.Failure == nil || rec.Failure.Code != "HANDLER_NOT_FOUND" || rec.Failure.Retryable || !rec.Failure.Unsent {
			t.Errorf("%+v", rec)
		}
	}
}

func TestBlock_RollbackReceivesResult(t *testing.T) {
	execute := func(context.Context, *worker.Job, upgradeParameters) (upgradeResult, error) {
		t.Error("Execute is called for a rollback")
		return upgradeResult{}, nil
	}
	undo := func(m *workflow.PackMessage) { m.Work.Kind = workflow.JobRollback }
	var got []*upgradeResult
	b := worker.Block[upgradeParameters, upgradeResult]{Execute: execute, Rollback: func(_ context.Context, _ *worker.Job, p upgradeParameters, result *upgradeResult) error {
		if p.Version != "2.0" {
			t.Errorf("parameters %+v", p)
		}
		got = append(got, result)
		return nil
	}}
	for result, code := range map[string]string{`{"was":"1.0"}`: "", "": "", "null": "", `"text"`: "RESULT"} {
		in := deviceInput
		in.Result = json.RawMessage(result)
		got = nil
		rec, _ := handleOne(t, b, in, undo)
		switch {
		case code != "":
			if rec.Failure == nil || rec.Failure.Code != code || rec.Failure.Retryable || got != nil {
				t.Errorf("%q: %+v", result, rec.Failure)
			}
		case rec.Code != codeOK || len(got) != 1:
			t.Errorf("%q: %+v", result, rec)
		case (got[0] == nil) != (len(result) < 5) || (got[0] != nil && got[0].Was != "1.0"):
			t.Errorf("%q is decoded as %+v", result, got[0])
		}
	}
	b.Rollback = nil
	if rec, _ := handleOne(t, b, deviceInput, undo); rec.Failure == nil || rec.Failure.Code != "NO_ROLLBACK" {
		t.Errorf("%+v", rec)
	}
}

// A job runs only on the entity type that its block is registered for, so that the
// block can rely on its entity.
func TestBlock_RejectsOtherEntityTypes(t *testing.T) {
	device, site := &workflow.EntityKey{Type: "device", ID: "a"}, &workflow.EntityKey{Type: "site", ID: "a"}
	for _, c := range []struct {
		runOn  string
		entity *workflow.EntityKey
		ok     bool
	}{
		{"device", device, true}, {"device", nil, false}, {"device", site, false},
		{"global", nil, true}, {"global", device, false},
		{"", nil, true}, {"", site, true},
	} {
		rec, _ := handleOne(t, worker.Block[upgradeParameters, upgradeResult]{
			RunOn: c.runOn,
			Execute: func(context.Context, *worker.Job, upgradeParameters) (upgradeResult, error) {
				return upgradeResult{}, nil
			},
		}, workflow.JobInput{Entity: c.entity})
		if (rec.Failure == nil) != c.ok || (rec.Failure != nil && (rec.Failure.Code != "RUN_ON" || rec.Failure.Retryable)) {
			t.Errorf("RunOn %q for %v: %+v", c.runOn, c.entity, rec.Failure)
		}
	}
}

func TestRegister_DescribesAndValidatesBlocks(t *testing.T) {
	w := worker.New(worker.Options{Pool: "fleet"})
	execute := func(context.Context, *worker.Job, upgradeParameters) (upgradeResult, error) {
		return upgradeResult{}, nil
	}
	rollback := func(context.Context, *worker.Job, upgradeParameters, *upgradeResult) error { return nil }
	worker.Register(w, worker.Block[upgradeParameters, upgradeResult]{Name: "b/two", Version: "1.0.0", Execute: execute, Pure: true, RunOn: "global", Timeout: time.Minute})
	worker.Register(w, worker.Block[upgradeParameters, upgradeResult]{Name: "a/one", Version: "2.1.0", Execute: execute, Rollback: rollback, Pool: "other",
		UndoHarmless: true, ParameterSchema: json.RawMessage(`{"type":"object"}`)})
	blocks := w.Blocks()
	if len(blocks) != 2 || blocks[0].Ref().String() != "a/one:2.1.0" || !blocks[0].Reversible || !blocks[0].UndoHarmless || blocks[0].Pool != "other" ||
		string(blocks[0].ParameterSchema) != `{"type":"object"}` {
		t.Errorf("%+v", blocks)
	}
	if b := blocks[1]; !b.Pure || b.Reversible || b.Pool != "fleet" || b.RunOn != "global" || b.Timeout.Std() != time.Minute {
		t.Errorf("%+v", b)
	}
	for name, b := range map[string]worker.Block[upgradeParameters, upgradeResult]{
		"no name":             {Version: "1.0.0", Execute: execute},
		"a range of versions": {Name: "a/b", Version: "1", Execute: execute},
		"no Execute":          {Name: "a/b", Version: "1.0.0"},
		"pure with Rollback":  {Name: "a/b", Version: "1.0.0", Execute: execute, Rollback: rollback, Pure: true},
		"registered twice":    {Name: "b/two", Version: "1.0.0", Execute: execute},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			worker.Register(w, b)
		}()
	}
}

// Jobs that failed with a retryable error are sent again after the pause. The message
// carries the rest of the lane's chain and its cost.
func TestWorker_RetriesOnlyRetryableJobs(t *testing.T) {
	r := newFixture(t)
	fail := map[string]error{"d1": errors.New("again"), "d2": worker.Terminal("GONE", errors.New("gone"))}
	r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) { return nil, fail[job.Entity.ID] }
	m := r.newMessage(nonIdempotent, 0, 3, 3)
	m.Work.Retry = &workflow.Retry{MaxRetries: 2, Delay: workflow.Duration(10 * time.Second), Backoff: 2, Jitter: 0.5}
	m.Chain = []workflow.LaneJobs{{Lane: 2, Jobs: inputs(2, 3)}}
	w := r.worker(func(o *worker.Options) { o.Jitter = func() float64 { return 1 } })
	r.mustHandle(w, m)
	sent := r.sentPacks()
	if len(sent) != 1 || len(r.doneSet().Done) != 0 || len(r.wakeups()) != 0 {
		t.Fatalf("%d packs sent, want one retry and nothing else", len(sent))
	}
	next := sent[0]
	if next.Key.Attempt != 2 || len(next.Jobs) != 1 || next.Jobs[0].Index != 1 || !next.Unsuccessful || len(next.Chain) != 1 ||
		!next.NotBefore.Equal(r.Now().Add(15*time.Second)) {
		t.Errorf("%+v", next)
	}
	if next.Cost.TotalWriteUnits() != 4 {
		t.Errorf("the next attempt carries a cost of %v writes, want 4", next.Cost.TotalWriteUnits())
	}
	if d, _, err := r.handle(w, next); err != nil || d.Done || d.RetryAfter != 15*time.Second {
		t.Errorf("before NotBefore: %+v %v", d, err)
	}
	delete(fail, "d1")
	r.Advance(15 * time.Second)
	r.mustHandle(w, next)
	// The attempt succeeded, but the lane has a job that failed for good.
	if set := r.doneSet(); !set.Done[0] || !set.Unsuccessful[0] || len(r.wakeups()) != 1 || set.Cost.TotalWriteUnits() != 4+2+1 {
		t.Errorf("%+v", set)
	}
	if sent := r.sentPacks(); len(sent) != 1 || sent[0].Key != stepRun.Pack(2, 1) || len(sent[0].Chain) != 0 {
		t.Errorf("the next lane is %+v", sent)
	}
	ids := []string{}
	for _, job := range r.started {
		ids = append(ids, job.ID)
	}
	if want := []string{"x.2.0.1", "x.2.1.1", "x.2.2.1", "x.2.1.2"}; !slices.Equal(ids, want) {
		t.Errorf("jobs %v", ids)
	}
}

// A lane has updates if a successful job of any attempt asks for some.
func TestWorker_LaneRecordsRequestedUpdates(t *testing.T) {
	for _, updatingEntity := range []string{"d0", "d1", ""} {
		r := newFixture(t)
		r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			if job.Entity.ID == updatingEntity || job.Attempt == 1 && job.Entity.ID == "d1" {
				if err := job.SetAttribute("version", "2.0"); err != nil {
					t.Error(err)
				}
			}
			if job.Attempt == 1 && job.Entity.ID == "d1" {
				return nil, errors.New("again")
			}
			return nil, nil
		}
		m := r.newMessage(idempotent, 0, 2, 2)
		m.Work.Retry = &workflow.Retry{MaxRetries: 1}
		r.mustHandle(r.worker(), m)
		next := r.sentPacks()
		if len(next) != 1 || next[0].HasUpdates != (updatingEntity == "d0") {
			t.Fatalf("update by %q: %+v", updatingEntity, next)
		}
		r.mustHandle(r.worker(), next[0])
		if set := r.doneSet(); !set.Done[0] || set.Unsuccessful[0] || set.WithUpdates[0] != (updatingEntity != "") {
			t.Errorf("update by %q: %+v", updatingEntity, set)
		}
	}
}

// If the chain was cut off, the engine is asked for the next lane.
func TestWorker_ReportsCutChain(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(pure, 0, 9, 1)
	m.ChainCut = 4
	r.mustHandle(r.worker(), m)
	if wakeups := r.wakeups(); len(wakeups) != 1 || wakeups[0].Lane == nil || *wakeups[0].Lane != 4 {
		t.Errorf("%+v", wakeups)
	}
}

// A step run of one pack has no done set. The engine reads the pack, and the wake-up
// carries the cost of its last write.
func TestWorker_SingleLaneNeedsNoDoneSet(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 1)
		m.Cost = workflow.Cost{Invocations: 7}
		r.mustHandle(r.worker(), m)
		wakeups := r.wakeups()
		if len(wakeups) != 1 || wakeups[0].Cost.TotalWriteUnits() != 1 || len(r.doneSet().Done) != 0 {
			t.Errorf("%s: %+v", kind, wakeups)
		}
		p := r.pack(m.Key)
		if want := map[string]float64{pure: 0, idempotent: 1, nonIdempotent: 1}[kind]; p.Cost.TotalWriteUnits() != want || p.Cost.Invocations != 7 {
			t.Errorf("%s: the pack's cost %+v", kind, p.Cost)
		}
	}
}

// Without faults a pure pack takes 1 read and 1 write, an idempotent one 2 writes, and any
// other 2 and one more for each job after the first. The done set takes another.
func TestWorker_CallCountWithoutFaults(t *testing.T) {
	for kind, want := range map[string]float64{pure: 2, idempotent: 2, nonIdempotent: 6} {
		r := newFixture(t)
		calls := r.CallCount()
		r.mustHandle(r.worker(), r.newMessage(kind, 0, 2, 5))
		if got := float64(r.CallCount() - calls - 1); got != want {
			t.Errorf("%s: %v calls besides the done set, want %v", kind, got, want)
		}
	}
}

// Packs of long pure jobs are claimed, so that the engine does not take the jobs for
// jobs that no worker serves.
func TestWorker_ClaimsLongPureJobs(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(pure, 0, 1, 1)
	m.Work.Timeout = workflow.Duration(31 * time.Minute)
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted)
		return nil, nil
	}
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
}
