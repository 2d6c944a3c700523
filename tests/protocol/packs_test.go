package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// packFixture is one step run: the engine dispatches its packs, workers run them, and the
// engine counts the results.
type packFixture struct {
	*rapid.T
	ctx         context.Context
	packs       packStore // not intercepted, for the checks
	interceptor *interceptor
	dispatcher  *dispatch.Dispatcher
	stepRun     *dispatch.StepRun
	key         workflow.StepRunKey
	now         time.Time
	dueAt       time.Time // when the execution's timer fires
	workers     []*worker.Worker
	leases      []*remoteLease
	tasks       []*packTask
	nonces      int
	outcomes    map[int][]string // of each attempt of a job

	messages []*workflow.PackMessage
	wakeups  []workflow.Wakeup

	// What the engine has committed.
	phase  phase
	counts workflow.Counts // once the phase is decided

	timerNeeded  bool // after a fault, or when the engine has ended a claim: only the timer continues
	violation    string
	calledFences map[string][]string // fences under which a job's block was called
	highestFence map[int]string      // that a job's device has seen
	previous     map[workflow.PackKey]*workflow.Pack
}

type phase int

const (
	running phase = iota
	closing
	decided
)

// packTask is a task under way, and the message that is delivered again if it is killed.
type packTask struct {
	*faults.Task
	message *workflow.PackMessage
	onKill  func()
}

const (
	skew      = 2 * time.Second
	grace     = 5 * time.Second
	margin    = 2 * time.Second
	lease     = time.Minute
	maxClaims = 3
	unlimited = 1000 * time.Hour // no timeout for slow workers
)

var startTime = time.UnixMilli(1_800_000_000_000).UTC()

func newPackFixture(t *rapid.T, a adapter) *packFixture {
	tenants++
	f := &packFixture{
		T: t, ctx: t.Context(), packs: a.open().packs, interceptor: &interceptor{}, now: startTime, outcomes: map[int][]string{},
		calledFences: map[string][]string{}, highestFence: map[int]string{}, previous: map[workflow.PackKey]*workflow.Pack{},
		key: workflow.StepRunKey{Tenant: fmt.Sprint("packs", tenants), Execution: "x", Ordinal: 1, Seq: 3},
	}
	kind := rapid.SampledFrom([]string{"nd", "id", "pure"}).Draw(t, "kind")
	step := &workflow.StepRun{
		Seq: 3, Label: "one", Ordinal: 1, Kind: workflow.JobExecute, Status: sm.StepRunning, EnteredAt: startTime, DispatchedAt: startTime,
		Jobs: rapid.IntRange(1, 5).Draw(t, "jobs"), PackSize: rapid.IntRange(1, 2).Draw(t, "pack size"),
		Window: rapid.IntRange(0, 2).Draw(t, "window"), Pure: kind == "pure", Idempotent: kind == "id",
	}
	work := workflow.Work{
		Kind: workflow.JobExecute, Block: "test/" + kind + ":1.0.0", Step: "one", Pool: "default", Lanes: step.Lanes(),
		Pure: step.Pure, Idempotent: step.Idempotent, Timeout: workflow.Duration(10 * time.Minute),
	}
	if rapid.Bool().Draw(t, "retry") {
		work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(10 * time.Second)}
	}
	step.MaxAttempts = work.MaxAttempts()
	inputs := make([]workflow.JobInput, step.Jobs)
	for i := range inputs {
		inputs[i] = workflow.JobInput{Index: i, Entity: &workflow.EntityKey{Type: "device", ID: strconv.Itoa(i)}, Token: int64(10 + i), Parameters: json.RawMessage(`{}`)}
		f.outcomes[i] = rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "retry", "fail"}), work.MaxAttempts(), work.MaxAttempts()).Draw(t, "outcomes")
	}
	f.stepRun = &dispatch.StepRun{Tenant: f.key.Tenant, Execution: "x", Step: step, Work: work, Jobs: func(context.Context) ([]workflow.JobInput, error) { return inputs, nil }}
	f.dispatcher = &dispatch.Dispatcher{Packs: f.interceptedPacks(), Sender: sender{f}, Limits: dispatch.Limits{
		Skew: skew, Grace: grace, RedispatchInterval: time.Minute, MaxTakeovers: maxClaims, MessageLife: unlimited, Unclaimed: unlimited,
		Stuck: 12 * time.Minute, ChainBytes: rapid.SampledFrom([]int{64 << 10, 100}).Draw(t, "chain bytes"), Parallel: 1,
	}}
	for _, offset := range []time.Duration{0, time.Second, -time.Second} {
		f.workers = append(f.workers, f.worker(offset, f.nonce))
	}
	if _, err := f.dispatcher.Dispatch(f.ctx, f.stepRun, f.now, workflow.Cost{}); err != nil {
		t.Fatal(err)
	}
	f.dueAt = f.now.Add(time.Minute)
	return f
}

