package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Packs keeps the pack items and the done sets, for the engine and for workers.
type Packs struct{ *conn }

type shardKey struct {
	stepRun workflow.StepRunKey
	shard   int
}

// Pack is a strongly consistent read; nil if absent.
func (p *Packs) Pack(_ context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	return call(p.conn, "packs.pack", func(bool) (*workflow.Pack, error) {
		p.countReads(tableJobs, 1)
		return clone(p.w.packs[key]), nil
	})
}

// ShardPacks reads all packs of one shard of a step run.
func (p *Packs) ShardPacks(_ context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return call(p.conn, "packs.shard_packs", func(bool) ([]*workflow.Pack, error) {
		var found []*workflow.Pack
		for key, pack := range p.w.packs {
			if key.StepRunKey() == stepRun && key.Shard() == shard {
				found = append(found, clone(pack))
			}
		}
		slices.SortFunc(found, func(a, b *workflow.Pack) int {
			x, y := a.Key, b.Key
			return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.PipelinePos, y.PipelinePos), cmp.Compare(x.Attempt, y.Attempt))
		})
		p.countReads(tableJobs, len(found))
		return found, nil
	})
}

// DoneSet is a strongly consistent read of a shard's done set.
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
		lane := key.Lane % workflow.LanesPerShard
		set.Done[lane] = true
		if end.Unsuccessful {
			set.Unsuccessful[lane] = true
		}
		if end.HasUpdates {
			set.WithUpdates[lane] = true
		}
		set.Cost.Add(end.Cost)
		kept := workflow.DoneSet(set)
		p.w.doneSets[at] = &kept
		return set.copy(), nil
	})
}

// doneSet is a done set that is never nil inside.
type doneSet workflow.DoneSet

func (p *Packs) readDoneSet(stepRun workflow.StepRunKey, shard int) doneSet {
	if set := p.w.doneSets[shardKey{stepRun, shard}]; set != nil {
		return doneSet(*set)
	}
	return doneSet{Done: map[int]bool{}, Unsuccessful: map[int]bool{}, WithUpdates: map[int]bool{}}
}

func (s doneSet) copy() workflow.DoneSet {
	return workflow.DoneSet{Done: maps.Clone(s.Done), Unsuccessful: maps.Clone(s.Unsuccessful), WithUpdates: maps.Clone(s.WithUpdates), Cost: s.Cost.Clone()}
}

// Discard has everything of one shard of a step run dropped from at on.
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

// DiscardedAt is from when on one shard of a step run may be dropped, or what lies
// beside an execution, which is its visit 0; zero for what is kept.
func (w *World) DiscardedAt(stepRun workflow.StepRunKey, shard int) time.Time {
	return w.discardTimes[shardKey{stepRun, shard}]
}

// PutCancelled puts p if the item is absent. One that stands there is as good.
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

// ForceCancel replaces a claim as it was read. Another handler's seizure of the same
// claim is as good.
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
	if err := checkItemSize(pack); err != nil {
		return err
	}
	old, next := p.w.packs[pack.Key], clone(pack)
	p.w.packs[pack.Key] = next
	if p.w.Observer != nil {
		p.w.Observer.PackWritten(old, next)
	}
	return nil
}

// claimedWith reports whether the item is claimed with the token.
func claimedWith(old *workflow.Pack, token int) bool {
	return old != nil && old.State == workflow.PackClaimed && old.Token == token
}

// unchangedClaim reports whether the claim, lease included, is as it was read.
func unchangedClaim(old, seen *workflow.Pack) bool {
	return claimedWith(old, seen.Token) && sameMillis(old.Lease, seen.Lease)
}

// sameMillis compares times in the resolution in which they are stored.
func sameMillis(a, b time.Time) bool { return a.UnixMilli() == b.UnixMilli() }
