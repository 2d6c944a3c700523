package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Packs keeps the pack items and the done sets, for the engine and for workers.
type Packs struct{ *line }

type shardKey struct {
	run   workflow.RunKey
	shard int
}

// Pack is a strongly consistent read; nil if absent.
func (p *Packs) Pack(_ context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	return call(p.line, "packs.pack", func(bool) (*workflow.Pack, error) {
		p.reads(tableJobs, 1)
		return replica.Of(p.w.packs[key]), nil
	})
}

// Shard reads all packs of one shard of a step run.
func (p *Packs) Shard(_ context.Context, run workflow.RunKey, shard int) ([]*workflow.Pack, error) {
	return call(p.line, "packs.shard", func(bool) ([]*workflow.Pack, error) {
		var found []*workflow.Pack
		for key, pack := range p.w.packs {
			if key.Run() == run && key.Shard() == shard {
				found = append(found, replica.Of(pack))
			}
		}
		slices.SortFunc(found, func(a, b *workflow.Pack) int {
			x, y := a.Key, b.Key
			return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Pos, y.Pos), cmp.Compare(x.Attempt, y.Attempt))
		})
		p.reads(tableJobs, len(found))
		return found, nil
	})
}

// Done is a strongly consistent read of a shard's done set.
func (p *Packs) Done(_ context.Context, run workflow.RunKey, shard int) (workflow.DoneSet, error) {
	return call(p.line, "packs.done", func(bool) (workflow.DoneSet, error) {
		p.reads(tableJobs, 1)
		return p.set(run, shard).copy(), nil
	})
}

// AddDone adds a lane to its shard's done set.
func (p *Packs) AddDone(_ context.Context, key workflow.PackKey, end workflow.LaneEnd) (workflow.DoneSet, error) {
	return call(p.line, "packs.add_done", func(bool) (workflow.DoneSet, error) {
		p.writes(tableJobs)
		at := shardKey{key.Run(), key.Shard()}
		set := p.set(at.run, at.shard)
		lane := key.Lane % workflow.LanesPerShard
		set.Done[lane] = true
		if end.Bad {
			set.Bad[lane] = true
		}
		if end.Updates {
			set.Updates[lane] = true
		}
		set.Cost.Add(end.Cost)
		kept := workflow.DoneSet(set)
		p.w.done[at] = &kept
		return set.copy(), nil
	})
}

// doneSet is a done set that is never nil inside.
type doneSet workflow.DoneSet

func (p *Packs) set(run workflow.RunKey, shard int) doneSet {
	if set := p.w.done[shardKey{run, shard}]; set != nil {
		return doneSet(*set)
	}
	return doneSet{Done: map[int]bool{}, Bad: map[int]bool{}, Updates: map[int]bool{}}
}

func (s doneSet) copy() workflow.DoneSet {
	return workflow.DoneSet{Done: maps.Clone(s.Done), Bad: maps.Clone(s.Bad), Updates: maps.Clone(s.Updates), Cost: s.Cost.Clone()}
}

// Discard has everything of one shard of a step run dropped from at on.
func (p *Packs) Discard(_ context.Context, run workflow.RunKey, shard int, at time.Time) error {
	return p.discard("packs.discard", run, shard, at)
}

func (l *line) discard(name string, run workflow.RunKey, shard int, at time.Time) error {
	_, err := call(l, name, func(bool) (nothing, error) {
		l.writes(tableJobs)
		l.w.discarded[shardKey{run, shard}] = at
		return nothing{}, nil
	})
	return err
}

// DiscardedAt is from when on one shard of a step run may be dropped, or what lies
// beside an execution, which is its visit 0; zero for what is kept.
func (w *World) DiscardedAt(run workflow.RunKey, shard int) time.Time {
	return w.discarded[shardKey{run, shard}]
}

// Tombstone puts p if the item is absent. One that stands there is as good.
func (p *Packs) Tombstone(_ context.Context, pack *workflow.Pack) (bool, error) {
	return call(p.line, "packs.tombstone", func(bool) (bool, error) {
		p.writes(tableJobs)
		if old := p.w.packs[pack.Key]; old != nil {
			return old.State == pack.State && old.Token == pack.Token, nil
		}
		return true, p.put(pack)
	})
}

// AskCancel sets the cancel flag if the pack is CLAIMED.
func (p *Packs) AskCancel(_ context.Context, key workflow.PackKey) (bool, error) {
	return call(p.line, "packs.ask_cancel", func(bool) (bool, error) {
		p.writes(tableJobs)
		old := p.w.packs[key]
		if old == nil || old.State != workflow.PackClaimed {
			return false, nil
		}
		next := *old
		next.Cancel = true
		return true, p.put(&next)
	})
}

// Seize replaces a claim as it was read. Another handler's seizure of the same
// claim is as good.
func (p *Packs) Seize(_ context.Context, seen, next *workflow.Pack) (bool, error) {
	return call(p.line, "packs.seize", func(bool) (bool, error) {
		p.writes(tableJobs)
		old := p.w.packs[next.Key]
		if !asSeen(old, seen) {
			return old != nil && old.State == next.State && old.Token == next.Token, nil
		}
		return true, p.put(next)
	})
}

func (p *Packs) put(pack *workflow.Pack) error {
	if err := fits(pack); err != nil {
		return err
	}
	old, next := p.w.packs[pack.Key], replica.Of(pack)
	p.w.packs[pack.Key] = next
	if p.w.Watcher != nil {
		p.w.Watcher.Pack(old, next)
	}
	return nil
}

// mine reports whether the item is claimed with the token.
func mine(old *workflow.Pack, token int) bool {
	return old != nil && old.State == workflow.PackClaimed && old.Token == token
}

// asSeen reports whether the claim, lease included, is as it was read.
func asSeen(old, seen *workflow.Pack) bool {
	return mine(old, seen.Token) && same(old.Lease, seen.Lease)
}

// same compares times in the resolution in which they are stored.
func same(a, b time.Time) bool { return a.UnixMilli() == b.UnixMilli() }