func (f *packFixture) nonce() string {
	f.nonces++
	return "n" + strconv.Itoa(f.nonces)
}

// worker returns a worker whose clock has an offset.
func (f *packFixture) worker(offset time.Duration, nonce func() string) *worker.Worker {
	w := worker.New(worker.Options{
		Name: "w", Sequential: true, LeaseDuration: lease, MaxClockSkew: skew, LeaseMargin: margin, MaxClaims: maxClaims, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return f.now.Add(offset) }, NewNonce: nonce, Jitter: func() float64 { return 0 },
	})
	for _, kind := range []string{"nd", "id", "pure"} {
		worker.Register(w, worker.Block[map[string]any, map[string]int]{
			Name: "test/" + kind, Version: "1.0.0", Pure: kind == "pure", Idempotent: kind == "id",
			Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (map[string]int, error) {
				f.blockCalled(job)
				f.interceptor.Intercept("block")
				switch f.outcome(job) {
				case "retry":
					return nil, errors.New("try again")
				case "fail":
					return nil, worker.Terminal("FAILED", errors.New("failed"))
				}
				return map[string]int{"attempt": job.Attempt}, nil
			},
		})
	}
	return w
}

func jobIndex(job *worker.Job) int {
	i, err := strconv.Atoi(job.Entity.ID)
	if err != nil {
		panic(err)
	}
	return i
}

func (f *packFixture) outcome(job *worker.Job) string {
	return f.outcomes[jobIndex(job)][job.Attempt-1]
}

// noMeter measures nothing.
type noMeter struct{}

func (noMeter) Take() workflow.Cost { return workflow.Cost{} }

func (f *packFixture) interceptedPacks() interceptedPacks {
	return interceptedPacks{f.packs, f.interceptor, f.packEnded, func() { f.timerNeeded = true }}
}

func (f *packFixture) ports() worker.Ports {
	return worker.Ports{Packs: f.interceptedPacks(), Sender: sender{f}, Meter: noMeter{}}
}

// sender keeps messages in the fixture, encoded and decoded as by a queue.
type sender struct{ fixture *packFixture }

func (s sender) SendPacks(_ context.Context, _ time.Time, messages []*workflow.PackMessage) ([]workflow.PackKey, error) {
	return intercept(s.fixture.interceptor, "sender.send_packs", func() ([]workflow.PackKey, error) {
		for _, m := range messages {
			body, err := sqs.EncodePack(m)
			if err != nil {
				return nil, err
			}
			decoded, err := sqs.DecodePack(body)
			if err != nil {
				return nil, err
			}
			s.fixture.messages = append(s.fixture.messages, decoded)
		}
		return nil, nil
	})
}

func (sender) SendAnnouncements(context.Context, time.Duration, ...workflow.Announcement) error {
	return nil
}

func (sender) SendDeliveries(context.Context, ...*workflow.Delivery) error { return nil }

