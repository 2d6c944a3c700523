package engine

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A stretch of per-entity pipelines is several step runs that are open together
// and share their lanes. Whoever finishes a lane of one of them names it to the
// engine, which sends the lane's pack of the next. What a lane needs is known by
// then: the next step reads no more of the stretch than what came of the same
// entity.

// stages are the runs of a stretch in their order.
func (w *work) stages(stretch int) []*workflow.StepRun {
	var runs []*workflow.StepRun
	for i := range w.x.Runs {
		if r := &w.x.Runs[i]; r.Stretch == stretch && r.Kind == workflow.JobExecute {
			runs = append(runs, r)
		}
	}
	return runs
}

// startStretch sends the first lanes.
func (w *work) startStretch(ctx context.Context, first *workflow.StepRun) error {
	lanes := first.Lanes()
	if first.Window > 0 {
		lanes = min(lanes, first.Window)
	}
	return parallel.Each(ctx, w.e.Parallel, lanes, func(ctx context.Context, lane int) error {
		return w.moveLane(ctx, first.Stretch, lane, workflow.Cost{})
	})
}

// moveLane moves a lane on as far as it goes: through the stages that are over,
// or have nothing to do for any of its entities, to the first that has. A lane
// that has come to the end of the stretch makes room for the next of its window.
func (w *work) moveLane(ctx context.Context, stretch, lane int, cost workflow.Cost) error {
	stages := w.stages(stretch)
	for lane >= 0 {
		for _, r := range stages {
			if lane >= r.Lanes() || r.Closing {
				return nil
			}
			run, err := w.run(ctx, r)
			if err != nil {
				return err
			}
			over, err := w.delivery().Advance(ctx, run, lane, w.e.now(), cost)
			if err != nil || !over {
				return err
			}
			cost = workflow.Cost{}
		}
		if len(stages) == 0 || stages[0].Window == 0 {
			return nil
		}
		lane += stages[0].Window
	}
	return nil
}

// stretchReport reports one run of a stretch. With an alarm it sends again what
// waits without a trace: the lanes of the run that are over in the one before it,
// and of the first run those that the window allows.
func (w *work) stretchReport(ctx context.Context, r *workflow.StepRun, run *delivery.Run) (*lifecycle.Report, error) {
	now := w.e.now()
	rang := w.rang(now)
	if rang {
		stages := w.stages(r.Stretch)
		before := stages[len(stages)-1]
		for i, s := range stages {
			if s.RunSeq == r.RunSeq && i > 0 {
				before = stages[i-1]
			}
		}
		prior, err := w.run(ctx, before)
		if err != nil {
			return nil, err
		}
		over, err := w.delivery().Over(ctx, prior)
		if err != nil {
			return nil, err
		}
		first := r.RunSeq == r.Stretch
		run.Allowed = func(lane int) bool {
			if first {
				return r.Window == 0 || lane < r.Window || over[lane-r.Window]
			}
			return over[lane]
		}
	}
	rep, err := w.delivery().Report(ctx, run, now, rang)
	var problem *delivery.Problem
	if errors.As(err, &problem) {
		return &lifecycle.Report{RunSeq: r.RunSeq, Cause: problem.Cause, Problem: problem.Failure}, nil
	}
	return rep, err
}

// rang reports whether the alarm has rung.
func (w *work) rang(now time.Time) bool { return !w.x.DueAt.IsZero() && !w.x.DueAt.After(now) }

// sendLane goes on with a lane that its worker could not: it is one of a stretch,
// its retry policy has a condition, or its chain was cut. It reports whether that
// may have changed what the run's report says.
func (w *work) sendLane(ctx context.Context, l workflow.Look) error {
	r := w.x.RunOf(l.RunSeq)
	if l.RunSeq == 0 {
		r = w.x.Run()
	}
	if !r.Open() || r.Closing {
		return nil
	}
	if r.Stretch > 0 {
		err := w.moveLane(ctx, r.Stretch, *l.Lane, l.Cost)
		var problem *delivery.Problem
		if errors.As(err, &problem) {
			w.facts.Reports = map[int]*lifecycle.Report{r.RunSeq: {RunSeq: r.RunSeq, Cause: problem.Cause, Problem: problem.Failure}}
			return nil
		}
		return err
	}
	run, err := w.run(ctx, r)
	if err != nil {
		return err
	}
	if !run.Work.Guided {
		return w.delivery().Send(ctx, run, *l.Lane, w.e.now())
	}
	over, err := w.delivery().Advance(ctx, run, *l.Lane, w.e.now(), l.Cost)
	if next := *l.Lane + r.Window; err == nil && over && r.Window > 0 && next < r.Lanes() {
		_, err = w.delivery().Advance(ctx, run, next, w.e.now(), workflow.Cost{})
	}
	return err
}
