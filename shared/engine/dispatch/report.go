package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Report tells how far a run has come. Without an alarm it reads as little as it
// can: the done sets, and the packs of shards in which something failed. With
// one it walks every lane that is not over, heals the done sets and sends again
// what shows no trace of having arrived.
func (d *Dispatcher) Report(ctx context.Context, r *StepRun, now time.Time, timerFired bool) (*lifecycle.Report, error) {
	s := r.Step
	rep := &lifecycle.Report{StepRunSeq: s.Seq}
	if s.Lanes() == 1 {
		packs, err := d.Packs.ShardPacks(ctx, r.key(), 0)
		if err != nil {
			return nil, err
		}
		lanes := packsByLane(packs)
		p := findLaneState(r, 0, lanes[0])
		if !p.done && timerFired && (r.LaneAllowed == nil || p.pack != nil || p.attempt > 1 || r.LaneAllowed(0)) {
			if err := d.redispatch(ctx, r, rep, []laneState{p}, lanes, now); err != nil {
				return nil, err
			}
		}
		return d.summarize(ctx, rep, r, packs, p.done, nil)
	}

	sets := make([]workflow.DoneSet, s.Shards())
	err := parallel.Each(ctx, d.Parallel, len(sets), func(ctx context.Context, i int) (err error) {
		sets[i], err = d.Packs.DoneSet(ctx, r.key(), i)
		return err
	})
	if err != nil {
		return nil, err
	}
	done, failed := 0, 0
	for _, set := range sets {
		done += len(set.Done)
		failed += len(set.Unsuccessful)
	}
	switch {
	case done == s.Lanes() && failed == 0 && s.Pipeline == 0:
		rep.Complete, rep.Counts.OK = true, s.Jobs
		for _, set := range sets {
			rep.Cost.Add(set.Cost)
			rep.HasUpdates = rep.HasUpdates || len(set.WithUpdates) > 0
		}
		return rep, nil
	case done < s.Lanes() && failed == 0 && !timerFired:
		return rep, nil
	}

	packs, err := d.readShards(ctx, r, func(i int) bool { return timerFired || done == s.Lanes() || len(sets[i].Unsuccessful) > 0 })
	if err != nil {
		return nil, err
	}
	lanes := packsByLane(packs)
	doneLanes := map[int]bool{}
	for i, set := range sets {
		for lane := range set.Done {
			doneLanes[i*workflow.LanesPerShard+lane] = true
		}
	}
	if timerFired {
		if err := d.repairAndRedispatch(ctx, r, rep, lanes, doneLanes, now); err != nil {
			return nil, err
		}
	}
	for _, set := range sets {
		rep.Cost.Add(set.Cost)
	}
	return d.summarize(ctx, rep, r, packs, len(doneLanes) == s.Lanes(), doneLanes)
}

// repairAndRedispatch goes through the lanes that are not in the done sets. A lane that is over
// is added, which whoever should have did not live to do.
func (d *Dispatcher) repairAndRedispatch(ctx context.Context, r *StepRun, rep *lifecycle.Report, lanes map[int]map[int]*workflow.Pack, doneLanes map[int]bool, now time.Time) error {
	states := make([]laneState, 0, r.Step.Lanes())
	for lane := range r.Step.Lanes() {
		if !doneLanes[lane] {
			states = append(states, findLaneState(r, lane, lanes[lane]))
		}
	}
	var open []laneState
	var finished []laneState
	for _, p := range states {
		notifiedUntil := lastSeen(slices.Values(p.packs)).Add(d.RedispatchInterval)
		switch {
		case !p.done:
			open = append(open, p)
		case r.Work.EngineDriven && notifiedUntil.After(now):
			// Its end is on its way to whoever sends what follows, who would take it
			// for told if it were written down here.
			rep.CheckBy(notifiedUntil)
		default:
			finished = append(finished, p)
			doneLanes[p.lane] = true
		}
	}
	if err := d.addDoneLanes(ctx, r, finished); err != nil {
		return err
	}
	allowed := open[:0]
	laneAllowed := r.LaneAllowed
	if laneAllowed == nil {
		laneAllowed = func(lane int) bool { w := r.Step.Window; return w == 0 || lane < w || doneLanes[lane-w] }
	}
	for _, p := range open {
		if p.pack != nil || p.attempt > 1 || laneAllowed(p.lane) {
			allowed = append(allowed, p)
		}
	}
	return d.redispatch(ctx, r, rep, allowed, lanes, now)
}