func (sender) QueuedWakeups(context.Context) (int, error) { return 0, nil }

func (s sender) SendWakeups(_ context.Context, _ time.Duration, wakeups ...workflow.Wakeup) error {
	_, err := intercept(s.fixture.interceptor, "sender.send_wakeups", func() (bool, error) {
		s.fixture.wakeups = append(s.fixture.wakeups, wakeups...)
		return true, nil
	})
	return err
}

// deliver lets a worker handle a message, which is delivered again unless it is done.
func (f *packFixture) deliver(w *worker.Worker, m *workflow.PackMessage) {
	if d, err := w.Handle(f.ctx, m, f.ports()); err != nil || !d.Done {
		f.messages = append(f.messages, m)
	}
}

// advance handles a wake-up or the timer as the engine does.
func (f *packFixture) advance(wakeup workflow.Wakeup, timerFired bool) {
	stepRun := *f.stepRun
	stepRun.DueAt = f.dueAt
	if f.phase != running {
		f.closeStepRun()
		return
	}
	if wakeup.Lane != nil {
		if err := f.dispatcher.SendLane(f.ctx, &stepRun, *wakeup.Lane, f.now); err != nil {
			f.timerNeeded = true
		}
		return
	}
	report, err := f.dispatcher.Report(f.ctx, &stepRun, f.now, timerFired)
	switch {
	case err != nil:
		f.timerNeeded = true
	case f.phase != running:
	case report.Complete:
		f.decide(report)
	case report.Unclaimed:
		f.violate("the step is reported unclaimed before its timeout")
	case timerFired:
		f.dueAt = report.NextCheckAt
	}
}

// closeStepRun handles the timer as the engine does while the step is closing.
func (f *packFixture) closeStepRun() {
	if f.phase != closing {
		return
	}
	report, err := f.dispatcher.CloseStepRun(f.ctx, f.stepRun, f.now)
	switch {
	case err != nil || f.phase != closing:
	case report.Complete:
		f.decide(report)
	default:
		f.dueAt = report.NextCheckAt
	}
}

func (f *packFixture) decide(report *lifecycle.Report) {
	f.phase, f.counts = decided, report.Counts
}

// startTask starts a task, which pauses before its first call.
func (f *packFixture) startTask(m *workflow.PackMessage, onKill func(), work func()) {
	f.tasks = append(f.tasks, &packTask{f.interceptor.StartTask("", work), m, onKill})
}

// kill kills a task; its message is delivered again unless it is lost too.
func (f *packFixture) kill(t *packTask, loseMessage bool) {
	f.timerNeeded = true
	t.Kill()
	if t.message != nil && !loseMessage {
		f.messages = append(f.messages, t.message)
	}
	if t.onKill != nil {
		t.onKill()
	}
}

