package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var errWorkersUnavailable = errors.New("workers unavailable")

// unavailableWorkers is a workers port that cannot be read.
type unavailableWorkers struct{ workersPort }

type workersPort interface{ port.Workers }

func (unavailableWorkers) DueWorkers(context.Context, int, time.Time, workflow.Page) (workflow.List[workflow.Worker], error) {
	return workflow.List[workflow.Worker]{}, errWorkersUnavailable
}

// An error in one part of a sweep is returned, and does not stop the other parts.
func TestSweep_FailuresAreIndependent(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("night", "cron: {schedule: \"0 4 * * *\"}\nsteps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	s.RunFor(5 * time.Hour)
	broken := *s.Engine
	broken.OpenPorts = func() port.Ports {
		ports := s.Engine.OpenPorts()
		ports.Workers = unavailableWorkers{ports.Workers}
		return ports
	}
	var swept scheduler.SweepResult
	var err error
	s.WithoutFaults(func() {
		swept, err = scheduler.Sweep(t.Context(), &broken, workers.LivenessTimeouts{Unreachable: time.Minute, Offline: time.Hour, Forget: time.Hour}, s.Shards)
	})
	if !errors.Is(err, errWorkersUnavailable) || swept.ExecutionsStarted != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

// An execution is counted as stuck if its timer has been due for longer than
// topology.StuckAfterSeconds.
func TestSweep_CountsStuckExecutions(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("d000")
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Throttled, "locks.read")
	id := s.Start("w", "d000")
	timeouts := workers.LivenessTimeouts{Unreachable: time.Minute, Offline: time.Hour, Forget: time.Hour}
	for _, want := range []int{0, 1} {
		after := topology.StuckAfterSeconds*time.Second + time.Duration(want)*time.Minute
		s.Advance(s.Load(id).DueAt.Add(after).Sub(s.Now()))
		swept, err := scheduler.Sweep(t.Context(), s.Engine, timeouts, s.Shards)
		if err != nil || swept.WakeupsSent != 1 || swept.Stuck != want {
			t.Errorf("after %s: swept %+v, %v", after, swept, err)
		}
	}
}

// stuckStore is a store whose due executions stay due, since their wake-ups fail. A page
// token is an index into due.
type stuckStore struct {
	port.Store
	due []workflow.Wakeup
}

func (r stuckStore) DueExecutions(_ context.Context, _ int, since, now time.Time, page workflow.Page) (list workflow.List[workflow.Wakeup], err error) {
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
			list.NextToken = strconv.Itoa(at)
			return list, nil
		default:
			list.Items = append(list.Items, l)
		}
	}
	return list, nil
}

// recordingSender is a sender that counts the wake-ups of each execution.
type recordingSender struct {
	port.Sender
	wakeups map[string]int
	sent    *int
}

func (r recordingSender) SendWakeups(_ context.Context, _ time.Duration, wakeups ...workflow.Wakeup) error {
	for _, w := range wakeups {
		r.wakeups[w.Execution]++
	}
	*r.sent += len(wakeups)
	return nil
}

// stuckPorts returns the ports of the harness with a stuckStore and a recordingSender.
func stuckPorts(s *harness.Harness, due *[]workflow.Wakeup, wakeups map[string]int, sent *int) func() port.Ports {
	return func() port.Ports {
		ports := s.Engine.OpenPorts()
		ports.Store, ports.Sender = stuckStore{ports.Store, *due}, recordingSender{ports.Sender, wakeups, sent}
		return ports
	}
}

// If the wake-ups of more executions fail than one sweep can read, other executions are
// still woken within a few sweeps, and no sweep reads more than its bound.
func TestSweep_FailingExecutionsDoNotStarveOthers(t *testing.T) {
	for name, c := range map[string]struct {
		spread time.Duration // over which the failing timers are spread, from an hour ago on
		within int           // number of sweeps until the healthy execution is woken
	}{
		"due within a second":  {time.Second, 1},
		"due over an hour":     {time.Hour, 40},
		"due at the same time": {0, 1},
		"due over 55 minutes":  {55 * time.Minute, 40},
	} {
		s := harness.New(t, 1, harness.Options())
		const failing = 6000
		var due []workflow.Wakeup
		begun := s.Now()
		for i := range failing {
			due = append(due, workflow.Wakeup{Tenant: "t", Execution: fmt.Sprint("failing", i), DueAt: begun.Add(c.spread / failing * time.Duration(i))})
		}
		s.RunFor(time.Hour)
		due = append(due, workflow.Wakeup{Tenant: "t", Execution: "healthy", DueAt: s.Now().Add(-time.Second)})
		wakeups, sent := map[string]int{}, 0
		stuck := *s.Engine
		stuck.OpenPorts = stuckPorts(s, &due, wakeups, &sent)
		for n := 1; wakeups["healthy"] == 0; n++ {
			sent = 0
			swept, err := scheduler.Sweep(t.Context(), &stuck, harness.LivenessTimeouts, 1)
			if err != nil || sent > 2000 || swept.WakeupsSent != sent || wakeups["failing0"] != n {
				t.Fatalf("%s: swept %+v, sent %d, woke the oldest %d times in %d sweeps, %v", name, swept, sent, wakeups["failing0"], n, err)
			}
			if n > c.within {
				t.Fatalf("%s: not woken in %d sweeps", name, n)
			}
			s.RunFor(time.Minute)
		}
	}
}

// A sweep that can read everything wakes each due execution exactly once.
func TestSweep_WakesEachDueExecutionOnce(t *testing.T) {
	for _, many := range []int{999, 1000, 1001, 1500, 1900} {
		s := harness.New(t, 1, harness.Options())
		var due []workflow.Wakeup
		for i := range many {
			due = append(due, workflow.Wakeup{Tenant: "t", Execution: fmt.Sprint("x", i), DueAt: s.Now().Add(time.Duration(i/3) * time.Second)})
		}
		s.RunFor(time.Hour)
		wakeups, sent := map[string]int{}, 0
		busy := *s.Engine
		busy.OpenPorts = stuckPorts(s, &due, wakeups, &sent)
		if swept, err := scheduler.Sweep(t.Context(), &busy, harness.LivenessTimeouts, 1); err != nil || swept.WakeupsSent != many || len(wakeups) != many {
			t.Errorf("%d due: swept %+v, woke %d, %v", many, swept, len(wakeups), err)
		}
	}
}
