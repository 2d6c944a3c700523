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
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// packFixture is one step run whose jobs the engine offers, workers run, and the engine
// accounts for.
type packFixture struct {
	*rapid.T
	ctx         context.Context
	packs       packStore // as they are, for the judge
	interceptor *interceptor
	dispatcher  *dispatch.Dispatcher
	stepRun     *dispatch.StepRun
	key         workflow.StepRunKey
	now         time.Time
	dueAt       time.Time // what the run's alarm is set for
	workers     []*worker.Worker
	leases      []*remoteLease
	tasks       []*packTask
	nonces      int
	outcomes    map[int][]string // what becomes of each attempt of a job

	messages []*workflow.PackMessage
	wakeups  []workflow.Wakeup

	// The run, as the engine has committed it.
	phase  phase
	counts workflow.Counts // once it is decided

	timerNeeded  bool // a message or a reply is lost, or somebody has died: the alarm has to help
	violation    string
	calledFences map[string][]string // fences under which a job's block was called
	highestFence map[int]string      // the highest fence that a job's device has seen
	previous     map[workflow.PackKey]*workflow.Pack
}

type phase int

const (
	running phase = iota
	closing
	decided
)

// packTask is somebody at work, with the message that comes back if he dies.
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
	unlimited = 1000 * time.Hour // nobody is given up for being slow
)

var startTime = time.UnixMilli(1_800_000_000_000).UTC()

func newPackFixture(t *rapid.T, a adapter) *packFixture {
	tenants++
	y := &packFixture{
		T: t, ctx: t.Context(), packs: a.open().packs, interceptor: &interceptor{}, now: startTime, outcomes: map[int][]string{},
		calledFences: map[string][]string{}, highestFence: map[int]string{}, previous: map[workflow.PackKey]*workflow.Pack{},
		key: workflow.StepRunKey{Tenant: fmt.Sprint("packs", tenants), Execution: "x", Ordinal: 1, Seq: 3},
	}
	kind := rapid.SampledFrom([]string{"nd", "id", "pure"}).Draw(t, "kind")
	step := &workflow.StepRun{
		Seq: 3, Label: "one", Ordinal: 1, Kind: workflow.JobExecute, Status: sm.StepRunning, EnteredAt: startTime, DispatchedAt: startTime,
		Jobs: rapid.IntRange(1, 5).Draw(t, "jobs"), PackSize: rapid.IntRange(1, 2).Draw(t, "in a pack"),
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
		y.outcomes[i] = rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "again", "never"}), work.MaxAttempts(), work.MaxAttempts()).Draw(t, "job")
	}
	y.stepRun = &dispatch.StepRun{Tenant: y.key.Tenant, Execution: "x", Step: step, Work: work, Jobs: func(context.Context) ([]workflow.JobInput, error) { return inputs, nil }}
	y.dispatcher = &dispatch.Dispatcher{Packs: interceptedPacks{y.packs, y.interceptor, y.packEnded}, Sender: sender{y}, Limits: dispatch.Limits{
		Skew: skew, Grace: grace, RedispatchInterval: time.Minute, MaxTakeovers: maxClaims, MessageLife: unlimited, Unclaimed: unlimited,
		Stuck: 12 * time.Minute, ChainBytes: rapid.SampledFrom([]int{64 << 10, 100}).Draw(t, "bytes of a chain"), Parallel: 1,
	}}
	for _, off := range []time.Duration{0, time.Second, -time.Second} {
		y.workers = append(y.workers, y.worker(off, y.nonce))
	}
	if err := y.dispatcher.Dispatch(y.ctx, y.stepRun, y.now, workflow.Cost{}); err != nil {
		t.Fatal(err)
	}
	y.dueAt = y.now.Add(time.Minute)
	return y
}

func (y *packFixture) nonce() string {
	y.nonces++
	return "n" + strconv.Itoa(y.nonces)
}

