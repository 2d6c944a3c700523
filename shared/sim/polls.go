package sim

import (
	"bytes"
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PollReceipt reads what is stored for an attempt of a poll, strongly consistent; nil if
// nothing is.
func (p *Packs) PollReceipt(_ context.Context, a workflow.PollAttempt) (*workflow.PollReceipt, error) {
	return call(p.conn, "packs.poll_receipt", func(bool) (*workflow.PollReceipt, error) {
		p.countReads(tableJobs, 1)
		stored, ok := p.w.polls[a]
		if !ok {
			return nil, nil
		}
		stored.Receipt = bytes.Clone(stored.Receipt)
		return &stored, nil
	})
}

// SavePollReceipt replaces what is stored for the attempt if it still has the version seen.
func (p *Packs) SavePollReceipt(_ context.Context, a workflow.PollAttempt, seen string, next workflow.PollReceipt) (bool, error) {
	return call(p.conn, "packs.save_poll_receipt", func(bool) (bool, error) {
		p.countWrite(tableJobs)
		if old := p.w.polls[a]; old.Version != seen {
			return old.Version == next.Version, nil
		}
		next.Receipt = bytes.Clone(next.Receipt)
		p.w.polls[a] = next
		return true, nil
	})
}
