package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// closeRounds bounds how often one call goes over lanes that changed under it.
const closeRounds = 4

// Close stops a run whose closing has been committed, and reports it complete
// once every pack is final. It goes over every lane, not only those of the
// window, and along all attempts:
//
//   - nobody has claimed: a tombstone, all jobs NOT_EXECUTED;
//   - claimed and alive: the cancel flag, and wait;
//   - claimed, and the lease is over beyond skew and grace: taken away, what was
//     started is UNKNOWN;
//   - final: the lane is over, and added to the done set if it is not there.
func (d *Delivery) Close(ctx context.Context, r *Run, now time.Time) (*lifecycle.Report, error) {
	rep := &lifecycle.Report{RunSeq: r.Step.RunSeq}
	for range closeRounds {
		packs, err := d.Read(ctx, r)
		if err != nil {
			return nil, err
		}
		lanes := byLane(packs)
		var over, open []place
		for lane := range r.Step.Lanes() {
			if p := locate(r, lane, lanes[lane]); p.over {
				over = append(over, p)
			} else {
				open = append(open, p)
			}
		}
		if len(open) == 0 {
			if err := d.settle(ctx, r, rep, over); err != nil {
				return nil, err
			}
			return d.conclude(ctx, rep, r, packs, true, nil)
		}
		again, err := d.stop(ctx, r, rep, open, now)
		if err != nil {
			return nil, err
		}
		if !again {
			return rep, nil
		}
	}
	rep.Look(now)
	return rep, nil
}

// stop makes every open place final as far as that is allowed now. again asks
// for another reading, because something was written or had changed.
func (d *Delivery) stop(ctx context.Context, r *Run, rep *lifecycle.Report, open []place, now time.Time) (again bool, err error) {
	var mu sync.Mutex
	err = parallel.Each(ctx, d.Parallel, len(open), func(ctx context.Context, i int) error {
		p := open[i]
		wrote, err := true, error(nil)
		switch {
		case p.pack == nil:
			_, err = d.Packs.Tombstone(ctx, tombstone(r.key().Pack(p.lane, p.attempt), p.jobs, now))
		case p.pack.Lease.Before(now.Add(-d.Skew - d.Grace)):
			_, err = d.Packs.Seize(ctx, p.pack, seized(p.pack, p.jobs, now))
		case !p.pack.Cancel:
			wrote, err = d.Packs.AskCancel(ctx, p.pack.Key)
			wrote = !wrote // it is final already: read it again
		default:
			wrote = false
		}
		mu.Lock()
		defer mu.Unlock()
		again = again || wrote
		if p.pack != nil && !wrote {
			rep.Look(p.pack.Lease.Add(d.Skew + d.Grace))
		}
		return err
	})
	return again, err
}

// settle heals the done sets of a run that is over, so that whoever reads only
// them sees it too. A run of one lane has none.
func (d *Delivery) settle(ctx context.Context, r *Run, rep *lifecycle.Report, over []place) error {
	if r.Step.Lanes() == 1 {
		return nil
	}
	var missing []place
	for shard := range r.Step.Shards() {
		set, err := d.Packs.Done(ctx, r.key(), shard)
		if err != nil {
			return err
		}
		rep.Cost.Add(set.Cost)
		for _, p := range over {
			if p.lane/workflow.LanesPerShard == shard && !set.Done[p.lane%workflow.LanesPerShard] {
				missing = append(missing, p)
			}
		}
	}
	return d.heal(ctx, r, missing)
}