// actions are what can happen next.
func (f *packFixture) actions() []action {
	f.tasks = slices.DeleteFunc(f.tasks, func(t *packTask) bool { return t.Done() })
	underWay, sent := len(f.tasks) > 0, len(f.messages) > 0
	one := func(r *rapid.T) *packTask { return draw(r, "task", f.tasks) }
	message := func(r *rapid.T) *workflow.PackMessage {
		m := draw(r, "message", f.messages)
		if !rapid.Bool().Draw(r, "deliver again") {
			f.removeMessage(m)
		}
		return m
	}
	return append([]action{
		{"step task", underWay, func(r *rapid.T) {
			t := one(r)
			for range rapid.IntRange(1, 4).Draw(r, "calls") {
				t.Step()
			}
		}},
		{"deliver message", sent, func(r *rapid.T) {
			m, w := message(r), draw(r, "worker", f.workers)
			f.startTask(m, nil, func() { f.deliver(w, m) })
		}},
		{"pass time", true, func(r *rapid.T) {
			f.now = f.now.Add(time.Duration(rapid.SampledFrom([]int{1, 11, 25}).Draw(r, "seconds")) * time.Second)
		}},
		{"expire leases", true, func(*rapid.T) { f.now = f.now.Add(lease + 10*time.Second) }},
		{"finish task", underWay, func(r *rapid.T) { one(r).Finish() }},
		{"fault", underWay, func(r *rapid.T) {
			t := one(r)
			f.interceptor.fault = rapid.SampledFrom([]faults.Fault{faults.LostReply, faults.Throttled, faults.Repeated}).Draw(r, "fault")
			f.timerNeeded = f.timerNeeded || f.interceptor.fault != faults.Repeated
			t.Step()
		}},
		{"kill task", underWay, func(r *rapid.T) { f.kill(one(r), rapid.Bool().Draw(r, "lose message")) }},
		{"timer", true, func(*rapid.T) { f.startTask(nil, nil, func() { f.advance(workflow.Wakeup{}, true) }) }},
		{"deliver wake-up", len(f.wakeups) > 0, func(*rapid.T) {
			w := f.wakeups[0]
			f.wakeups = f.wakeups[1:]
			f.startTask(nil, func() { f.wakeups = append(f.wakeups, w) }, func() { f.advance(w, false) })
		}},
		{"lose message", sent, func(r *rapid.T) {
			f.removeMessage(draw(r, "message", f.messages))
			f.timerNeeded = true
		}},
		{"cancel", f.phase == running, func(r *rapid.T) {
			if rapid.IntRange(0, 2).Draw(r, "one in three") == 0 {
				f.phase = closing
			}
		}},
	}, f.remoteLeaseActions(message)...)
}

// removeMessage removes one copy of a message.
func (f *packFixture) removeMessage(m *workflow.PackMessage) {
	i := slices.Index(f.messages, m)
	f.messages = slices.Delete(f.messages, i, i+1)
}

// drain finishes everything. The timer fires only if it is needed, and then when it is
// due.
func (f *packFixture) drain() {
	f.interceptor.fault = faults.None
	for _, t := range f.tasks {
		t.Finish()
		f.checkInvariants()
	}
	for round := 0; f.phase != decided; round++ {
		if round > 300 {
			f.Fatalf("the step does not end; %d messages are left", len(f.messages))
		}
		messages, wakeups := f.messages, f.wakeups
		f.messages, f.wakeups = nil, nil
		for i, m := range messages {
			f.deliver(f.workers[(round+i)%len(f.workers)], m)
			f.checkInvariants()
		}
		for _, w := range wakeups {
			f.advance(w, false)
			f.checkInvariants()
		}
		switch timer := f.timerNeeded || f.phase == closing || f.claimsExhausted(); {
		case timer && !f.dueAt.IsZero() && f.now.Before(f.dueAt) && len(f.messages)+len(f.wakeups) == 0:
			f.now = f.dueAt
		case len(messages)+len(wakeups) == 0 && !timer:
			f.Fatalf("a job is lost: there was no fault, and nothing is left to do")
		default:
			f.now = f.now.Add(15 * time.Second)
		}
		if timer := f.timerNeeded || f.phase == closing || f.claimsExhausted(); timer && !f.now.Before(f.dueAt) {
			f.advance(workflow.Wakeup{}, true)
			f.checkInvariants()
		}
	}
	// Late messages change nothing.
	for _, m := range f.messages {
		f.deliver(f.workers[0], m)
	}
	f.checkInvariants()
}

// Whatever happens to workers, the engine, messages and replies, the invariants hold
// after each action, and every job is counted.
func TestDispatch_KeepsInvariantsUnderFaults(t *testing.T) {
	runOnAdapters(t, func(t *rapid.T, a adapter) {
		f := newPackFixture(t, a)
		defer func() {
			for _, t := range f.tasks {
				t.Kill()
			}
		}()
		runActions(t, f.checkInvariants, f.actions)
		f.drain()
	})
}
