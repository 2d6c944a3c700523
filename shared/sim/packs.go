package sim

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Packs stores the pack items and the done sets, for the engine and for workers.
type Packs struct{ *conn }

type shardKey struct {
	stepRun workflow.StepRunKey
	shard   int
}

// Pack reads a pack, strongly consistent; nil if it is absent.
func (p *Packs) Pack(_ context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	return call(p.conn, "packs.pack", func(bool) (*workflow.Pack, error) {
		p.countReads(tableJobs, 1)
		return clone(p.w.packs[key]), nil
	})
}

// ShardPacks reads all packs of one shard of a step run.
func (p *Packs) ShardPacks(_ context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return call(p.conn, "packs.shard_packs", func(bool) ([]*workflow.Pack, error) {
		found := p.packsWhere(func(key workflow.PackKey) bool { return key.StepRunKey() == stepRun && key.Shard() == shard })
		p.countReads(tableJobs, len(found))
		return found, nil
	})
}

// ShardPacksWeakly reads the same. A stale read returns each as it was before its last change.
func (p *Packs) ShardPacksWeakly(_ context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return call(p.conn, "packs.shard_packs_weakly", func(stale bool) ([]*workflow.Pack, error) {
		found := p.packsWhere(func(key workflow.PackKey) bool { return key.StepRunKey() == stepRun && key.Shard() == shard })
		p.countWeakReads(tableJobs, len(found))
		if !stale {
			return found, nil
		}
		for i, pack := range found {
			found[i] = clone(p.w.packsBefore[pack.Key])
		}
		return slices.DeleteFunc(found, func(pack *workflow.Pack) bool { return pack == nil }), nil
	})
}

// LanePacks reads all packs of lanes of one shard, from first to last.
func (p *Packs) LanePacks(_ context.Context, stepRun workflow.StepRunKey, first, last int) ([]*workflow.Pack, error) {
	return call(p.conn, "packs.lane_packs", func(bool) ([]*workflow.Pack, error) {
		found := p.packsWhere(func(key workflow.PackKey) bool {
			return key.StepRunKey() == stepRun && key.Lane >= first && key.Lane <= last
		})
		p.countReads(tableJobs, max(1, len(found)))
		return found, nil
	})
}

// packsWhere returns copies of packs in the order of their keys.
func (p *Packs) packsWhere(match func(workflow.PackKey) bool) (found []*workflow.Pack) {
	for key, pack := range p.w.packs {
		if match(key) {
			found = append(found, clone(pack))
		}
	}
	slices.SortFunc(found, func(a, b *workflow.Pack) int {
		x, y := a.Key, b.Key
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.PipelinePos, y.PipelinePos), cmp.Compare(x.Attempt, y.Attempt))
	})
	return found
}

// DoneSet reads a shard's done set, strongly consistent.
func (p *Packs) DoneSet(_ context.Context, stepRun workflow.StepRunKey, shard int) (workflow.DoneSet, error) {
	return call(p.conn, "packs.done_set", func(bool) (workflow.DoneSet, error) {
		p.countReads(tableJobs, 1)
		return p.readDoneSet(stepRun, shard).copy(), nil
	})
}

// AddDone adds a lane to its shard's done set.
func (p *Packs) AddDone(_ context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error) {
	return call(p.conn, "packs.add_done", func(bool) (workflow.DoneSet, error) {
		p.countWrite(tableJobs)
		at := shardKey{key.StepRunKey(), key.Shard()}
		set := p.readDoneSet(at.stepRun, at.shard)
		kept := workflow.DoneSet(set)
		kept.Include(key.Lane%workflow.LanesPerShard, end)
		answer := doneSet(kept).copy()
		kept.Added = false
		p.w.doneSets[at] = &kept
		return answer, nil
	})
}

// AddDoneLanes adds lanes of one shard that have ended OK.
func (p *Packs) AddDoneLanes(_ context.Context, stepRun workflow.StepRunKey, shard int, lanes []int) (workflow.DoneSet, error) {
	return call(p.conn, "packs.add_done_lanes", func(bool) (workflow.DoneSet, error) {
		p.countWrite(tableJobs)
		numbers := make([]int, len(lanes))
		for i, lane := range lanes {
			numbers[i] = lane % workflow.LanesPerShard
		}
		kept := workflow.DoneSet(p.readDoneSet(stepRun, shard))
		kept.IncludeAll(numbers)
		answer := doneSet(kept).copy()
		kept.Added = false
		p.w.doneSets[shardKey{stepRun, shard}] = &kept
		return answer, nil
	})
}

