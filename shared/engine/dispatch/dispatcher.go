// Package dispatch is the engine's side of the pack protocol. It sends the packs
// of a step run to the workers and reports how far the step run has come. When a
// timer fires it sends lost packs again. It closes a step run so that none of its
// jobs starts later. The worker's side is shared/worker; the protocol is described
// in docs/protocols/packs.md.
//
// A tour:
//
//   - dispatcher.go cuts lanes into messages.
//   - lane_state.go follows one lane along its attempts to the first that is not
//     final.
//   - report.go and close.go do so for all lanes of a step run.
//   - redispatch.go decides what is sent again, and when.
//   - advance_lane.go continues a lane where only the engine knows what follows.
//
// Every read is strongly consistent and fully paged, never from an index. Every
// write is conditional on what was read.
package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Dispatcher sends, inspects and closes packs through two ports.
type Dispatcher struct {
	Packs  port.Packs
	Sender port.Sender
	Limits
	Ahead *Ahead // nil if nothing was read ahead
}

// Ahead holds the packs of a step run as a weak read has returned them: each as it is, or as it was.
type Ahead struct {
	StepRun workflow.StepRunKey
	Packs   []*workflow.Pack
}

// Limits are the time limits and bounds of the protocol.
type Limits struct {
	Skew               time.Duration // largest difference between two clocks
	Grace              time.Duration // added to a lease before the engine seizes a pack
	RedispatchInterval time.Duration // first pause before a pack is sent again
	MaxTakeovers       int           // TMAX: highest token of one pack
	MessageLife        time.Duration // D: workers drop messages this long after the step run was dispatched
	Unclaimed          time.Duration // how long jobs may wait for a worker
	Stuck              time.Duration // how long an abandoned claim waits for another worker after its lease
	ChainBytes         int           // about the largest chain of lanes in one message, in bytes
	Parallel           int           // concurrent calls; 1 keeps all of them in the caller's goroutine
}

// StepRun is a step run and the data for its messages.
type StepRun struct {
	Tenant    string
	Execution string
	Step      *workflow.StepRun
	Work      workflow.Work
	DueAt     time.Time // when the execution's timer fires
	Deadline  time.Time // no pack of it starts later; zero for none

	// Restored means that the tables were restored to an earlier time. The done sets may then
	// contain lanes that the packs no longer confirm.
	Restored bool

	// Jobs returns all jobs, ordered by index. It is called only to write a message or to count
	// jobs that did not end OK.
	Jobs func(ctx context.Context) ([]workflow.JobInput, error)

	// Fill returns jobs as they are sent: with their callback token, which is stored nowhere else.
	// It is nil if jobs are sent as they are.
	Fill func(ctx context.Context, jobs []workflow.JobInput) ([]workflow.JobInput, error)

	// ShouldRetry reports whether a job that failed in the given attempt is tried again. If it is
	// nil, the failure's own Retryable flag decides.
	ShouldRetry func(attempt int, why *workflow.Failure) bool

	// The following fields are set only for a step run of a pipeline.

	// LaneJobs returns the jobs of one lane that may be sent, possibly none. The error is a
	// *PlanError if the jobs cannot be planned.
	LaneJobs func(ctx context.Context, lane int) ([]workflow.JobInput, error)
	// LaneAllowed reports whether a lane may be sent now.
	LaneAllowed func(lane int) bool
	// PredecessorEndedAt returns when the packs that a lane had to wait for ended, or were last
	// seen with a worker.
	PredecessorEndedAt func(ctx context.Context, lane int) (time.Time, error)
	// PoolLastSeen returns when a worker of the same pool was last seen with another step run of
	// the pipeline; zero if never.
	PoolLastSeen func(ctx context.Context) (time.Time, error)
}

// PlanError says why the jobs of a lane cannot be planned. It fails the step run that it names.
type PlanError struct {
	StepRunSeq int
	Lane       int
	Cause      workflow.Cause
	Failure    *workflow.Failure
}

func (p *PlanError) Error() string { return p.Failure.Message }

func (r *StepRun) key() workflow.StepRunKey {
	return workflow.StepRunKey{Tenant: r.Tenant, Execution: r.Execution, Ordinal: r.Step.Ordinal, Seq: r.Step.Seq}
}

