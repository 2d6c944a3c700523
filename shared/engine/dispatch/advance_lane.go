package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// AdvanceLane goes on with one lane of a run of which only the engine can say what
// follows: it sends the attempt that is due, notes a lane that is over, and passes
// over one with nothing to do. It reports whether the lane is over. cost is what
// whoever finished the lane has consumed. news says that somebody tells of the
// lane's end, who may tell it twice: it counts once.
func (d *Dispatcher) AdvanceLane(ctx context.Context, r *StepRun, lane int, now time.Time, cost workflow.Cost, notified bool) (done bool, err error) {
	if lane < 0 || lane >= r.Step.Lanes() {
		return false, nil
	}
	packs, err := d.ReadLane(ctx, r, lane)
	if err != nil {
		return false, err
	}
	p := findLaneState(r, lane, packsByLane(packs)[lane])
	switch {
	case p.done:
		if r.Step.Lanes() == 1 {
			return true, nil
		}
		if notified {
			// A second telling of the same end would send what follows a second time,
			// and that the same again: it is let pass, and the alarm heals what the
			// first teller did not live to send.
			set, err := d.Packs.DoneSet(ctx, r.key(), lane/workflow.LanesPerShard)
			if err != nil || set.Done[lane%workflow.LanesPerShard] {
				return false, err
			}
		}
		if len(p.packs) > 0 {
			cost.Add(p.packs[len(p.packs)-1].Cost)
		}
		end := p.laneEnd()
		end.Cost = cost
		_, err := d.Packs.AddDone(ctx, r.key().Pack(lane, 1), end)
		return err == nil, err
	case p.pack != nil:
		return false, nil // somebody has it
	}
	m, err := d.dueMessage(ctx, r, p)
	if err != nil {
		return false, err
	}
	if m == nil {
		return true, d.skipLane(ctx, r, lane, now)
	}
	err = d.sendMessages(ctx, now, []*workflow.PackMessage{m})
	return false, err
}

// dueMessage is the message of a lane's attempt that is due, nil if none of the lane's
// entities takes part.
func (d *Dispatcher) dueMessage(ctx context.Context, r *StepRun, p laneState) (*workflow.PackMessage, error) {
	var m *workflow.PackMessage
	if r.LaneJobs != nil {
		jobs, err := r.LaneJobs(ctx, p.lane)
		if err != nil || len(jobs) == 0 {
			return nil, err
		}
		m = d.singleLaneMessage(r, jobs, p.lane)
	} else {
		jobs, err := r.Jobs(ctx)
		if err != nil {
			return nil, err
		}
		m = d.laneMessage(r, jobs, p.lane)
	}
	if p.attempt > 1 {
		m = m.NextAttempt(p.jobs, p.notBefore)
		m.Key.Attempt = p.attempt
		m.Unsuccessful, m.HasUpdates = p.leavesFailedJobs(), asksUpdates(p.packs)
	}
	return m, nil
}

// skipLane ends a lane none of whose entities takes part: with a pack that says so,
// unless there is one.
func (d *Dispatcher) skipLane(ctx context.Context, r *StepRun, lane int, now time.Time) error {
	_, err := d.Packs.PutCancelled(ctx, &workflow.Pack{Key: r.key().Pack(lane, 1), State: workflow.PackFinished, FinishedAt: now})
	if err != nil || r.Step.Lanes() == 1 {
		return err
	}
	_, err = d.Packs.AddDone(ctx, r.key().Pack(lane, 1), workflow.LaneResult{})
	return err
}

// ReadLane reads the packs of one lane, attempt by attempt.
func (d *Dispatcher) ReadLane(ctx context.Context, r *StepRun, lane int) ([]*workflow.Pack, error) {
	var packs []*workflow.Pack
	for attempt := 1; attempt <= max(1, r.Step.MaxAttempts); attempt++ {
		p, err := d.Packs.Pack(ctx, r.key().Pack(lane, attempt))
		if err != nil || p == nil {
			return packs, err
		}
		packs = append(packs, p)
		if !slices.ContainsFunc(p.Jobs, func(j workflow.JobRecord) bool { return j.Code == workflow.JobCodeFail }) {
			return packs, nil
		}
	}
	return packs, nil
}

// LastSeen is when a worker was last seen at a lane, zero if none has been.
func (d *Dispatcher) LastSeen(ctx context.Context, r *StepRun, lane int) (time.Time, error) {
	packs, err := d.ReadLane(ctx, r, lane)
	return lastSeen(slices.Values(packs)), err
}

// DoneLanes lists the lanes of a run that its done sets say are over; of a run of one
// lane, its pack.
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