// doneSet is a done set whose maps are never nil.
type doneSet workflow.DoneSet

func (p *Packs) readDoneSet(stepRun workflow.StepRunKey, shard int) doneSet {
	if set := p.w.doneSets[shardKey{stepRun, shard}]; set != nil {
		return doneSet(*set)
	}
	return doneSet(workflow.NewDoneSet())
}

func (s doneSet) copy() workflow.DoneSet {
	return workflow.DoneSet{
		Done: maps.Clone(s.Done), Unsuccessful: maps.Clone(s.Unsuccessful), Failures: maps.Clone(s.Failures), WithUpdates: maps.Clone(s.WithUpdates),
		Cost: s.Cost.Clone(), Added: s.Added,
	}
}

// Discard allows everything of one shard of a step run to be deleted from at on.
func (p *Packs) Discard(_ context.Context, stepRun workflow.StepRunKey, shard int, at time.Time) error {
	return p.discard("packs.discard", stepRun, shard, at)
}

func (l *conn) discard(name string, stepRun workflow.StepRunKey, shard int, at time.Time) error {
	_, err := call(l, name, func(bool) (empty, error) {
		l.countWrite(tableJobs)
		l.w.discardTimes[shardKey{stepRun, shard}] = at
		return empty{}, nil
	})
	return err
}

// partsShard stands for the items of an execution other than its state item, as a shard of step run 0.
const partsShard = -1

// PartsDiscardedAt returns from when on the items of an execution other than its state item may be
// deleted; zero if they are kept.
func (w *World) PartsDiscardedAt(tenant, id string) time.Time {
	return w.DiscardedAt(workflow.StepRunKey{Tenant: tenant, Execution: id}, partsShard)
}

// DiscardedAt returns from when on one shard of a step run may be deleted; zero if it is kept. Step
// run 0 has the values of the execution.
func (w *World) DiscardedAt(stepRun workflow.StepRunKey, shard int) time.Time {
	return w.discardTimes[shardKey{stepRun, shard}]
}

// PutCancelled puts the pack if the item is absent. An equal item counts as written.
func (p *Packs) PutCancelled(_ context.Context, pack *workflow.Pack) (bool, error) {
	return call(p.conn, "packs.put_cancelled", func(bool) (bool, error) {
		p.countWrite(tableJobs)
		if old := p.w.packs[pack.Key]; old != nil {
			return old.State == pack.State && old.Token == pack.Token, nil
		}
		return true, p.put(pack)
	})
}

// RequestCancel sets the cancel flag if the pack is CLAIMED.
func (p *Packs) RequestCancel(_ context.Context, key workflow.PackKey) (bool, error) {
	return call(p.conn, "packs.request_cancel", func(bool) (bool, error) {
		p.countWrite(tableJobs)
		old := p.w.packs[key]
		if old == nil || old.State != workflow.PackClaimed {
			return false, nil
		}
		next := *old
		next.CancelRequested = true
		return true, p.put(&next)
	})
}

// ForceCancel replaces seen by next if the claim has not changed. An equal write by another
// handler counts as written.
func (p *Packs) ForceCancel(_ context.Context, seen, next *workflow.Pack) (bool, error) {
	return call(p.conn, "packs.force_cancel", func(bool) (bool, error) {
		p.countWrite(tableJobs)
		old := p.w.packs[next.Key]
		if !unchangedClaim(old, seen) {
			return old != nil && old.State == next.State && old.Token == next.Token, nil
		}
		return true, p.put(next)
	})
}

func (p *Packs) put(pack *workflow.Pack) error {
	if err := p.w.checkPackSize(pack); err != nil {
		return err
	}
	old, next := p.w.packs[pack.Key], clone(pack)
	p.w.packs[pack.Key], p.w.packsBefore[pack.Key] = next, old
	if p.w.Observer != nil {
		p.w.Observer.PackWritten(old, next)
	}
	return nil
}

