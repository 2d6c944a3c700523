package sim

import (
	"context"
	"reflect"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// claim is the answer to a worker's write: the item as it stands where its
// condition did not hold.
type claim struct {
	ok  bool
	old *workflow.Pack
}

func (p *Packs) claims(name string, perform func() (claim, error)) (bool, *workflow.Pack, error) {
	c, err := call(p.line, name, func(bool) (claim, error) {
		p.writes(tableJobs)
		return perform()
	})
	return c.ok, replica.Of(c.old), err
}

// write puts a whole pack under a condition. A write whose reply was lost is
// recognised by its nonce.
func (p *Packs) write(name string, pack *workflow.Pack, allowed func(old *workflow.Pack) bool) (bool, *workflow.Pack, error) {
	return p.claims(name, func() (claim, error) {
		old := p.w.packs[pack.Key]
		if allowed(old) {
			return claim{ok: true}, p.put(pack)
		}
		own := old != nil && pack.Nonce != "" && old.Nonce == pack.Nonce && old.Token == pack.Token && old.State == pack.State
		return claim{own, old}, nil
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
	return p.write("packs.take_over", next, func(old *workflow.Pack) bool { return asSeen(old, seen) && !old.Cancel })
}

// Extend writes p's lease and job records.
func (p *Packs) Extend(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.claims("packs.extend", func() (claim, error) {
		old := p.w.packs[pack.Key]
		if !mine(old, pack.Token) || old.Cancel || old.Lease.After(pack.Lease) || overtaken(old, pack) {
			return claim{false, old}, nil
		}
		next := replica.Of(old)
		next.Lease, next.Jobs, next.Cost = pack.Lease, pack.Jobs, pack.Cost
		return claim{ok: true}, p.put(next)
	})
}

// Finish writes p's end. Nobody else writes with its token: an end that carries
// it is this one.
func (p *Packs) Finish(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.claims("packs.finish", func() (claim, error) {
		old := p.w.packs[pack.Key]
		if !mine(old, pack.Token) {
			same := old != nil && old.State == pack.State && old.Token == pack.Token
			if same && !pack.Seen.IsZero() {
				same = reflect.DeepEqual(old.Jobs, pack.Jobs)
			}
			return claim{same, old}, nil
		}
		if overtaken(old, pack) {
			return claim{false, old}, nil
		}
		next := replica.Of(old)
		next.State, next.FinishedAt, next.Jobs, next.Cost = pack.State, pack.FinishedAt, pack.Jobs, pack.Cost
		return claim{ok: true}, p.put(next)
	})
}

// overtaken reports whether somebody else has written under the same token since
// the pack was read, where the write asks for that.
func overtaken(old, next *workflow.Pack) bool {
	return !next.Seen.IsZero() && !old.Lease.Equal(next.Seen)
}
