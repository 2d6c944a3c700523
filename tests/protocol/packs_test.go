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

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// yard is one step run whose jobs the engine offers, workers run, and the engine
// accounts for.
type yard struct {
	*rapid.T
	ctx     context.Context
	items   packItems // as they are, for the judge
	gate    *gate
	d       *delivery.Delivery
	run     *delivery.Run
	key     workflow.RunKey
	now     time.Time
	due     time.Time // what the run's alarm is set for
	workers []*worker.Worker
	loans   []*loan
	open    []*labour
	nonces  int
	script  map[int][]string // what becomes of each attempt of a job

	bag   []*workflow.PackMessage
	looks []workflow.Look

	// The run, as the engine has committed it.
	phase phase
	tally workflow.Tally // once it is decided

	struck bool // a message or a reply is lost, or somebody has died: the alarm has to help
	broken string
	begun  map[string][]string // fences under which a job's block was called
	device map[int]string      // the highest fence that a job's device has seen
	before map[workflow.PackKey]*workflow.Pack
}

type phase int

const (
	running phase = iota
	closing
	decided
)

// labour is somebody at work, with the message that comes back if he dies.
type labour struct {
	*fate.Task
	message *workflow.PackMessage
	dies    func()
}

const (
	skew   = 2 * time.Second
	grace  = 5 * time.Second
	margin = 2 * time.Second
	lease  = time.Minute
	tmax   = 3
	never  = 1000 * time.Hour // nobody is given up for being slow
)

var dawn = time.UnixMilli(1_800_000_000_000).UTC()

func newYard(t *rapid.T, a adapter) *yard {
	tenants++
	y := &yard{
		T: t, ctx: t.Context(), items: a.open().packs, gate: &gate{}, now: dawn, script: map[int][]string{},
		begun: map[string][]string{}, device: map[int]string{}, before: map[workflow.PackKey]*workflow.Pack{},
		key: workflow.RunKey{Tenant: fmt.Sprint("packs", tenants), Execution: "x", Visit: 1, RunSeq: 3},
	}
	kind := rapid.SampledFrom([]string{"nd", "id", "pure"}).Draw(t, "kind")
	step := &workflow.StepRun{
		RunSeq: 3, Label: "one", Visit: 1, Kind: workflow.JobExecute, Status: sm.StepRunning, EnteredAt: dawn, EpochTime: dawn,
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
		y.script[i] = rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "again", "never"}), work.MaxAttempts(), work.MaxAttempts()).Draw(t, "job")
	}
	y.run = &delivery.Run{Tenant: y.key.Tenant, Execution: "x", Step: step, Work: work, Jobs: func(context.Context) ([]workflow.JobInput, error) { return inputs, nil }}
	y.d = &delivery.Delivery{Packs: packs{y.items, y.gate, y.ends}, Board: board{y}, Limits: delivery.Limits{
		Skew: skew, Grace: grace, Poll: time.Minute, MaxTakeovers: tmax, MessageLife: never, Unclaimed: never,
		Stuck: 12 * time.Minute, ChainBytes: rapid.SampledFrom([]int{64 << 10, 100}).Draw(t, "bytes of a chain"), Parallel: 1,
	}}
	for _, off := range []time.Duration{0, time.Second, -time.Second} {
		y.workers = append(y.workers, y.worker(off, y.nonce))
	}
	if err := y.d.Dispatch(y.ctx, y.run, y.now, workflow.Cost{}); err != nil {
		t.Fatal(err)
	}
	y.due = y.now.Add(time.Minute)
	return y
}

func (y *yard) nonce() string {
	y.nonces++
	return "n" + strconv.Itoa(y.nonces)
}

