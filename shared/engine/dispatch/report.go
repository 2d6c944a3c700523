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

// Report reports how far a step run has come. If no timer fired it reads as little
// as it can: the done sets, and the packs of shards in which a lane failed. If one
// fired it also reads every lane that is not done, repairs the done sets, and sends
// lost packs again.
func (d *Dispatcher) Report(ctx context.Context, r *StepRun, now time.Time, timerFired bool) (*lifecycle.Report, error) {
	s := r.Step
	rep := &lifecycle.Report{StepRunSeq: s.Seq}
	if s.Lanes() == 1 {
		packs, err := d.Packs.ShardPacks(ctx, r.key(), 0)
		if err != nil {
			return nil, err
		}
		lanes := packsByLane(packs)
		l := findLaneState(r, 0, lanes[0])
		if !l.done && timerFired && (r.LaneAllowed == nil || l.pack != nil || l.attempt > 1 || r.LaneAllowed(0)) {
			if err := d.redispatch(ctx, r, rep, []laneState{l}, lanes, now); err != nil {
				return nil, err
			}
		}
		return d.summarize(ctx, rep, r, packs, l.done, nil)
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

// repairAndRedispatch reads the lanes that are not in the done sets. It adds
// finished lanes whose worker crashed before it could, and sends open ones again.
func (d *Dispatcher) repairAndRedispatch(ctx context.Context, r *StepRun, rep *lifecycle.Report, lanes map[int]map[int]*workflow.Pack, doneLanes map[int]bool, now time.Time) error {
	states := make([]laneState, 0, r.Step.Lanes())
	for lane := range r.Step.Lanes() {
		if !doneLanes[lane] {
			states = append(states, findLaneState(r, lane, lanes[lane]))
		}
	}
	var open []laneState
	var finished []laneState
	for _, l := range states {
		notifiedUntil := lastSeen(slices.Values(l.packs)).Add(d.RedispatchInterval)
		switch {
		case !l.done:
			open = append(open, l)
		case r.Work.EngineDriven && notifiedUntil.After(now):
			// The wake-up that announces this end may still be in the queue. AdvanceLane
			// would take it for a duplicate if the lane were in the done set already.
			rep.CheckBy(notifiedUntil)
		default:
			finished = append(finished, l)
			doneLanes[l.lane] = true
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
	for _, l := range open {
		if l.pack != nil || l.attempt > 1 || laneAllowed(l.lane) {
			allowed = append(allowed, l)
		}
	}
	return d.redispatch(ctx, r, rep, allowed, lanes, now)
}

// addDoneLanes adds finished lanes to their done sets.
func (d *Dispatcher) addDoneLanes(ctx context.Context, r *StepRun, finished []laneState) error {
	return parallel.Each(ctx, d.Parallel, len(finished), func(ctx context.Context, i int) error {
		_, err := d.Packs.AddDone(ctx, r.key().Pack(finished[i].lane, 1), finished[i].laneEnd())
		return err
	})
}

// readShards reads the packs of the wanted shards.
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

// ReadPacks reads every pack of a step run, of all lanes and attempts.
func (d *Dispatcher) ReadPacks(ctx context.Context, r *StepRun) ([]*workflow.Pack, error) {
	return d.readShards(ctx, r, func(int) bool { return true })
}

// summarize counts the results of the done lanes. A nil doneLanes means all lanes
// if the step run is complete, and none otherwise.
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
			rep.Cost.Add(p.Cost) // with more lanes, the done sets have the cost
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
		// A job without a record was skipped, since every lane is done.
		rep.Skipped = r.Step.Jobs - len(latest)
		rep.Counts.NotExecuted -= rep.Skipped
	}
	if !complete {
		rep.Counts.NotExecuted = 0 // lanes that are not done are not counted yet
	}
	return rep, err
}

// packsByLane maps packs by lane, then by attempt.
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
