package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxCloseRounds bounds how often one call goes over lanes that changed under it.
const maxCloseRounds = 4

// CloseStepRun stops a run whose closing has been committed, and reports it complete
// once every pack is final. It goes over every lane, not only those of the
// window, and along all attempts:
//
//   - nobody has claimed: a tombstone, all jobs NOT_EXECUTED;
//   - claimed and alive: the cancel flag, and wait;
//   - claimed, and the lease is over beyond skew and grace: taken away, what was
//     started is UNKNOWN;
//   - final: the lane is over, and added to the done set if it is not there.
func (d *Dispatcher) CloseStepRun(ctx context.Context, r *StepRun, now time.Time) (*lifecycle.Report, error) {
	rep := &lifecycle.Report{StepRunSeq: r.Step.Seq}
	for range maxCloseRounds {
		packs, err := d.ReadPacks(ctx, r)
		if err != nil {
			return nil, err
		}
		lanes := packsByLane(packs)
		var finished, open []laneState
		for lane := range r.Step.Lanes() {
			if p := findLaneState(r, lane, lanes[lane]); p.done {
				finished = append(finished, p)
			} else {
				open = append(open, p)
			}
		}
		if len(open) == 0 {
			if err := d.repairDoneSets(ctx, r, rep, finished); err != nil {
				return nil, err
			}
			return d.summarize(ctx, rep, r, packs, true, nil)
		}
		changed, err := d.cancelOpenLanes(ctx, r, rep, open, now)
		if err != nil {
			return nil, err
		}
		if !changed {
			return rep, nil
		}
	}
	rep.CheckBy(now)
	return rep, nil
}

// cancelOpenLanes makes every open place final as far as that is allowed now. again asks
// for another reading, because something was written or had changed.
func (d *Dispatcher) cancelOpenLanes(ctx context.Context, r *StepRun, rep *lifecycle.Report, open []laneState, now time.Time) (changed bool, err error) {
	var mu sync.Mutex
	err = parallel.Each(ctx, d.Parallel, len(open), func(ctx context.Context, i int) error {
		p := open[i]
		wrote, err := true, error(nil)
		switch {
		case p.pack == nil:
			_, err = d.Packs.PutCancelled(ctx, cancelledPack(r.key().Pack(p.lane, p.attempt), p.jobs, now))
		case p.pack.Lease.Before(now.Add(-d.Skew - d.Grace)):
			_, err = d.Packs.ForceCancel(ctx, p.pack, seizedPack(p.pack, p.jobs, now))
		case !p.pack.CancelRequested:
			wrote, err = d.Packs.RequestCancel(ctx, p.pack.Key)
			wrote = !wrote // it is final already: read it again
		default:
			wrote = false
		}
		mu.Lock()
		defer mu.Unlock()
		changed = changed || wrote
		if p.pack != nil && !wrote {
			rep.CheckBy(p.pack.Lease.Add(d.Skew + d.Grace))
		}
		return err
	})
	return changed, err
}

// repairDoneSets heals the done sets of a run that is over, so that whoever reads only
// them sees it too. A run of one lane has none.
func (d *Dispatcher) repairDoneSets(ctx context.Context, r *StepRun, rep *lifecycle.Report, finished []laneState) error {
	if r.Step.Lanes() == 1 {
		return nil
	}
	var missing []laneState
	for shard := range r.Step.Shards() {
		set, err := d.Packs.DoneSet(ctx, r.key(), shard)
		if err != nil {
			return err
		}
		rep.Cost.Add(set.Cost)
		for _, p := range finished {
			if p.lane/workflow.LanesPerShard == shard && !set.Done[p.lane%workflow.LanesPerShard] {
				missing = append(missing, p)
			}
		}
	}
	return d.addDoneLanes(ctx, r, missing)
}
