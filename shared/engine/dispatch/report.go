package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Report reports the progress of a step run. It reads as little as it can: the done sets, which
// also count failed jobs, and, once all lanes are over, the packs of the lanes with failed jobs. If
// a timer fired, it also reads the lanes that may be with a worker, repairs the done sets, and
// sends lost packs again.
func (d *Dispatcher) Report(ctx context.Context, r *StepRun, now time.Time, timerFired bool) (*lifecycle.Report, error) {
	rep := &lifecycle.Report{StepRunSeq: r.Step.Seq}
	if r.Step.Lanes() == 1 {
		if a := d.Ahead; a != nil && a.StepRun == r.key() && r.Step.Pipeline == 0 && findLaneState(r, 0, packsByLane(a.Packs)[0]).done {
			return d.summarizeLane(ctx, rep, r, a.Packs)
		}
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
		if !l.done {
			return rep, nil
		}
		return d.summarizeLane(ctx, rep, r, packs)
	}
	lanes, err := d.readDoneSets(ctx, r)
	if err != nil {
		return nil, err
	}
	if timerFired && len(lanes.done) < r.Step.Lanes() {
		if err := d.repairAndRedispatch(ctx, r, rep, lanes, now); err != nil {
			return nil, err
		}
	}
	if len(lanes.done) == r.Step.Lanes() {
		return d.summarize(ctx, rep, r, lanes)
	}
	rep.Brief = true
	return rep, d.countFailures(ctx, rep, r, lanes)
}

// countFailures counts the jobs in finished lanes that have failed or whose outcome is unknown. It
// reads packs only for lanes that the done set does not count.
func (d *Dispatcher) countFailures(ctx context.Context, rep *lifecycle.Report, r *StepRun, lanes *doneLanes) error {
	var uncounted []int
	for _, lane := range lanes.unsuccessfulLanes() {
		f := lanes.unsuccessful[lane]
		rep.Counts.Failed += f.Failed
		rep.Counts.Unknown += f.Unknown
		if f == (workflow.JobFailures{}) {
			uncounted = append(uncounted, lane)
		}
	}
	packs, err := d.readLanes(ctx, r, uncounted)
	if err != nil {
		return err
	}
	for _, rec := range plan.LatestRecords(packs) {
		var f workflow.JobFailures
		f.Add(rec.Code)
		rep.Counts.Failed += f.Failed
		rep.Counts.Unknown += f.Unknown
	}
	return nil
}

// FirstFailure reports the counts of the finished lanes, with the first failure. It reads the packs
// of all lanes with failed jobs; this happens only once, because the execution fails.
func (d *Dispatcher) FirstFailure(ctx context.Context, r *StepRun) (*lifecycle.Report, error) {
	rep := &lifecycle.Report{StepRunSeq: r.Step.Seq}
	lanes, err := d.readDoneSets(ctx, r)
	if err != nil {
		return nil, err
	}
	packs, err := d.readLanes(ctx, r, lanes.unsuccessfulLanes())
	if err != nil {
		return nil, err
	}
	err = r.countResults(ctx, rep, plan.LatestRecords(packs))
	rep.Counts.NotExecuted = 0 // lanes that are not done are not counted yet
	return rep, err
}

// repairAndRedispatch reads the lanes that may have been sent but are not in the done sets. It adds
// finished lanes whose worker crashed before adding them, and sends open lanes again. A lane is
// sent only after the lane that it waits for is in the done set.
func (d *Dispatcher) repairAndRedispatch(ctx context.Context, r *StepRun, rep *lifecycle.Report, lanes *doneLanes, now time.Time) error {
	allowed := r.LaneAllowed
	if allowed == nil {
		allowed = func(lane int) bool { w := r.Step.Window; return w == 0 || lane < w || lanes.done[lane-w] }
	}
	var wanted []int
	isWanted := map[int]bool{}
	for lane := range r.Step.Lanes() {
		if !lanes.done[lane] && allowed(lane) {
			wanted = append(wanted, lane)
			isWanted[lane] = true
		}
	}
	packs, err := d.readLanes(ctx, r, wanted)
	if err != nil {
		return err
	}
	read := packsByLane(packs)
	var open, finished []laneState
	for _, lane := range wanted {
		l := findLaneState(r, lane, read[lane])
		notifiedUntil := lastSeen(slices.Values(l.packs)).Add(d.RedispatchInterval)
		switch {
		case !l.done:
			open = append(open, l)
		case (r.Work.EngineDriven || r.Step.Window > 0) && notifiedUntil.After(now):
			// The wake-up for this end may still be in the queue, or the worker may be about to
			// send the next lane. If the lane were in the done set already, both would take
			// themselves for duplicates.
			rep.CheckBy(notifiedUntil)
		default:
			finished = append(finished, l)
			lanes.include(l)
		}
	}
	if err := d.addDoneLanes(ctx, r, finished); err != nil {
		return err
	}
	for _, before := range finished {
		if next := before.lane + r.Step.Window; r.Step.Window > 0 && next < r.Step.Lanes() && !lanes.done[next] && !isWanted[next] && allowed(next) {
			open = append(open, findLaneState(r, next, nil))
		}
	}
	if err := d.readPredecessors(ctx, r, open, read); err != nil {
		return err
	}
	return d.redispatch(ctx, r, rep, open, read, now)
}