// claimedWith reports whether the item is claimed with the token.
func claimedWith(old *workflow.Pack, token int) bool {
	return old != nil && old.State == workflow.PackClaimed && old.Token == token
}

// unchangedClaim reports whether the claim and its lease are as they were read.
func unchangedClaim(old, seen *workflow.Pack) bool {
	return claimedWith(old, seen.Token) && sameMillis(old.Lease, seen.Lease)
}

// sameMillis compares times in milliseconds, the resolution in which they are stored.
func sameMillis(a, b time.Time) bool { return a.UnixMilli() == b.UnixMilli() }

// writeResult is the result of a worker's write. old is the present item if the condition
// did not hold.
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

// write puts a whole pack if allowed holds. It recognises its own earlier write, whose reply
// was lost, by the nonce.
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

// Claim puts the pack if the item is absent.
func (p *Packs) Claim(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.write("packs.claim", pack, absent)
}

// FinishUnclaimed puts the pack if the item is absent.
func (p *Packs) FinishUnclaimed(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.write("packs.finish_unclaimed", pack, absent)
}

// MarkPool replaces the mark of a pool.
func (p *Packs) MarkPool(_ context.Context, pool string, mark workflow.PoolMark) error {
	_, err := call(p.conn, "packs.mark_pool", func(bool) (empty, error) {
		p.countWrite(tableJobs)
		p.w.poolMarks[pool] = mark
		return empty{}, nil
	})
	return err
}

// PoolMark reads the mark of a pool.
func (p *Packs) PoolMark(_ context.Context, pool string) (workflow.PoolMark, error) {
	return call(p.conn, "packs.pool_mark", func(bool) (workflow.PoolMark, error) {
		p.countReads(tableJobs, 1)
		return p.w.poolMarks[pool], nil
	})
}

// TakeOver replaces seen by next if the claim has not changed and no cancel is requested.
func (p *Packs) TakeOver(_ context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.write("packs.take_over", next, func(old *workflow.Pack) bool { return unchangedClaim(old, seen) && !old.CancelRequested })
}

// Extend writes the pack's lease and job records if the claim still has its token.
func (p *Packs) Extend(_ context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.conditionalWrite("packs.extend", func() (writeResult, error) {
		old := p.w.packs[pack.Key]
		if !claimedWith(old, pack.Token) || old.CancelRequested || old.Lease.After(pack.Lease) || leaseChanged(old, pack) {
			return writeResult{false, old}, nil
		}
		next := clone(old)
		next.Lease, next.Jobs, next.Cost = pack.Lease, pack.Jobs, pack.Cost
		next.ClaimedAt, next.Confirmed = pack.ClaimedAt, old.Confirmed || pack.Confirmed
		return writeResult{ok: true}, p.put(next)
	})
}

// Finish writes the pack's end. Only one writer has the token, so a finished item that
// carries it is this write.
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

// leaseChanged reports whether the lease differs from the one that the write expects.
func leaseChanged(old, next *workflow.Pack) bool {
	return !next.ExpectedLease.IsZero() && !old.Lease.Equal(next.ExpectedLease)
}

// payloadKey identifies one chunk of a pack's payload.
type payloadKey struct {
	pack   workflow.PackKey
	digest string
	chunk  int
}

// SavePayload stores a pack's payload in chunks. Each chunk is a call of its own.
func (p *Packs) SavePayload(_ context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
	s := workflow.NewPayloadRef(data)
	for i := range s.Chunks {
		_, err := call(p.conn, "packs.save_payload", func(bool) (empty, error) {
			p.countWrite(tableJobs)
			p.w.payloads[payloadKey{key, s.Digest, i}] = bytes.Clone(s.Chunk(data, i))
			return empty{}, nil
		})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// LoadPayload reads a pack's payload.
func (p *Packs) LoadPayload(_ context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
	return call(p.conn, "packs.load_payload", func(bool) ([]byte, error) {
		p.countReads(tableJobs, s.Chunks)
		var data []byte
		for i := range s.Chunks {
			part, ok := p.w.payloads[payloadKey{key, s.Digest, i}]
			if !ok {
				return nil, workflow.Errorf(workflow.CodeNotFound, "chunk %d of the payload of pack %s is missing", i+1, key)
			}
			data = append(data, part...)
		}
		return data, s.Verify(data)
	})
}
