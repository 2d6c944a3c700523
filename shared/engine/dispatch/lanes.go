package dispatch

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// doneLanes is what the done sets of a step run say about its lanes. Lanes are numbered within the
// step run.
type doneLanes struct {
	done         map[int]bool
	unsuccessful map[int]workflow.JobFailures // zero if the counts are unknown
	hasUpdates   bool
	cost         workflow.Cost
}

func newDoneLanes() *doneLanes {
	return &doneLanes{done: map[int]bool{}, unsuccessful: map[int]workflow.JobFailures{}}
}

// readDoneSets reads all done sets of a step run.
func (d *Dispatcher) readDoneSets(ctx context.Context, r *StepRun) (*doneLanes, error) {
	sets := make([]workflow.DoneSet, r.Step.Shards())
	err := parallel.Each(ctx, d.Parallel, len(sets), func(ctx context.Context, i int) (err error) {
		sets[i], err = d.Packs.DoneSet(ctx, r.key(), i)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := newDoneLanes()
	for i, set := range sets {
		first := i * workflow.LanesPerShard
		for lane := range set.Done {
			all.done[first+lane] = true
		}
		for lane := range set.Unsuccessful {
			all.unsuccessful[first+lane] = set.Failures[lane]
		}
		all.hasUpdates = all.hasUpdates || len(set.WithUpdates) > 0
		all.cost.Add(set.Cost)
	}
	return all, nil
}

// include adds a lane that is over.
func (s *doneLanes) include(l laneState) {
	end := l.laneEnd()
	s.done[l.lane] = true
	if end.Unsuccessful {
		s.unsuccessful[l.lane] = end.Failures
	}
	s.hasUpdates = s.hasUpdates || end.HasUpdates
}

// unsuccessfulLanes lists the unsuccessful lanes in order.
func (s *doneLanes) unsuccessfulLanes() []int {
	lanes := make([]int, 0, len(s.unsuccessful))
	for lane := range s.unsuccessful {
		lanes = append(lanes, lane)
	}
	slices.Sort(lanes)
	return lanes
}

// maxLaneGap bounds how many unneeded lanes a query reads between two needed ones. A separate query
// for the second one would cost as much.
const maxLaneGap = 8

// readLanes reads the packs of the lanes, which must be sorted. It uses as few queries as possible
// without reading many others.
func (d *Dispatcher) readLanes(ctx context.Context, r *StepRun, lanes []int) ([]*workflow.Pack, error) {
	type span struct{ first, last int }
	var spans []span
	want := make(map[int]bool, len(lanes))
	for _, lane := range lanes {
		want[lane] = true
		if n := len(spans); n > 0 && lane-spans[n-1].last <= maxLaneGap && lane/workflow.LanesPerShard == spans[n-1].first/workflow.LanesPerShard {
			spans[n-1].last = lane
			continue
		}
		spans = append(spans, span{lane, lane})
	}
	read := make([][]*workflow.Pack, len(spans))
	err := parallel.Each(ctx, d.Parallel, len(spans), func(ctx context.Context, i int) (err error) {
		read[i], err = d.Packs.LanePacks(ctx, r.key(), spans[i].first, spans[i].last)
		return err
	})
	return slices.DeleteFunc(slices.Concat(read...), func(p *workflow.Pack) bool { return !want[p.Key.Lane] }), err
}

// ReadLanes reads the packs of some lanes, which must be sorted.
func (d *Dispatcher) ReadLanes(ctx context.Context, r *StepRun, lanes []int) ([]*workflow.Pack, error) {
	return d.readLanes(ctx, r, lanes)
}

// ReadUnsuccessful reads the packs of the lanes that are not over or in which some job did not end
// OK. It also returns these lanes; in every other lane all jobs ended OK.
func (d *Dispatcher) ReadUnsuccessful(ctx context.Context, r *StepRun) ([]*workflow.Pack, map[int]bool, error) {
	read := map[int]bool{}
	if r.Step.Lanes() == 1 {
		read[0] = true
		packs, err := d.ReadPacks(ctx, r)
		return packs, read, err
	}
	sets, err := d.readDoneSets(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	var lanes []int
	for lane := range r.Step.Lanes() {
		if _, failed := sets.unsuccessful[lane]; failed || !sets.done[lane] {
			lanes, read[lane] = append(lanes, lane), true
		}
	}
	packs, err := d.readLanes(ctx, r, lanes)
	return packs, read, err
}

// ReadPacks reads every pack of a step run, of all lanes and attempts.
func (d *Dispatcher) ReadPacks(ctx context.Context, r *StepRun) ([]*workflow.Pack, error) {
	read := make([][]*workflow.Pack, r.Step.Shards())
	err := parallel.Each(ctx, d.Parallel, len(read), func(ctx context.Context, i int) (err error) {
		read[i], err = d.Packs.ShardPacks(ctx, r.key(), i)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(read...), nil
}
