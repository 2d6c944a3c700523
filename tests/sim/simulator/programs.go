package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workerapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// programs poll for packs over HTTP, beside the workers. Each call may be made by another process of
// the API, and a program does what docs/api.md asks of it.
type programs struct {
	api      *workerapi.Service
	random   *rand.Rand
	count    int
	waiting  map[*process]sim.Message // what a poll that has begun receives
	received []sim.Message            // the receipt handle is the index
}

// Programs poll under few names, and repeat a request so many times.
const programCount, maxRequests = 2, 5

// startMargin is how much of its lease a program wants to have left when it starts a job.
const startMargin = 10 * time.Second

// drawPrograms lets programs take one pack in so many, in one scenario of ten without a restore.
func (p *scenario) drawPrograms() {
	r := rand.New(rand.NewPCG(p.Seed, programStream))
	if r.IntN(10) > 0 || p.RestoreDrill != nil {
		return
	}
	p.PolledOneIn = 1 + r.IntN(3)
}

// programStream is the stream of random numbers for programs that poll.
const programStream = 75

// preparePrograms makes the service at which programs poll.
func (w *simulation) preparePrograms() {
	w.programs = programs{random: rand.New(rand.NewPCG(w.scenario.Seed, programStream+1)), waiting: map[*process]sim.Message{}}
	w.programs.api = w.NewWorkerAPI(func(pool string) workerapi.PoolQueue {
		return polledQueue{w, w.PoolQueue(pool)}
	}, func(string) bool { return true })
}

// claimedByProgram reports whether a program has claimed a pack.
func claimedByProgram(p *workflow.Pack) bool { return strings.HasPrefix(p.Worker, "program") }

// isPolled reports whether a program receives the next message of the pool.
func (w *simulation) isPolled() bool {
	return w.scenario.PolledOneIn > 0 && w.programs.random.IntN(w.scenario.PolledOneIn) == 0
}

// poll lets a program take the pack of a message. It repeats its request until it has an answer.
func (w *simulation) poll(m sim.Message) {
	w.programs.count++
	name := fmt.Sprintf("program%d", w.programs.count%programCount)
	w.tryPoll(name, fmt.Sprint("a", w.programs.count), &m, 1)
}

func (w *simulation) tryPoll(name, attempt string, m *sim.Message, try int) {
	answered := false
	w.spawn(name, -1, func() error {
		if m != nil {
			w.programs.waiting[w.current] = *m
		}
		offer, err := requested(w, func() (*views.PackOffer, error) { return w.pollOnce(name, attempt) })
		if err != nil || offer == nil {
			answered = err == nil
			return err
		}
		answered = true
		return w.work(offer)
	}, func(p *process) {
		delete(w.programs.waiting, p)
		if !answered && try < maxRequests {
			w.tryLater(func() { w.tryPoll(name, attempt, nil, try+1) })
		}
	})
}

// pollOnce makes one request. A worker that is not accepted sends a heartbeat and tries again. One that is
// forgotten meanwhile, as it was silent for long, gets nothing.
func (w *simulation) pollOnce(name, attempt string) (*views.PackOffer, error) {
	none := workflow.Duration(0)
	poll := views.JobPoll{Worker: name, Blocks: programBlocks, Wait: &none, Attempt: attempt}
	offer, err := w.programs.api.Poll(ctx, harness.Caller, poll)
	if workflow.Is(err, workflow.CodeConflict) {
		if _, err = w.programs.api.HeartbeatWorker(ctx, harness.Caller, name); err == nil {
			offer, err = w.programs.api.Poll(ctx, harness.Caller, poll)
		}
	}
	if workflow.Is(err, workflow.CodeNotFound) {
		return nil, nil
	}
	return offer, err
}

// programBlocks are the blocks of all definitions.
var programBlocks = []string{"p/pure", "p/again", "p/once", "p/harmless", "p/forever", "p/finder"}