// addDoneLanes adds lanes that are over to their done sets.
func (d *Dispatcher) addDoneLanes(ctx context.Context, r *StepRun, finished []laneState) error {
	return parallel.Each(ctx, d.Parallel, len(finished), func(ctx context.Context, i int) error {
		_, err := d.Packs.AddDone(ctx, r.key().Pack(finished[i].lane, 1), finished[i].laneEnd())
		return err
	})
}

// readShards reads the packs of the shards wanted.
func (d *Dispatcher) readShards(ctx context.Context, r *StepRun, want func(shard int) bool) ([]*workflow.Pack, error) {
	read := make([][]*workflow.Pack, r.Step.Shards())
	err := parallel.Each(ctx, d.Parallel, len(read), func(ctx context.Context, i int) (err error) {
		if want(i) {
			read[i], err = d.Packs.ShardPacks(ctx, r.key(), i)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []*workflow.Pack
	for _, packs := range read {
		all = append(all, packs...)
	}
	return all, nil
}

// ReadPacks reads every pack of a run, of all lanes and attempts.
func (d *Dispatcher) ReadPacks(ctx context.Context, r *StepRun) ([]*workflow.Pack, error) {
	return d.readShards(ctx, r, func(int) bool { return true })
}

// summarize tallies the lanes that are over; over nil stands for all of them, or
// for none where the run is not complete.
func (d *Dispatcher) summarize(ctx context.Context, rep *lifecycle.Report, r *StepRun, packs []*workflow.Pack, complete bool, doneLanes map[int]bool) (*lifecycle.Report, error) {
	rep.Complete = complete
	if doneLanes == nil && !complete {
		return rep, nil
	}
	counted := packs[:0:0]
	for _, p := range packs {
		if doneLanes == nil || doneLanes[p.Key.Lane] {
			counted = append(counted, p)
		}
		if complete && r.Step.Lanes() == 1 {
			rep.Cost.Add(p.Cost) // otherwise the done sets have it
		}
	}
	rep.HasUpdates = complete && asksUpdates(packs)
	var jobs []workflow.JobInput
	var err error
	latest := plan.LatestRecords(counted)
	rep.Counts = plan.CountResults(r.Step.Jobs, latest, func(i int) string {
		if jobs == nil && err == nil {
			jobs, err = r.Jobs(ctx)
		}
		at := slices.IndexFunc(jobs, func(j workflow.JobInput) bool { return j.Index == i })
		if at < 0 || jobs[at].Entity == nil {
			return ""
		}
		return jobs[at].Entity.String()
	})
	if r.Step.Pipeline > 0 && r.Step.Kind == workflow.JobExecute && complete {
		// Who has no record in a lane that is over was skipped.
		rep.Skipped = r.Step.Jobs - len(latest)
		rep.Counts.NotExecuted -= rep.Skipped
	}
	if !complete {
		rep.Counts.NotExecuted = 0 // the lanes that are not over are not counted yet
	}
	return rep, err
}

func packsByLane(packs []*workflow.Pack) map[int]map[int]*workflow.Pack {
	lanes := map[int]map[int]*workflow.Pack{}
	for _, p := range packs {
		if lanes[p.Key.Lane] == nil {
			lanes[p.Key.Lane] = map[int]*workflow.Pack{}
		}
		lanes[p.Key.Lane][p.Key.Attempt] = p
	}
	return lanes
}
