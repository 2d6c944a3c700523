package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker/internal/session"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A pack can be lent to a program that speaks HTTP only: whoever serves it keeps
// the protocol on its behalf, and may be another process at each of the three
// steps below. The worker's name and nonce are those of the program.

// Lend claims a message's pack and returns it with its open jobs, as a block would
// be told of them. loan is nil if there is nothing to lend: then d says what to do
// with the message.
func (w *Worker) Lend(ctx context.Context, m *workflow.PackMessage, p Ports) (loan *Loan, d Disposition, err error) {
	if m, err = session.Whole(ctx, m, w.view(p)); err != nil {
		return nil, d, err
	}
	inputs := make([]*workflow.JobInput, len(m.Jobs))
	for i := range m.Jobs {
		if inputs[i], err = session.Undone(ctx, &m.Jobs[i], w.view(p)); err != nil {
			return nil, d, err
		}
	}
	pack, disposition, err := session.Lend(ctx, &w.rules, m, w.view(p))
	if err != nil || pack == nil {
		return nil, Disposition(disposition), err
	}
	return loanOf(m, inputs, pack), d, nil
}

// Loan is a pack in the hands of a program elsewhere.
type Loan struct {
	Pack *workflow.Pack
	Jobs []*Job // that have not ended; only Lend tells of them
}

func loanOf(m *workflow.PackMessage, inputs []*workflow.JobInput, p *workflow.Pack) *Loan {
	l := &Loan{Pack: p}
	for i, rec := range p.Jobs {
		for _, in := range inputs {
			if in.Index == rec.Index && rec.Code == workflow.CodeStarted {
				l.Jobs = append(l.Jobs, jobOf(m, in, p.Token, session.Deadline(m, p, i)))
			}
		}
	}
	return l
}

// Returned is what a program says of a loan, by job id.
type Returned struct {
	Answers  map[string]Answer
	NotBegun []string // jobs it will not begin, once it has been asked to stop
}

// Resume goes on with a loan as it was read: it renews the lease, and writes down
// what is returned, if that is not nil. loan is nil once the pack has ended; then
// d says what to do with its message. CodeClaimLost says that the pack is somebody
// else's, and that nothing has changed.
func (w *Worker) Resume(ctx context.Context, m *workflow.PackMessage, seen *workflow.Pack, r *Returned, p Ports) (loan *Loan, d Disposition, err error) {
	if m, err = session.Whole(ctx, m, w.view(p)); err != nil {
		return nil, d, err
	}
	var given *session.Given
	if r != nil {
		given = &session.Given{Answers: map[int]session.Answer{}, NotBegun: map[int]bool{}}
		for _, in := range m.Jobs {
			id := workflow.JobID(m.Key.Execution, m.Key.RunSeq, in.Index, m.Key.Attempt)
			if a, told := r.Answers[id]; told {
				given.Answers[in.Index] = judged(&m.Work, a).record()
			}
			for _, skipped := range r.NotBegun {
				given.NotBegun[in.Index] = given.NotBegun[in.Index] || skipped == id
			}
		}
	}
	pack, disposition, err := session.Resume(ctx, &w.rules, m, w.view(p), seen, given)
	if err != nil || pack == nil {
		return nil, Disposition(disposition), err
	}
	return &Loan{Pack: pack}, d, nil
}

func (w *Worker) view(p Ports) session.Ports {
	return session.Ports{Packs: p.Packs, Queue: p.Queue, Meter: p.Meter, Hold: p.Hold, Budget: p.Budget, Begun: p.Begun}
}

// jobOf is what a block is told.
func jobOf(m *workflow.PackMessage, in *workflow.JobInput, packToken int, deadline time.Time) *Job {
	return &Job{
		ID:     workflow.JobID(m.Key.Execution, m.Key.RunSeq, in.Index, m.Key.Attempt),
		Tenant: m.Key.Tenant, Execution: m.Key.Execution, Step: m.Work.Step, Block: m.Work.Block,
		Operation: m.Work.Kind, Attempt: m.Key.Attempt,
		Entity: in.Entity, Attributes: in.Attributes, Parameters: in.Parameters, Result: in.Result,
		Token: in.Token, Fence: workflow.Fence(in.Token, m.Key.RunSeq, m.Key.Attempt, packToken),
		Deadline: deadline, Correlation: m.Work.Correlation,
	}
}
