package sweep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var errAway = errors.New("the workers are away")

// away is a roster that cannot be read.
type away struct{ everybody }

type everybody interface{ port.Workers }

func (away) DueWorkers(context.Context, int, time.Time, workflow.Page) (workflow.List[workflow.Worker], error) {
	return workflow.List[workflow.Worker]{}, errAway
}

// What cannot be swept keeps nothing else from being swept, and is told.
func TestOneFailureStopsNothingElse(t *testing.T) {
	s := stage.New(t, 1, stage.Options())
	s.Blocks()
	s.Publish("night", "cron: {schedule: \"0 4 * * *\"}\nsteps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	s.Tick(5 * time.Hour)
	broken := *s.Engine
	broken.Open = func() port.Ports {
		ports := s.Engine.Open()
		ports.Workers = away{ports.Workers}
		return ports
	}
	var swept sweep.Swept
	var err error
	s.Without(func() {
		swept, err = sweep.Run(t.Context(), &broken, roster.Silence{Unreachable: time.Minute, Offline: time.Hour, Forget: time.Hour}, s.Shards)
	})
	if !errors.Is(err, errAway) || swept.Fired != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

// An execution whose alarm rang long ago is stuck, whether or not anybody can be
// told.
func TestStuckExecutionsAreCounted(t *testing.T) {
	s := stage.New(t, 1, stage.Options())
	s.Blocks()
	s.Devices("d000")
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	s.Faults = func(c fate.Call) fate.Fault {
		if c.Name == "locks.read" {
			return fate.Throttled
		}
		return fate.None
	}
	id := s.Start("w", "d000")
	silence := roster.Silence{Unreachable: time.Minute, Offline: time.Hour, Forget: time.Hour}
	for _, want := range []int{0, 1} {
		after := topology.StuckAfter*time.Second + time.Duration(want)*time.Minute
		s.Advance(s.Load(id).DueAt.Add(after).Sub(s.Now()))
		swept, err := sweep.Run(t.Context(), s.Engine, silence, s.Shards)
		if err != nil || swept.Due != 1 || swept.Stuck != want {
			t.Errorf("after %s: swept %+v, %v", after, swept, err)
		}
	}
}
