package sim

import (
	"context"
	"reflect"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// writeResult is the answer to a worker's write: the item as it stands where its
// condition did not hold.
type writeResult struct {
	ok  bool
	old *workflow.Pack
}

func (p *Packs) conditionalWrite(name string, perform func() (writeResult, error)) (bool, *workflow.Pack, error) {
	c, err := call(p.conn, name, func(bool) (writeResult, error) {
		p.countWrite(tableJobs)
		return perform()
	})
	return c.ok, clone(c.old), err
}

// write puts a whole pack under a condition. A write whose reply was lost is
// recognised by its nonce.
func (p *Packs) write(name string, pack *workflow.Pack, allowed func(old *workflow.Pack) bool) (bool, *workflow.Pack, error) {
	return p.conditionalWrite(name, func() (writeResult, error) {
		old := p.w.packs[pack.Key]
		if allowed(old) {
			return writeResult{ok: true}, p.put(pack)
		}
		own := old != nil && pack.Nonce != "" && old.Nonce == pack.Nonce && old.Token == pack.Token && old.State == pack.State
		return writeResult{own, old}, nil
	})
}

func absent(old *workflow.Pack) bool { return old == nil }

// Claim puts p if the item is absent.
func (p *Packs) Claim(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.write("packs.claim", pack, absent)
}

// FinishUnclaimed puts p if the item is absent.
func (p *Packs) FinishUnclaimed(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.write("packs.finish_unclaimed", pack, absent)
}

// TakeOver replaces seen by next.
func (p *Packs) TakeOver(_ context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.write("packs.take_over", next, func(old *workflow.Pack) bool { return unchangedClaim(old, seen) && !old.CancelRequested })
}

// Extend writes p's lease and job records.
func (p *Packs) Extend(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.conditionalWrite("packs.extend", func() (writeResult, error) {
		old := p.w.packs[pack.Key]
		if !claimedWith(old, pack.Token) || old.CancelRequested || old.Lease.After(pack.Lease) || leaseChanged(old, pack) {
			return writeResult{false, old}, nil
		}
		next := clone(old)
		next.Lease, next.Jobs, next.Cost = pack.Lease, pack.Jobs, pack.Cost
		return writeResult{ok: true}, p.put(next)
	})
}

// Finish writes p's end. Nobody else writes with its token: an end that carries
// it is this one.
func (p *Packs) Finish(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.conditionalWrite("packs.finish", func() (writeResult, error) {
		old := p.w.packs[pack.Key]
		if !claimedWith(old, pack.Token) {
			same := old != nil && old.State == pack.State && old.Token == pack.Token
			if same && !pack.ExpectedLease.IsZero() {
				same = reflect.DeepEqual(old.Jobs, pack.Jobs)
			}
			return writeResult{same, old}, nil
		}
		if leaseChanged(old, pack) {
			return writeResult{false, old}, nil
		}
		next := clone(old)
		next.State, next.FinishedAt, next.Jobs, next.Cost = pack.State, pack.FinishedAt, pack.Jobs, pack.Cost
		return writeResult{ok: true}, p.put(next)
	})
}

// leaseChanged reports whether somebody else has written under the same token since
// the pack was read, where the write asks for that.
func leaseChanged(old, next *workflow.Pack) bool {
	return !next.ExpectedLease.IsZero() && !old.Lease.Equal(next.ExpectedLease)
}