// work does the jobs of a pack, each under its lease, and reports them. It stops when the pack is over,
// and starts no other job once it was asked to stop.
func (w *simulation) work(offer *views.PackOffer) error {
	has := views.PackLease{Lease: &offer.Lease}
	report := views.PackResults{Pack: offer.Pack, Token: offer.Token}
	for i, job := range offer.Jobs {
		var err error
		if short := has.Lease.Sub(w.clock()) < startMargin; short || i > 0 && w.programs.random.IntN(3) == 0 {
			has, err = requested(w, func() (views.PackLease, error) {
				return w.programs.api.Extend(ctx, harness.Caller, views.PackResults{Pack: offer.Pack, Token: offer.Token})
			})
		}
		if err == nil && len(report.Results) > 0 && !has.Cancel && w.programs.random.IntN(3) == 0 {
			has, err = w.report(report)
			report.Results = nil
		}
		switch {
		case err != nil || has.Lease == nil:
			return err
		case has.Cancel:
			report.NotStarted = append(report.NotStarted, readJob(job).Job.ID)
		case !w.clock().Before(readJob(job).Deadline):
			// The service has ended it, or will.
		case has.Lease.Sub(w.clock()) < startMargin:
			return nil // its requests have taken too long: another one takes over
		default:
			report.Results = append(report.Results, w.CallOfProgram(job))
		}
	}
	_, err := w.report(report)
	return err
}

func (w *simulation) report(r views.PackResults) (views.PackLease, error) {
	return requested(w, func() (views.PackLease, error) { return w.programs.api.Finish(ctx, harness.Caller, r) })
}

// requested makes a request as often as it takes. A program that is refused a pack does nothing more
// with it.
func requested[T any](w *simulation, do func() (T, error)) (answer T, err error) {
	for range maxRequests {
		if answer, err = do(); err == nil || !isTransient(err) {
			break
		}
	}
	if err != nil && !isTransient(err) && !workflow.Is(err, workflow.CodeClaimLost) {
		w.checker.Failf("an operation is accepted or refused", "a program that polls: %v", err)
	}
	return answer, err
}

// polledJob is what decides whether a program starts a job.
type polledJob struct {
	Job      struct{ ID string }
	Deadline time.Time
}

func readJob(raw json.RawMessage) (j polledJob) {
	if err := json.Unmarshal(raw, &j); err != nil {
		panic(err)
	}
	return j
}

// polledQueue is the queue of a pool for polls. A poll receives the message that it was begun for.
type polledQueue struct {
	w *simulation
	*sim.Queue
}

// ReceiveWithin implements workerapi.PoolQueue.
func (q polledQueue) ReceiveWithin(context.Context, int, time.Duration) ([]worker.Delivery, error) {
	p := q.w.current
	m, ok := q.w.programs.waiting[p]
	if !ok {
		return nil, nil
	}
	delete(q.w.programs.waiting, p)
	q.w.programs.received = append(q.w.programs.received, m)
	return []worker.Delivery{{ReceiptHandle: strconv.Itoa(len(q.w.programs.received) - 1), Body: string(m.Body), ReceiveCount: m.Receives}}, nil
}

// Receive implements worker.Source.
func (q polledQueue) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return q.ReceiveWithin(ctx, n, 0)
}

// Delete implements worker.Source.
func (q polledQueue) Delete(_ context.Context, d worker.Delivery) error {
	q.Queue.Delete(q.messageOf(d))
	return nil
}

// Defer implements worker.Source.
func (q polledQueue) Defer(_ context.Context, d worker.Delivery, after time.Duration) error {
	q.ChangeVisibility(q.messageOf(d), after)
	return nil
}

// Depth implements workerapi.PoolQueue.
func (q polledQueue) Depth(context.Context) (waiting, received, delayed int, err error) {
	return q.Len(), 0, 0, nil
}

func (q polledQueue) messageOf(d worker.Delivery) sim.Message {
	n, err := strconv.Atoi(d.ReceiptHandle)
	if err != nil {
		panic(err)
	}
	return q.w.programs.received[n]
}