// worker is a worker whose clock is off by so much.
func (y *yard) worker(off time.Duration, nonce func() string) *worker.Worker {
	w := worker.New(worker.Options{
		Name: "w", Sequential: true, Lease: lease, Skew: skew, Margin: margin, MaxClaims: tmax, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return y.now.Add(off) }, Nonce: nonce, Jitter: func() float64 { return 0 },
	})
	for _, kind := range []string{"nd", "id", "pure"} {
		worker.Add(w, worker.Block[map[string]any, map[string]int]{
			Name: "test/" + kind, Version: "1.0.0", Pure: kind == "pure", Idempotent: kind == "id",
			Execute: func(_ context.Context, job *worker.Job, _ map[string]any) (map[string]int, error) {
				y.begins(job)
				y.gate.Reach("block")
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

func indexOf(job *worker.Job) int {
	i, err := strconv.Atoi(job.Entity.ID)
	if err != nil {
		panic(err)
	}
	return i
}

func (y *yard) outcome(job *worker.Job) string { return y.script[indexOf(job)][job.Attempt-1] }

// noMeter counts nothing.
type noMeter struct{}

func (noMeter) Take() workflow.Cost { return workflow.Cost{} }

func (y *yard) ports() worker.Ports {
	return worker.Ports{Packs: packs{y.items, y.gate, y.ends}, Queue: board{y}, Meter: noMeter{}}
}

// board puts messages into the yard's bag, as their bodies would come out of a
// queue.
type board struct{ y *yard }

func (b board) Offer(_ context.Context, _ time.Time, offered []*workflow.PackMessage) ([]workflow.PackKey, error) {
	return pass(b.y.gate, "board.offer", func() ([]workflow.PackKey, error) {
		for _, m := range offered {
			body, err := sqs.EncodePack(m)
			if err != nil {
				return nil, err
			}
			read, err := sqs.DecodePack(body)
			if err != nil {
				return nil, err
			}
			b.y.bag = append(b.y.bag, read)
		}
		return nil, nil
	})
}

func (b board) Notify(_ context.Context, _ time.Duration, looks ...workflow.Look) error {
	_, err := pass(b.y.gate, "board.notify", func() (bool, error) {
		b.y.looks = append(b.y.looks, looks...)
		return true, nil
	})
	return err
}

// serve lets a worker answer a message, which comes back unless he is done with it.
func (y *yard) serve(w *worker.Worker, m *workflow.PackMessage) {
	if d, err := w.Handle(y.ctx, m, y.ports()); err != nil || !d.Done {
		y.bag = append(y.bag, m)
	}
}

// look is what the engine does with a message or an alarm while the run is running.
func (y *yard) look(l workflow.Look, alarm bool) {
	r := *y.run
	r.DueAt = y.due
	if y.phase != running {
		y.close()
		return
	}
	if l.Lane != nil {
		if err := y.d.Send(y.ctx, &r, *l.Lane, y.now); err != nil {
			y.struck = true
		}
		return
	}
	rep, err := y.d.Report(y.ctx, &r, y.now, alarm)
	switch {
	case err != nil:
		y.struck = true
	case y.phase != running:
	case rep.Complete:
		y.decide(rep)
	case rep.Silent:
		y.breaks("nobody is said to have come for longer than there has been time")
	case alarm:
		y.due = rep.NextLook
	}
}

// close is what it does once the run is closing.
func (y *yard) close() {
	if y.phase != closing {
		return
	}
	rep, err := y.d.Close(y.ctx, y.run, y.now)
	switch {
	case err != nil || y.phase != closing:
	case rep.Complete:
		y.decide(rep)
	default:
		y.due = rep.NextLook
	}
}

func (y *yard) decide(rep *lifecycle.Report) { y.phase, y.tally = decided, rep.Tally }

// begin lets somebody stand before his first call.
func (y *yard) begin(m *workflow.PackMessage, dies func(), work func()) {
	y.open = append(y.open, &labour{y.gate.Task("", work), m, dies})
}

func (y *yard) kill(l *labour, withMessage bool) {
	y.struck = true
	l.Kill()
	if l.message != nil && !withMessage {
		y.bag = append(y.bag, l.message)
	}
	if l.dies != nil {
		l.dies()
	}
}

// moves are what may happen next.
func (y *yard) moves() []move {
	y.open = slices.DeleteFunc(y.open, func(l *labour) bool { return l.Over() })
	atWork, sent := len(y.open) > 0, len(y.bag) > 0
	one := func(r *rapid.T) *labour { return pick(r, "who", y.open) }
	message := func(r *rapid.T) *workflow.PackMessage {
		m := pick(r, "message", y.bag)
		if !rapid.Bool().Draw(r, "twice") {
			y.drop(m)
		}
		return m
	}
	return append([]move{
		{"calls", atWork, func(r *rapid.T) {
			l := one(r)
			for range rapid.IntRange(1, 4).Draw(r, "of them") {
				l.Step()
			}
		}},
		{"offer", sent, func(r *rapid.T) {
			m, w := message(r), pick(r, "worker", y.workers)
			y.begin(m, nil, func() { y.serve(w, m) })
		}},
		{"time", true, func(r *rapid.T) {
			y.now = y.now.Add(time.Duration(rapid.SampledFrom([]int{1, 11, 25}).Draw(r, "seconds")) * time.Second)
		}},
		{"leases run out", true, func(*rapid.T) { y.now = y.now.Add(lease + 10*time.Second) }},
		{"to its end", atWork, func(r *rapid.T) { one(r).Finish() }},
		{"fault", atWork, func(r *rapid.T) {
			l := one(r)
			y.gate.fault = rapid.SampledFrom([]fate.Fault{fate.LostReply, fate.Throttled, fate.Repeated}).Draw(r, "fault")
			y.struck = y.struck || y.gate.fault != fate.Repeated
			l.Step()
		}},
		{"death", atWork, func(r *rapid.T) { y.kill(one(r), rapid.Bool().Draw(r, "with his message")) }},
		{"alarm", true, func(*rapid.T) { y.begin(nil, nil, func() { y.look(workflow.Look{}, true) }) }},
		{"look", len(y.looks) > 0, func(*rapid.T) {
			l := y.looks[0]
			y.looks = y.looks[1:]
			y.begin(nil, func() { y.looks = append(y.looks, l) }, func() { y.look(l, false) })
		}},
		{"message lost", sent, func(r *rapid.T) {
			y.drop(pick(r, "message", y.bag))
			y.struck = true
		}},
		{"cancel", y.phase == running, func(r *rapid.T) {
			if rapid.IntRange(0, 2).Draw(r, "of three") == 0 {
				y.phase = closing
			}
		}},
	}, y.lending(message)...)
}

// drop takes one copy of a message.
func (y *yard) drop(m *workflow.PackMessage) {
	i := slices.Index(y.bag, m)
	y.bag = slices.Delete(y.bag, i, i+1)
}

// drain lets everything happen that is still to. The alarm rings only if it has to
// help; then it rings when it said it would.
func (y *yard) drain() {
	y.gate.fault = fate.None
	for _, l := range y.open {
		l.Finish()
		y.judge()
	}
	for round := 0; y.phase != decided; round++ {
		if round > 300 {
			y.Fatalf("it never comes to an end; %d messages are left", len(y.bag))
		}
		bag, looks := y.bag, y.looks
		y.bag, y.looks = nil, nil
		for i, m := range bag {
			y.serve(y.workers[(round+i)%len(y.workers)], m)
			y.judge()
		}
		for _, l := range looks {
			y.look(l, false)
			y.judge()
		}
		switch late := y.struck || y.phase == closing || y.worn(); {
		case late && !y.due.IsZero() && y.now.Before(y.due) && len(y.bag)+len(y.looks) == 0:
			y.now = y.due
		case len(bag)+len(looks) == 0 && !late:
			y.Fatalf("a job is lost: nobody has died, no message is lost, and nothing is left to do")
		default:
			y.now = y.now.Add(15 * time.Second)
		}
		if late := y.struck || y.phase == closing || y.worn(); late && !y.now.Before(y.due) {
			y.look(workflow.Look{}, true)
			y.judge()
		}
	}
	// Whoever comes late changes nothing any more.
	for _, m := range y.bag {
		y.serve(y.workers[0], m)
	}
	y.judge()
}

// TestPacks: whatever happens to workers, to the engine, to messages and replies,
// over whichever adapter, the laws of packs_judge_test.go hold after each action,
// and every job is accounted for.
func TestPacks(t *testing.T) {
	play(t, func(t *rapid.T, a adapter) {
		y := newYard(t, a)
		defer func() {
			for _, l := range y.open {
				l.Kill()
			}
		}()
		repeat(t, y.judge, y.moves)
		y.drain()
	})
}
