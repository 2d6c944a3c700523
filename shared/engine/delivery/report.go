package delivery

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
func (d *Delivery) Report(ctx context.Context, r *Run, now time.Time, alarm bool) (*lifecycle.Report, error) {
	s := r.Step
	rep := &lifecycle.Report{RunSeq: s.RunSeq}
	if s.Lanes() == 1 {
		packs, err := d.Packs.Shard(ctx, r.key(), 0)
		if err != nil {
			return nil, err
		}
		lanes := byLane(packs)
		p := locate(r, 0, lanes[0])
		if !p.over && alarm && (r.Allowed == nil || p.pack != nil || p.attempt > 1 || r.Allowed(0)) {
			if err := d.resend(ctx, r, rep, []place{p}, lanes, now); err != nil {
				return nil, err
			}
		}
		return d.conclude(ctx, rep, r, packs, p.over, nil)
	}

	sets := make([]workflow.DoneSet, s.Shards())
	err := parallel.Each(ctx, d.Parallel, len(sets), func(ctx context.Context, i int) (err error) {
		sets[i], err = d.Packs.Done(ctx, r.key(), i)
		return err
	})
	if err != nil {
		return nil, err
	}
	done, bad := 0, 0
	for _, set := range sets {
		done += len(set.Done)
		bad += len(set.Bad)
	}
	switch {
	case done == s.Lanes() && bad == 0 && s.Stretch == 0:
		rep.Complete, rep.Tally.OK = true, s.Jobs
		for _, set := range sets {
			rep.Cost.Add(set.Cost)
			rep.Updates = rep.Updates || len(set.Updates) > 0
		}
		return rep, nil
	case done < s.Lanes() && bad == 0 && !alarm:
		return rep, nil
	}

	packs, err := d.shards(ctx, r, func(i int) bool { return alarm || done == s.Lanes() || len(sets[i].Bad) > 0 })
	if err != nil {
		return nil, err
	}
	lanes := byLane(packs)
	over := map[int]bool{}
	for i, set := range sets {
		for lane := range set.Done {
			over[i*workflow.LanesPerShard+lane] = true
		}
	}
	if alarm {
		if err := d.walk(ctx, r, rep, lanes, over, now); err != nil {
			return nil, err
		}
	}
	for _, set := range sets {
		rep.Cost.Add(set.Cost)
	}
	return d.conclude(ctx, rep, r, packs, len(over) == s.Lanes(), over)
}

// walk goes through the lanes that are not in the done sets. A lane that is over
// is added, which whoever should have did not live to do.
func (d *Delivery) walk(ctx context.Context, r *Run, rep *lifecycle.Report, lanes map[int]map[int]*workflow.Pack, over map[int]bool, now time.Time) error {
	places := make([]place, 0, r.Step.Lanes())
	for lane := range r.Step.Lanes() {
		if !over[lane] {
			places = append(places, locate(r, lane, lanes[lane]))
		}
	}
	var open []place
	var heal []place
	for _, p := range places {
		told := lastSeen(slices.Values(p.records)).Add(d.Poll)
		switch {
		case !p.over:
			open = append(open, p)
		case r.Work.Guided && told.After(now):
			// Its end is on its way to whoever sends what follows, who would take it
			// for told if it were written down here.
			rep.Look(told)
		default:
			heal = append(heal, p)
			over[p.lane] = true
		}
	}
	if err := d.heal(ctx, r, heal); err != nil {
		return err
	}
	allowed := open[:0]
	mayGo := r.Allowed
	if mayGo == nil {
		mayGo = func(lane int) bool { w := r.Step.Window; return w == 0 || lane < w || over[lane-w] }
	}
	for _, p := range open {
		if p.pack != nil || p.attempt > 1 || mayGo(p.lane) {
			allowed = append(allowed, p)
		}
	}
	return d.resend(ctx, r, rep, allowed, lanes, now)
}

// heal adds lanes that are over to their done sets.
func (d *Delivery) heal(ctx context.Context, r *Run, over []place) error {
	return parallel.Each(ctx, d.Parallel, len(over), func(ctx context.Context, i int) error {
		_, err := d.Packs.AddDone(ctx, r.key().Pack(over[i].lane, 1), over[i].end())
		return err
	})
}

// shards reads the packs of the shards wanted.
func (d *Delivery) shards(ctx context.Context, r *Run, want func(shard int) bool) ([]*workflow.Pack, error) {
	read := make([][]*workflow.Pack, r.Step.Shards())
	err := parallel.Each(ctx, d.Parallel, len(read), func(ctx context.Context, i int) (err error) {
		if want(i) {
			read[i], err = d.Packs.Shard(ctx, r.key(), i)
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

// Read reads every pack of a run, of all lanes and attempts.
func (d *Delivery) Read(ctx context.Context, r *Run) ([]*workflow.Pack, error) {
	return d.shards(ctx, r, func(int) bool { return true })
}

// conclude tallies the lanes that are over; over nil stands for all of them, or
// for none where the run is not complete.
func (d *Delivery) conclude(ctx context.Context, rep *lifecycle.Report, r *Run, packs []*workflow.Pack, complete bool, over map[int]bool) (*lifecycle.Report, error) {
	rep.Complete = complete
	if over == nil && !complete {
		return rep, nil
	}
	counted := packs[:0:0]
	for _, p := range packs {
		if over == nil || over[p.Key.Lane] {
			counted = append(counted, p)
		}
		if complete && r.Step.Lanes() == 1 {
			rep.Cost.Add(p.Cost) // otherwise the done sets have it
		}
	}
	rep.Updates = complete && asksUpdates(packs)
	var jobs []workflow.JobInput
	var err error
	latest := plan.Latest(counted)
	rep.Tally = plan.Count(r.Step.Jobs, latest, func(i int) string {
		if jobs == nil && err == nil {
			jobs, err = r.Jobs(ctx)
		}
		at := slices.IndexFunc(jobs, func(j workflow.JobInput) bool { return j.Index == i })
		if at < 0 || jobs[at].Entity == nil {
			return ""
		}
		return jobs[at].Entity.String()
	})
	if r.Step.Stretch > 0 && r.Step.Kind == workflow.JobExecute && complete {
		// Who has no record in a lane that is over was skipped.
		rep.Skipped = r.Step.Jobs - len(latest)
		rep.Tally.NotExecuted -= rep.Skipped
	}
	if !complete {
		rep.Tally.NotExecuted = 0 // the lanes that are not over are not counted yet
	}
	return rep, err
}

func byLane(packs []*workflow.Pack) map[int]map[int]*workflow.Pack {
	lanes := map[int]map[int]*workflow.Pack{}
	for _, p := range packs {
		if lanes[p.Key.Lane] == nil {
			lanes[p.Key.Lane] = map[int]*workflow.Pack{}
		}
		lanes[p.Key.Lane][p.Key.Attempt] = p
	}
	return lanes
}
