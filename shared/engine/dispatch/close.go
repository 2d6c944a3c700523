package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxCloseRounds bounds how often one call reads lanes again because workers have changed them.
const maxCloseRounds = 4

// CloseStepRun stops a step run whose closing has been committed, and reports it
// complete once every pack is final. It handles every lane, not only those of the
// window, by its first attempt that is not final:
//
//   - nobody has claimed it: write a cancelled marker with all jobs NOT_EXECUTED;
//   - its lease is valid: set the cancel flag and wait;
//   - its lease expired longer ago than skew and grace: seize it, which makes started
//     jobs UNKNOWN;
//   - none, all attempts are final: the lane is done; add it to the done set if it is
//     missing there.
func (d *Dispatcher) CloseStepRun(ctx context.Context, r *StepRun, now time.Time) (*lifecycle.Report, error) {
	rep := &lifecycle.Report{StepRunSeq: r.Step.Seq}
	for range maxCloseRounds {
		lanes, packs, err := d.readNotDone(ctx, r)
		if err != nil {
			return nil, err
		}
		read := packsByLane(packs)
		var finished, open []laneState
		for lane := range r.Step.Lanes() {
			if lanes.done[lane] {
				continue
			}
			if l := findLaneState(r, lane, read[lane]); l.done {
				finished = append(finished, l)
				lanes.include(l)
			} else {
				open = append(open, l)
			}
		}
		if r.Step.Lanes() == 1 && len(open) == 0 {
			return d.summarizeLane(ctx, rep, r, packs)
		}
		if r.Step.Lanes() > 1 {
			// Readers of the done sets alone then see the finished lanes, and the next wake-up
			// reads fewer packs.
			if err := d.addDoneLanes(ctx, r, finished); err != nil {
				return nil, err
			}
		}
		if len(open) == 0 {
			return d.summarize(ctx, rep, r, lanes)
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

// cancelOpenLanes makes every open lane final that may become final now. changed means that
// something was written or had changed, so that the caller must read again.
func (d *Dispatcher) cancelOpenLanes(ctx context.Context, r *StepRun, rep *lifecycle.Report, open []laneState, now time.Time) (changed bool, err error) {
	var mu sync.Mutex
	err = parallel.Each(ctx, d.Parallel, len(open), func(ctx context.Context, i int) error {
		l := open[i]
		wrote, err := true, error(nil)
		switch {
		case l.pack == nil:
			_, err = d.Packs.PutCancelled(ctx, cancelledPack(r.key().Pack(l.lane, l.attempt), l.jobs, now))
		case l.pack.Lease.Before(now.Add(-d.Skew - d.Grace)):
			_, err = d.Packs.ForceCancel(ctx, l.pack, seizedPack(l.pack, l.jobs, now))
		case !l.pack.CancelRequested:
			wrote, err = d.Packs.RequestCancel(ctx, l.pack.Key)
			wrote = !wrote // not written because the pack has become final: read it again
		default:
			wrote = false
		}
		mu.Lock()
		defer mu.Unlock()
		changed = changed || wrote
		if l.pack != nil && !wrote {
			rep.CheckBy(l.pack.Lease.Add(d.Skew + d.Grace))
		}
		return err
	})
	return changed, err
}

// readNotDone reads the done sets of a step run and the packs of the lanes that are not in them. A
// step run with one lane has no done set.
func (d *Dispatcher) readNotDone(ctx context.Context, r *StepRun) (*doneLanes, []*workflow.Pack, error) {
	if r.Step.Lanes() == 1 {
		packs, err := d.Packs.ShardPacks(ctx, r.key(), 0)
		return newDoneLanes(), packs, err
	}
	if r.Restored {
		packs, err := d.ReadPacks(ctx, r)
		return newDoneLanes(), packs, err
	}
	lanes, err := d.readDoneSets(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	var missing []int
	for lane := range r.Step.Lanes() {
		if !lanes.done[lane] {
			missing = append(missing, lane)
		}
	}
	packs, err := d.readLanes(ctx, r, missing)
	return lanes, packs, err
}
