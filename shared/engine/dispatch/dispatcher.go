package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Dispatcher does the engine's pack work through the ports it needs.
type Dispatcher struct {
	Packs  port.Packs
	Sender port.Sender
	Limits
}

// Limits are the thresholds of the protocol.
type Limits struct {
	Skew               time.Duration // how far clocks may differ
	Grace              time.Duration // added to a lease before the engine takes a pack away
	RedispatchInterval time.Duration // pause after a pack has been sent again
	MaxTakeovers       int           // TMAX: tokens of one pack
	MessageLife        time.Duration // D: messages are not worked on later than this after the run's epoch time
	Unclaimed          time.Duration // how long jobs may wait for a first claim
	Stuck              time.Duration // how long after a lease an abandoned claim waits for another worker
	ChainBytes         int           // about how large a chain of lanes may grow in one message
	Parallel           int           // calls in flight at a time; 1 keeps everything in the caller's goroutine
}

// StepRun is a step run with what its messages are made of. Jobs holds all jobs, in
// the order of their index; it is asked for only when a message or a tombstone
// has to be written.
type StepRun struct {
	Tenant    string
	Execution string
	Step      *workflow.StepRun
	Work      workflow.Work
	Jobs      func(ctx context.Context) ([]workflow.JobInput, error)
	DueAt     time.Time // what the execution's alarm is set for

	// ShouldRetry decides whether a job that failed in the given attempt is tried again.
	// nil leaves that to what the failure says of itself.
	ShouldRetry func(attempt int, why *workflow.Failure) bool

	// Of a run of a stretch: Lane has the jobs of one lane that may be sent, perhaps
	// none, or an error that is a *Problem; Allowed says which lanes may be.
	// and Before when the packs ended, or were last seen, after which a lane may be.
	LaneJobs           func(ctx context.Context, lane int) ([]workflow.JobInput, error)
	LaneAllowed        func(lane int) bool
	PredecessorEndedAt func(ctx context.Context, lane int) (time.Time, error)
}

// PlanError is why the jobs of a lane cannot be planned, which is a failure of the
// run.
type PlanError struct {
	Cause   workflow.Cause
	Failure *workflow.Failure
}

func (p *PlanError) Error() string { return p.Failure.Message }

func (r *StepRun) key() workflow.StepRunKey {
	return workflow.StepRunKey{Tenant: r.Tenant, Execution: r.Execution, Ordinal: r.Step.Ordinal, Seq: r.Step.Seq}
}

// Dispatch offers the first lanes of a run that was just committed: all of them,
// or as many as its window allows, each with the chain of lanes that follow in
// its slot. carried is what the sender has consumed and nobody has counted yet.
// What cannot be sent is left to the alarm.
func (d *Dispatcher) Dispatch(ctx context.Context, r *StepRun, now time.Time, carried workflow.Cost) error {
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return err
	}
	first := r.Step.Lanes()
	if w := r.Step.Window; w > 0 {
		first = min(first, w)
	}
	messages := make([]*workflow.PackMessage, 0, first)
	for lane := range first {
		messages = append(messages, d.laneMessage(r, jobs, lane))
	}
	if len(messages) > 0 {
		carried.Add(workflow.Cost{QueueRequests: requestCount(len(messages))})
		messages[0].Cost = carried
	}
	return d.sendMessages(ctx, now, messages)
}

// requestCount is what sending messages will cost, which they carry themselves: ten
// go into one request, and a window's worth stays within 64 KB.
func requestCount(messages int) float64 { return float64((messages + 9) / 10) }

// laneMessage is the offer of a lane's first attempt with its chain. Where the engine
// says what follows, there is none.
func (d *Dispatcher) laneMessage(r *StepRun, jobs []workflow.JobInput, lane int) *workflow.PackMessage {
	from, to := r.Step.LaneRange(lane)
	m := d.singleLaneMessage(r, jobs[from:to], lane)
	if r.Step.Window == 0 || r.Work.EngineDriven {
		return m
	}
	budget := d.ChainBytes
	for next := lane + r.Step.Window; next < r.Step.Lanes(); next += r.Step.Window {
		from, to := r.Step.LaneRange(next)
		if budget -= jobsBytes(jobs[from:to]); budget < 0 {
			m.ChainCut = next
			break
		}
		m.Chain = append(m.Chain, workflow.LaneJobs{Lane: next, Jobs: jobs[from:to]})
	}
	return m
}

func (d *Dispatcher) singleLaneMessage(r *StepRun, jobs []workflow.JobInput, lane int) *workflow.PackMessage {
	return &workflow.PackMessage{
		Key:      r.key().Pack(lane, 1),
		Work:     r.Work,
		Jobs:     jobs,
		NotAfter: r.Step.DispatchedAt.Add(d.MessageLife),
	}
}

// jobsBytes is about how many bytes jobs take in a message.
func jobsBytes(jobs []workflow.JobInput) int {
	raw, err := json.Marshal(jobs)
	if err != nil {
		return 1 << 20 // too large for any chain: the engine sends it alone
	}
	return len(raw)
}

// SendLane offers one lane, if nobody has claimed it yet: the engine does this where a
// worker found its chain cut, and may be told of it twice.
func (d *Dispatcher) SendLane(ctx context.Context, r *StepRun, lane int, now time.Time) error {
	if lane < 0 || lane >= r.Step.Lanes() {
		return nil
	}
	if p, err := d.Packs.Pack(ctx, r.key().Pack(lane, 1)); p != nil || err != nil {
		return err
	}
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return err
	}
	return d.sendMessages(ctx, now, []*workflow.PackMessage{d.laneMessage(r, jobs, lane)})
}

// sendMessages offers messages, once each fits its queue. What cannot be sent is left to
// the alarm.
func (d *Dispatcher) sendMessages(ctx context.Context, now time.Time, messages []*workflow.PackMessage) error {
	save := func(key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
		return d.Packs.SavePayload(ctx, key, data)
	}
	for i, m := range messages {
		var err error
		if messages[i], err = m.OffloadPayload(save); err != nil {
			return err
		}
	}
	_, err := d.Sender.SendPacks(ctx, now, messages)
	return err
}