// Dispatch sends the first lanes of a step run that was just committed: all of
// them, or as many as its window allows. Each message carries the chain of lanes
// that follow in the same slot. carried is the cost of the sender that nobody has
// counted yet; the first message takes it along, with the requests that send them all, which are
// returned. After an error the timer sends what is missing.
func (d *Dispatcher) Dispatch(ctx context.Context, r *StepRun, now time.Time, carried workflow.Cost) (requests float64, err error) {
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return 0, err
	}
	first := r.Step.Lanes()
	if w := r.Step.Window; w > 0 {
		first = min(first, w)
	}
	requests = requestCount(first)
	carried.Add(workflow.Cost{QueueRequests: requests})
	for next := 0; next < first; {
		var messages []*workflow.PackMessage
		for ; next < first && len(messages) < maxMessagesPerSend; next++ {
			messages = append(messages, d.laneMessage(r, jobs, next))
		}
		messages[0].Cost, carried = carried, workflow.Cost{}
		if err := d.sendMessages(ctx, r, now, messages); err != nil {
			return requests, err
		}
	}
	return requests, nil
}

// maxMessagesPerSend bounds how many messages are in memory at a time. If the handler is cut off,
// the messages sent so far stay sent.
const maxMessagesPerSend = 200

// SendLanes sends the first lanes of a pipeline's step run that was just committed. It returns the
// lanes without jobs. After an error the timer sends what is missing.
func (d *Dispatcher) SendLanes(ctx context.Context, r *StepRun, lanes int, now time.Time) (empty []int, err error) {
	var messages []*workflow.PackMessage
	for lane := range lanes {
		jobs, err := r.LaneJobs(ctx, lane)
		if err != nil {
			return empty, err
		}
		if len(jobs) == 0 {
			empty = append(empty, lane)
			continue
		}
		if messages = append(messages, d.singleLaneMessage(r, jobs, lane)); len(messages) == maxMessagesPerSend {
			if err := d.sendMessages(ctx, r, now, messages); err != nil {
				return empty, err
			}
			messages = nil
		}
	}
	if len(messages) == 0 {
		return empty, nil
	}
	return empty, d.sendMessages(ctx, r, now, messages)
}

// requestCount estimates the number of SQS requests for a number of messages. The messages carry
// this cost themselves, so it must be known before they are sent. Ten messages go into one request,
// and one window of messages stays within 64 KB.
func requestCount(messages int) float64 { return float64((messages + 9) / 10) }

// laneMessage returns the message for a lane's first attempt, with its chain. If the engine decides
// what follows, there is no chain.
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
		Key:       r.key().Pack(lane, 1),
		Work:      r.Work,
		Jobs:      jobs,
		NotBefore: r.Work.LaneNotBefore(lane),
		NotAfter:  d.notAfter(r),
	}
}

// notAfter returns when the messages of a step run expire: at the end of their lifetime, or at the
// deadline.
func (d *Dispatcher) notAfter(r *StepRun) time.Time {
	at := r.Step.DispatchedAt.Add(d.MessageLife)
	if !r.Deadline.IsZero() && r.Deadline.Before(at) {
		return r.Deadline
	}
	return at
}

// jobsBytes estimates the size of jobs in a message, in bytes.
func jobsBytes(jobs []workflow.JobInput) int {
	raw, err := workflow.EncodeJSON(jobs)
	if err != nil {
		return 1 << 20 // too large for any chain, so the engine sends the lane alone
	}
	return len(raw)
}

// SendLane sends one lane whose chain was cut, unless a worker has claimed it. Workers may report
// the same cut twice.
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
	return d.sendMessages(ctx, r, now, []*workflow.PackMessage{d.laneMessage(r, jobs, lane)})
}

// sendMessages sends the messages that have not expired. If a message is too large for the queue,
// it stores the jobs separately first.
func (d *Dispatcher) sendMessages(ctx context.Context, r *StepRun, now time.Time, messages []*workflow.PackMessage) error {
	messages = slices.DeleteFunc(messages, func(m *workflow.PackMessage) bool { return m.ExpiredAt(now) })
	if len(messages) == 0 {
		return nil
	}
	save := func(key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
		return d.Packs.SavePayload(ctx, key, data)
	}
	for i, m := range messages {
		var err error
		if r.Fill != nil {
			if m.Jobs, err = r.Fill(ctx, m.Jobs); err != nil {
				return err
			}
			m.HoldsToken = true
		}
		m.MarkSent(now)
		if messages[i], err = m.OffloadPayload(save); err != nil {
			return err
		}
	}
	_, err := d.Sender.SendPacks(ctx, now, messages)
	return err
}
