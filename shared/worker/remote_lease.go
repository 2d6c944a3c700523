package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A pack can be lent to a program that speaks HTTPBlocks only: whoever serves it keeps
// the protocol on its behalf, and may be another process at each of the three
// steps below. The worker's name and nonce are those of the program.

// LeaseRemote claims a message's pack and returns it with its open jobs, as a block would
// be told of them. loan is nil if there is nothing to lend: then d says what to do
// with the message.
func (w *Worker) LeaseRemote(ctx context.Context, m *workflow.PackMessage, p Ports) (lease *RemoteLease, d Disposition, err error) {
	if m, err = loadMessagePayload(ctx, m, w.sessionPorts(p)); err != nil {
		return nil, d, err
	}
	inputs := make([]*workflow.JobInput, len(m.Jobs))
	for i := range m.Jobs {
		if inputs[i], err = loadRollbackInput(ctx, &m.Jobs[i], w.sessionPorts(p)); err != nil {
			return nil, d, err
		}
	}
	pack, disposition, err := leaseRemote(ctx, &w.sessionConfig, m, w.sessionPorts(p))
	if err != nil || pack == nil {
		return nil, Disposition(disposition), err
	}
	return newRemoteLease(m, inputs, pack), d, nil
}

// RemoteLease is a pack in the hands of a program elsewhere.
type RemoteLease struct {
	Pack *workflow.Pack
	Jobs []*Job // that have not ended; only Lend tells of them
}

func newRemoteLease(m *workflow.PackMessage, inputs []*workflow.JobInput, p *workflow.Pack) *RemoteLease {
	l := &RemoteLease{Pack: p}
	for i, rec := range p.Jobs {
		for _, in := range inputs {
			if in.Index == rec.Index && rec.Code == workflow.JobCodeStarted {
				l.Jobs = append(l.Jobs, newJob(m, in, p.Token, remoteJobDeadline(m, p, i)))
			}
		}
	}
	return l
}

// RemoteResult is what a program says of a loan, by job id.
type RemoteResult struct {
	Results  map[string]JobResult
	NotBegun []string // jobs it will not begin, once it has been asked to stop
}

// ResumeRemote goes on with a loan as it was read: it renews the lease, and writes down
// what is returned, if that is not nil. loan is nil once the pack has ended; then
// d says what to do with its message. CodeClaimLost says that the pack is somebody
// else's, and that nothing has changed.
func (w *Worker) ResumeRemote(ctx context.Context, m *workflow.PackMessage, seen *workflow.Pack, r *RemoteResult, p Ports) (lease *RemoteLease, d Disposition, err error) {
	if m, err = loadMessagePayload(ctx, m, w.sessionPorts(p)); err != nil {
		return nil, d, err
	}
	var results *remoteRecords
	if r != nil {
		results = &remoteRecords{Records: map[int]jobRecord{}, NotBegun: map[int]bool{}}
		for _, in := range m.Jobs {
			id := workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt)
			if a, reported := r.Results[id]; reported {
				results.Records[in.Index] = validated(&m.Work, a).toRecord()
			}
			for _, skipped := range r.NotBegun {
				results.NotBegun[in.Index] = results.NotBegun[in.Index] || skipped == id
			}
		}
	}
	pack, disposition, err := resumeRemote(ctx, &w.sessionConfig, m, w.sessionPorts(p), seen, results)
	if err != nil || pack == nil {
		return nil, Disposition(disposition), err
	}
	return &RemoteLease{Pack: pack}, d, nil
}

func (w *Worker) sessionPorts(p Ports) sessionPorts {
	return sessionPorts{Packs: p.Packs, Sender: p.Sender, Meter: p.Meter, ExtendVisibility: p.ExtendVisibility, TimeBudget: p.TimeBudget, OnUnclaimedStart: p.OnUnclaimedStart}
}

// newJob is what a block is told.
func newJob(m *workflow.PackMessage, in *workflow.JobInput, packToken int, deadline time.Time) *Job {
	return &Job{
		ID:     workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt),
		Tenant: m.Key.Tenant, ExecutionID: m.Key.Execution, Step: m.Work.Step, Block: m.Work.Block,
		Operation: m.Work.Kind, Attempt: m.Key.Attempt,
		Entity: in.Entity, Attributes: in.Attributes, Parameters: in.Parameters, Result: in.Result,
		Token: in.Token, Fence: workflow.Fence(in.Token, m.Key.StepRunSeq, m.Key.Attempt, packToken),
		Deadline: deadline, CorrelationID: m.Work.CorrelationID,
	}
}
