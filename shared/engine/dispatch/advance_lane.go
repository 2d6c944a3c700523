package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Advanced is the result of advancing a lane.
type Advanced struct {
	Over     bool // the lane has ended
	Recorded bool // this call has recorded that
	Decides  bool // the engine must look at the step run, see [workflow.Work.Decides]
}

// AdvanceLane continues one lane of an engine-driven step run. It sends the attempt that is due,
// records a finished lane in the done set, and skips a lane without jobs.
//
// The caller continues with what follows the lane only if this call has recorded the end of the
// lane; otherwise each copy of a wake-up would begin a chain of copies. If a handler dies before it
// has continued, the timer continues instead. A lane that another handler closes stays where it is: the
// caller knows an earlier version of the execution, in which the step run was not closing, and nothing
// may follow jobs that are not to be executed. cost holds the consumption for the lane that nothing
// has counted yet; what goes into the done set or the message is taken out of it.
func (d *Dispatcher) AdvanceLane(ctx context.Context, r *StepRun, lane int, now time.Time, cost *workflow.Cost) (Advanced, error) {
	if lane < 0 || lane >= r.Step.Lanes() {
		return Advanced{}, nil
	}
	packs, err := d.ReadLane(ctx, r, lane)
	if err != nil {
		return Advanced{}, err
	}
	l := findLaneState(r, lane, packsByLane(packs)[lane])
	switch {
	case l.closed():
		return Advanced{Decides: true}, nil
	case l.done:
		if r.Step.Lanes() == 1 {
			return Advanced{true, true, true}, nil
		}
		end := l.laneEnd()
		if end.Cost = cost.Clone(); len(l.packs) > 0 {
			end.Cost.Add(l.packs[len(l.packs)-1].Cost)
		}
		set, err := d.Packs.AddDone(ctx, r.key().Pack(lane, 1), end)
		if err != nil {
			return Advanced{}, err
		}
		*cost = workflow.Cost{}
		return Advanced{true, set.Added, r.Work.Decides(end, lane, len(set.Done))}, nil
	case l.pack != nil:
		return Advanced{}, nil // a worker has claimed it
	}
	m, err := d.dueMessage(ctx, r, l)
	if err != nil {
		return Advanced{}, err
	}
	if m == nil {
		return d.skipLane(ctx, r, lane, now)
	}
	m.Cost = cost.Clone()
	if n := len(l.packs); n > 0 && r.Step.Lanes() > 1 {
		m.Cost.Add(l.packs[n-1].Cost) // the done set gets the sum; the packs of a single lane are read one by one
	}
	if err := d.sendMessages(ctx, r, now, []*workflow.PackMessage{m}); err != nil {
		return Advanced{}, err
	}
	*cost = workflow.Cost{}
	return Advanced{}, nil
}

// dueMessage returns the message for the attempt of a lane that is due; nil if none of the lane's
// entities takes part.
func (d *Dispatcher) dueMessage(ctx context.Context, r *StepRun, l laneState) (*workflow.PackMessage, error) {
	var m *workflow.PackMessage
	if r.LaneJobs != nil {
		jobs, err := r.LaneJobs(ctx, l.lane)
		if err != nil || len(jobs) == 0 {
			return nil, err
		}
		m = d.singleLaneMessage(r, jobs, l.lane)
	} else {
		jobs, err := r.Jobs(ctx)
		if err != nil {
			return nil, err
		}
		m = d.laneMessage(r, jobs, l.lane)
	}
	if l.attempt > 1 {
		m = m.NextAttempt(l.jobs, l.notBefore)
		m.Key.Attempt = l.attempt
		if n := len(l.packs); n > 0 {
			m.ContinueFrom(l.packs[n-1])
		}
		m.Unsuccessful, m.Failures = l.failuresLeft()
		m.HasUpdates = asksUpdates(l.packs)
	}
	return m, nil
}

// skipLane ends a lane if none of its entities takes part. It writes a finished pack without jobs,
// unless there is a pack already.
func (d *Dispatcher) skipLane(ctx context.Context, r *StepRun, lane int, now time.Time) (Advanced, error) {
	wrote, err := d.Packs.PutCancelled(ctx, &workflow.Pack{Key: r.key().Pack(lane, 1), State: workflow.PackFinished, FinishedAt: now})
	if err != nil {
		return Advanced{}, err
	}
	if !wrote { // by another handler that skips the lane, too, or closes it
		packs, err := d.ReadLane(ctx, r, lane)
		if l := findLaneState(r, lane, packsByLane(packs)[lane]); err != nil || l.closed() {
			return Advanced{Decides: true}, err
		}
	}
	if r.Step.Lanes() == 1 {
		return Advanced{true, true, true}, nil
	}
	var end workflow.LaneResult
	set, err := d.Packs.AddDone(ctx, r.key().Pack(lane, 1), end)
	if err != nil {
		return Advanced{}, err
	}
	return Advanced{true, set.Added, r.Work.Decides(end, lane, len(set.Done))}, nil
}

// ReadLane reads the packs of one lane, the first attempt first.
func (d *Dispatcher) ReadLane(ctx context.Context, r *StepRun, lane int) ([]*workflow.Pack, error) {
	var packs []*workflow.Pack
	for attempt, withheld := 1, false; attempt <= max(1, r.Step.MaxAttempts) || withheld; attempt++ {
		p, err := d.Packs.Pack(ctx, r.key().Pack(lane, attempt))
		if err != nil || p == nil {
			return packs, err
		}
		packs = append(packs, p)
		withheld = slices.ContainsFunc(p.Jobs, func(j workflow.JobRecord) bool { return j.Failure.Withheld() })
		if !slices.ContainsFunc(p.Jobs, func(j workflow.JobRecord) bool { return j.Code == workflow.JobCodeFail }) {
			return packs, nil
		}
	}
	return packs, nil
}

// LastSeen returns when a worker last worked on a lane; zero if none has.
func (d *Dispatcher) LastSeen(ctx context.Context, r *StepRun, lane int) (time.Time, error) {
	packs, err := d.ReadLane(ctx, r, lane)
	return lastSeen(slices.Values(packs)), err
}

// StepRunLastSeen returns when a worker last worked on any pack of a step run; zero if none has.
func (d *Dispatcher) StepRunLastSeen(ctx context.Context, r *StepRun) (time.Time, error) {
	packs, err := d.ReadPacks(ctx, r)
	return lastSeen(slices.Values(packs)), err
}

// DoneLanes returns the done lanes of a step run from its done sets, or from its packs if it has
// only one lane.
func (d *Dispatcher) DoneLanes(ctx context.Context, r *StepRun) (map[int]bool, error) {
	done := map[int]bool{}
	if r.Step.Lanes() == 1 {
		packs, err := d.ReadLane(ctx, r, 0)
		if err == nil {
			done[0] = !r.Step.Open() || len(packs) > 0 && findLaneState(r, 0, packsByLane(packs)[0]).done
		}
		return done, err
	}
	for shard := range r.Step.Shards() {
		set, err := d.Packs.DoneSet(ctx, r.key(), shard)
		if err != nil {
			return nil, err
		}
		for lane := range set.Done {
			done[shard*workflow.LanesPerShard+lane] = true
		}
	}
	return done, nil
}
