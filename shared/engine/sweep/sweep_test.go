package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// rooted is a store whose due executions stay due, whatever is sent to them: their
// looks fail. A page token is a place among them.
type rooted struct {
	port.Store
	due []workflow.Look
}

func (r rooted) Due(_ context.Context, _ int, since, now time.Time, page workflow.Page) (list workflow.List[workflow.Look], err error) {
	at := 0
	if page.Token != "" {
		if at, err = strconv.Atoi(page.Token); err != nil {
			return list, err
		}
	}
	for ; at < len(r.due); at++ {
		switch l := r.due[at]; {
		case l.DueAt.Before(since) || l.DueAt.After(now):
		case len(list.Items) == page.Limit:
			list.Next = strconv.Itoa(at)
			return list, nil
		default:
			list.Items = append(list.Items, l)
		}
	}
	return list, nil
}

// hearing is a board that notes who is told.
type hearing struct {
	port.Board
	told map[string]int
	sent *int
}

func (h hearing) Notify(_ context.Context, _ time.Duration, looks ...workflow.Look) error {
	for _, l := range looks {
		h.told[l.Execution]++
	}
	*h.sent += len(looks)
	return nil
}

// More than a sweep can do that cannot be done at all keeps nobody behind it from
// being looked at, at most for a few sweeps; and no sweep does more for that.
func TestWhatCannotBeDoneKeepsNobodyFromIt(t *testing.T) {
	for name, c := range map[string]struct {
		spread time.Duration // over which the alarms that stay were set, an hour ago
		within int           // sweeps
	}{
		"all at once":     {time.Second, 1},
		"one by one":      {time.Hour, 40},
		"at one moment":   {0, 1},
		"not yet so long": {55 * time.Minute, 40},
	} {
		s := stage.New(t, 1, stage.Options())
		const many = 6000
		var due []workflow.Look
		begun := s.Now()
		for i := range many {
			due = append(due, workflow.Look{Tenant: "t", Execution: fmt.Sprint("newer", i), DueAt: begun.Add(c.spread / many * time.Duration(i))})
		}
		s.Tick(time.Hour)
		due = append(due, workflow.Look{Tenant: "t", Execution: "healthy", DueAt: s.Now().Add(-time.Second)})
		told, sent := map[string]int{}, 0
		stuck := *s.Engine
		stuck.Open = func() port.Ports {
			ports := s.Engine.Open()
			ports.Store, ports.Board = rooted{ports.Store, due}, hearing{ports.Board, told, &sent}
			return ports
		}
		for n := 1; told["healthy"] == 0; n++ {
			sent = 0
			swept, err := sweep.Run(t.Context(), &stuck, stage.Silence, 1)
			if err != nil || sent > 2000 || swept.Due != sent || told["newer0"] != n {
				t.Fatalf("%s: swept %+v, sent %d, the oldest %d times of %d, %v", name, swept, sent, told["newer0"], n, err)
			}
			if n > c.within {
				t.Fatalf("%s: not looked at in %d sweeps", name, n)
			}
			s.Tick(time.Minute)
		}
	}
}

// What one sweep has pages for it does, wherever it begins, each once.
func TestASweepDoesWhatItCan(t *testing.T) {
	for _, many := range []int{999, 1000, 1001, 1500, 1900} {
		s := stage.New(t, 1, stage.Options())
		var due []workflow.Look
		for i := range many {
			due = append(due, workflow.Look{Tenant: "t", Execution: fmt.Sprint("x", i), DueAt: s.Now().Add(time.Duration(i/3) * time.Second)})
		}
		s.Tick(time.Hour)
		told, sent := map[string]int{}, 0
		busy := *s.Engine
		busy.Open = func() port.Ports {
			ports := s.Engine.Open()
			ports.Store, ports.Board = rooted{ports.Store, due}, hearing{ports.Board, told, &sent}
			return ports
		}
		if swept, err := sweep.Run(t.Context(), &busy, stage.Silence, 1); err != nil || swept.Due != many || len(told) != many {
			t.Errorf("of %d: swept %+v, %d told, %v", many, swept, len(told), err)
		}
	}
}