// readPredecessors reads the packs of the lanes that the open lanes had to wait for. They show
// since when a lane has waited for a worker.
func (d *Dispatcher) readPredecessors(ctx context.Context, r *StepRun, open []laneState, read map[int]map[int]*workflow.Pack) error {
	if r.Step.Window == 0 || r.PredecessorEndedAt != nil {
		return nil
	}
	var lanes []int
	for _, l := range open {
		before := l.lane - r.Step.Window
		if l.pack == nil && l.attempt == 1 && before >= 0 && read[before] == nil {
			lanes = append(lanes, before)
		}
	}
	slices.Sort(lanes)
	packs, err := d.readLanes(ctx, r, lanes)
	for lane, packs := range packsByLane(packs) {
		read[lane] = packs
	}
	return err
}

// addDoneLanes adds finished lanes to their done sets.
func (d *Dispatcher) addDoneLanes(ctx context.Context, r *StepRun, finished []laneState) error {
	return parallel.Each(ctx, d.Parallel, len(finished), func(ctx context.Context, i int) error {
		_, err := d.Packs.AddDone(ctx, r.key().Pack(finished[i].lane, 1), finished[i].laneEnd())
		return err
	})
}

// summarizeLane reports a step run whose only lane is over.
func (d *Dispatcher) summarizeLane(ctx context.Context, rep *lifecycle.Report, r *StepRun, packs []*workflow.Pack) (*lifecycle.Report, error) {
	for _, p := range packs {
		rep.Cost.Add(p.Cost) // with several lanes, the done sets hold the cost
	}
	rep.HasUpdates = asksUpdates(packs)
	for _, record := range plan.LatestRecords(packs) {
		if rep.Breaks = rep.Breaks || record.Outcome == statemachines.OutcomeBreak; r.Step.Jobs == 1 {
			rep.Next, rep.Wait, rep.Result, rep.ResultRef = record.Next, record.Wait, record.Result, record.ResultRef
		}
	}
	return d.complete(ctx, rep, r, packs, r.Step.Jobs)
}

// summarize reports a step run of several lanes, all of which are over. It reads the packs of the
// lanes in which not all jobs ended OK. For a pipeline it reads all packs, because there a lane may
// have skipped some of its jobs.
func (d *Dispatcher) summarize(ctx context.Context, rep *lifecycle.Report, r *StepRun, lanes *doneLanes) (*lifecycle.Report, error) {
	rep.Cost.Add(lanes.cost)
	rep.HasUpdates = lanes.hasUpdates
	var packs []*workflow.Pack
	var err error
	jobs := r.Step.Jobs
	if r.Step.Pipeline > 0 {
		packs, err = d.ReadPacks(ctx, r)
	} else {
		jobs = 0
		for lane := range lanes.unsuccessful {
			from, to := r.Step.LaneRange(lane)
			jobs += to - from
		}
		packs, err = d.readLanes(ctx, r, lanes.unsuccessfulLanes())
	}
	if err != nil {
		return nil, err
	}
	return d.complete(ctx, rep, r, packs, jobs)
}

// complete counts the results of a step run that is over. packs holds the records of some jobs; all
// other jobs ended OK.
func (d *Dispatcher) complete(ctx context.Context, rep *lifecycle.Report, r *StepRun, packs []*workflow.Pack, jobs int) (_ *lifecycle.Report, err error) {
	rep.Complete = true
	latest := plan.LatestRecords(packs)
	err = r.countResults(ctx, rep, latest)
	others := r.Step.Jobs - jobs
	rep.Counts.OK += others
	rep.Counts.NotExecuted -= others
	if r.Step.Pipeline > 0 && r.Step.Kind == workflow.JobExecute {
		// A job without a record was skipped, since every lane is done.
		rep.Skipped = r.Step.Jobs - len(latest)
		rep.Counts.NotExecuted -= rep.Skipped
	}
	return rep, err
}

// countResults counts the jobs of the step run by their records, and names the first whose outcome
// is in doubt.
func (r *StepRun) countResults(ctx context.Context, rep *lifecycle.Report, latest map[int]workflow.JobRecord) error {
	var jobs []workflow.JobInput
	var err error
	name := func(i int) string {
		if jobs == nil && err == nil {
			jobs, err = r.Jobs(ctx)
		}
		at := slices.IndexFunc(jobs, func(j workflow.JobInput) bool { return j.Index == i })
		if at < 0 {
			return ""
		}
		return jobs[at].Name()
	}
	rep.Counts = plan.CountResults(r.Step.Jobs, latest, name)
	rep.Doubt = plan.FirstInDoubt(r.Step.Jobs, latest, name)
	return err
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