// worker is a worker whose clock is off by so much.
func (y *packFixture) worker(off time.Duration, nonce func() string) *worker.Worker {
	w := worker.New(worker.Options{
		Name: "w", Sequential: true, LeaseDuration: lease, MaxClockSkew: skew, LeaseMargin: margin, MaxClaims: maxClaims, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return y.now.Add(off) }, NewNonce: nonce, Jitter: func() float64 { return 0 },
	})
	for _, kind := range []string{"nd", "id", "pure"} {
		worker.Register(w, worker.Block[map[string]any, map[string]int]{
			Name: "test/" + kind, Version: "1.0.0", Pure: kind == "pure", Idempotent: kind == "id",
			Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (map[string]int, error) {
				y.blockCalled(job)
				y.interceptor.Intercept("block")
				switch y.outcome(job) {
				case "again":
					return nil, errors.New("not now")
				case "never":
					return nil, worker.Terminal("NEVER", errors.New("no"))
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

func (y *packFixture) outcome(job *worker.Job) string {
	return y.outcomes[jobIndex(job)][job.Attempt-1]
}

// noMeter counts nothing.
type noMeter struct{}

func (noMeter) Take() workflow.Cost { return workflow.Cost{} }

func (y *packFixture) ports() worker.Ports {
	return worker.Ports{Packs: interceptedPacks{y.packs, y.interceptor, y.packEnded}, Sender: sender{y}, Meter: noMeter{}}
}

// sender puts messages into the yard's bag, as their bodies would come out of a
// queue.
type sender struct{ fixture *packFixture }

func (b sender) SendPacks(_ context.Context, _ time.Time, offered []*workflow.PackMessage) ([]workflow.PackKey, error) {
	return intercept(b.fixture.interceptor, "sender.send_packs", func() ([]workflow.PackKey, error) {
		for _, m := range offered {
			body, err := sqs.EncodePack(m)
			if err != nil {
				return nil, err
			}
			read, err := sqs.DecodePack(body)
			if err != nil {
				return nil, err
			}
			b.fixture.messages = append(b.fixture.messages, read)
		}
		return nil, nil
	})
}

func (b sender) SendWakeups(_ context.Context, _ time.Duration, looks ...workflow.Wakeup) error {
	_, err := intercept(b.fixture.interceptor, "sender.send_wakeups", func() (bool, error) {
		b.fixture.wakeups = append(b.fixture.wakeups, looks...)
		return true, nil
	})
	return err
}

// deliver lets a worker answer a message, which comes back unless he is done with it.
func (y *packFixture) deliver(w *worker.Worker, m *workflow.PackMessage) {
	if d, err := w.Handle(y.ctx, m, y.ports()); err != nil || !d.Done {
		y.messages = append(y.messages, m)
	}
}

// advance is what the engine does with a message or an alarm while the run is running.
func (y *packFixture) advance(l workflow.Wakeup, timerFired bool) {
	r := *y.stepRun
	r.DueAt = y.dueAt
	if y.phase != running {
		y.closeStepRun()
		return
	}
	if l.Lane != nil {
		if err := y.dispatcher.SendLane(y.ctx, &r, *l.Lane, y.now); err != nil {
			y.timerNeeded = true
		}
		return
	}
	rep, err := y.dispatcher.Report(y.ctx, &r, y.now, timerFired)
	switch {
	case err != nil:
		y.timerNeeded = true
	case y.phase != running:
	case rep.Complete:
		y.decide(rep)
	case rep.Unclaimed:
		y.violate("nobody is said to have come for longer than there has been time")
	case timerFired:
		y.dueAt = rep.NextCheckAt
	}
}

// closeStepRun is what it does once the run is closing.
func (y *packFixture) closeStepRun() {
	if y.phase != closing {
		return
	}
	rep, err := y.dispatcher.CloseStepRun(y.ctx, y.stepRun, y.now)
	switch {
	case err != nil || y.phase != closing:
	case rep.Complete:
		y.decide(rep)
	default:
		y.dueAt = rep.NextCheckAt
	}
}

func (y *packFixture) decide(rep *lifecycle.Report) { y.phase, y.counts = decided, rep.Counts }

// startTask lets somebody stand before his first call.
func (y *packFixture) startTask(m *workflow.PackMessage, onKill func(), work func()) {
	y.tasks = append(y.tasks, &packTask{y.interceptor.StartTask("", work), m, onKill})
}

func (y *packFixture) kill(l *packTask, withMessage bool) {
	y.timerNeeded = true
	l.Kill()
	if l.message != nil && !withMessage {
		y.messages = append(y.messages, l.message)
	}
	if l.onKill != nil {
		l.onKill()
	}
}

// actions are what may happen next.
func (y *packFixture) actions() []action {
	y.tasks = slices.DeleteFunc(y.tasks, func(l *packTask) bool { return l.Done() })
	atWork, sent := len(y.tasks) > 0, len(y.messages) > 0
	one := func(r *rapid.T) *packTask { return draw(r, "who", y.tasks) }
	message := func(r *rapid.T) *workflow.PackMessage {
		m := draw(r, "message", y.messages)
		if !rapid.Bool().Draw(r, "twice") {
			y.removeMessage(m)
		}
		return m
	}
	return append([]action{
		{"calls", atWork, func(r *rapid.T) {
			l := one(r)
			for range rapid.IntRange(1, 4).Draw(r, "of them") {
				l.Step()
			}
		}},
		{"offer", sent, func(r *rapid.T) {
			m, w := message(r), draw(r, "worker", y.workers)
			y.startTask(m, nil, func() { y.deliver(w, m) })
		}},
		{"time", true, func(r *rapid.T) {
			y.now = y.now.Add(time.Duration(rapid.SampledFrom([]int{1, 11, 25}).Draw(r, "seconds")) * time.Second)
		}},
		{"leases run out", true, func(*rapid.T) { y.now = y.now.Add(lease + 10*time.Second) }},
		{"to its end", atWork, func(r *rapid.T) { one(r).Finish() }},
		{"fault", atWork, func(r *rapid.T) {
			l := one(r)
			y.interceptor.fault = rapid.SampledFrom([]faults.Fault{faults.LostReply, faults.Throttled, faults.Repeated}).Draw(r, "fault")
			y.timerNeeded = y.timerNeeded || y.interceptor.fault != faults.Repeated
			l.Step()
		}},
		{"death", atWork, func(r *rapid.T) { y.kill(one(r), rapid.Bool().Draw(r, "with his message")) }},
		{"alarm", true, func(*rapid.T) { y.startTask(nil, nil, func() { y.advance(workflow.Wakeup{}, true) }) }},
		{"look", len(y.wakeups) > 0, func(*rapid.T) {
			l := y.wakeups[0]
			y.wakeups = y.wakeups[1:]
			y.startTask(nil, func() { y.wakeups = append(y.wakeups, l) }, func() { y.advance(l, false) })
		}},
		{"message lost", sent, func(r *rapid.T) {
			y.removeMessage(draw(r, "message", y.messages))
			y.timerNeeded = true
		}},
		{"cancel", y.phase == running, func(r *rapid.T) {
			if rapid.IntRange(0, 2).Draw(r, "of three") == 0 {
				y.phase = closing
			}
		}},
	}, y.remoteLeaseActions(message)...)
}

// removeMessage takes one copy of a message.
func (y *packFixture) removeMessage(m *workflow.PackMessage) {
	i := slices.Index(y.messages, m)
	y.messages = slices.Delete(y.messages, i, i+1)
}

// drain lets everything happen that is still to. The alarm rings only if it has to
// help; then it rings when it said it would.
func (y *packFixture) drain() {
	y.interceptor.fault = faults.None
	for _, l := range y.tasks {
		l.Finish()
		y.checkInvariants()
	}
	for round := 0; y.phase != decided; round++ {
		if round > 300 {
			y.Fatalf("it never comes to an end; %d messages are left", len(y.messages))
		}
		bag, looks := y.messages, y.wakeups
		y.messages, y.wakeups = nil, nil
		for i, m := range bag {
			y.deliver(y.workers[(round+i)%len(y.workers)], m)
			y.checkInvariants()
		}
		for _, l := range looks {
			y.advance(l, false)
			y.checkInvariants()
		}
		switch late := y.timerNeeded || y.phase == closing || y.claimsExhausted(); {
		case late && !y.dueAt.IsZero() && y.now.Before(y.dueAt) && len(y.messages)+len(y.wakeups) == 0:
			y.now = y.dueAt
		case len(bag)+len(looks) == 0 && !late:
			y.Fatalf("a job is lost: nobody has died, no message is lost, and nothing is left to do")
		default:
			y.now = y.now.Add(15 * time.Second)
		}
		if late := y.timerNeeded || y.phase == closing || y.claimsExhausted(); late && !y.now.Before(y.dueAt) {
			y.advance(workflow.Wakeup{}, true)
			y.checkInvariants()
		}
	}
	// Whoever comes late changes nothing any more.
	for _, m := range y.messages {
		y.deliver(y.workers[0], m)
	}
	y.checkInvariants()
}

// TestDispatch_KeepsInvariantsUnderFaults: whatever happens to workers, to the engine, to messages and replies,
// over whichever adapter, the laws of packs_judge_test.go hold after each action,
// and every job is accounted for.
func TestDispatch_KeepsInvariantsUnderFaults(t *testing.T) {
	runOnAdapters(t, func(t *rapid.T, a adapter) {
		y := newPackFixture(t, a)
		defer func() {
			for _, l := range y.tasks {
				l.Kill()
			}
		}()
		runActions(t, y.checkInvariants, y.actions)
		y.drain()
	})
}
