package localstack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"

	fleetworker "github.com/lockstep-run/lockstep/examples/fleet/worker"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// stackClient is one client of a stack, and what tests do with it.
type stackClient struct {
	t *testing.T
	*client.Client
}

// importDevices brings devices into the inventory.
func (s *stackClient) importDevices(ids ...string) {
	s.t.Helper()
	var lines strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&lines, `{"type":"device","id":%q}`+"\n", id)
	}
	if _, err := s.ImportEntities(s.t.Context(), strings.NewReader(lines.String())); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stackClient) publish(source string) {
	s.t.Helper()
	if _, _, err := s.Publish(s.t.Context(), []byte(source), false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stackClient) startExecution(ref, parameters string, ids ...string) string {
	s.t.Helper()
	x, _, err := s.Start(s.t.Context(), views.StartRequest{
		Workflow: ref, Parameters: json.RawMessage(parameters), ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: ids},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return x.ID
}

// waitState waits until a run rests in the state, and holds it to its history: without
// gaps, and nothing locked at its end.
func (s *stackClient) waitState(id string, state sm.ExecutionState) views.ExecutionView {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	x, err := s.Wait(ctx, id, 100*time.Millisecond, nil)
	if err != nil || x.State != state {
		current, _ := s.Execution(context.Background(), id)
		s.t.Fatalf("run %s is in %s, want %s: %v, cause %v, error %+v, waiting %+v", id, current.State, state, err, current.Cause, current.Error, current.Waiting)
	}
	events := int64(0)
	for e, err := range s.History(s.t.Context(), id) {
		if events++; err != nil || e.Sequence != events {
			s.t.Fatalf("event %d of %s follows %d, %v", e.Sequence, id, events-1, err)
		}
	}
	for l, err := range s.Locks(s.t.Context()) {
		if err != nil || l.HeldBy != nil && *l.HeldBy == id {
			s.t.Errorf("%s is still locked by %s, %v", l.Entity, id, err)
		}
	}
	return x
}

// jobs of a run, in the order in which they are listed.
func (s *stackClient) jobs(id string) (all []workflow.Job) {
	s.t.Helper()
	for j, err := range s.Jobs(s.t.Context(), id, views.JobFilter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// upgradeFleet upgrades a fleet and has the devices judge it: all of them are
// brought to the new version; then one refuses beyond its retries, and all of them
// are brought back to the version that they had.
func upgradeFleet(t *testing.T, s *stackClient, fleet *simulator.Fleet) {
	for _, b := range fleetBlocks() {
		if _, err := s.RegisterBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile(filepath.Join(repoRoot(t), "examples", "fleet", "upgrade_firmware.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.publish(string(source))
	ids := fleet.IDs()
	s.importDevices(ids...)
	upgrade := func(target string, in sm.ExecutionState) views.ExecutionView {
		t.Helper()
		return s.waitState(s.startExecution("fleet/upgrade_firmware", fmt.Sprintf(`{"target":%q}`, target), ids...), in)
	}
	report := func(version string) {
		t.Helper()
		if n := fleet.Versions()[version]; n != len(ids) {
			t.Errorf("the devices report %v, want all of them %s", fleet.Versions(), version)
		}
		if v := fleet.CheckLogs(); len(v) > 0 {
			t.Errorf("the devices' logs: %v", v)
		}
	}
	upgrade("2.0.0", sm.ExecutionCompletedAck)
	report("2.0.0")
	refuses := simulator.Behaviour{Refuse: &simulator.Refuse{Fault: simulator.Fault{Operations: []simulator.Operation{simulator.OpUpgrade}}}}
	if err := fleet.SetBehaviour(refuses, ids[len(ids)/2]); err != nil {
		t.Fatal(err)
	}
	if x := upgrade("3.0.0", sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Errorf("not rolled back: %+v", x.Error)
	}
	report("2.0.0")
}

// fleetBlocks are what the fleet's worker offers. A worker that is a function does
// not register its blocks itself.
func fleetBlocks() []workflow.Block {
	w := worker.New(worker.Options{Pool: "fleet"})
	fleetworker.Add(w, "http://nowhere.invalid")
	return w.Blocks()
}

// registerPoolBlock registers the block of a pool of tests/localstack/faulty, with a workflow
// of one step.
func (s *stackClient) registerPoolBlock(pool string) {
	s.t.Helper()
	b := workflow.Block{Package: pool, Name: "act", Version: "1.0.0", Pool: pool, Idempotent: true, Timeout: workflow.Duration(30 * time.Second)}
	if _, err := s.RegisterBlock(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
	s.publish(fmt.Sprintf("package: test\nname: %s\nversion: 1.0.0\nseedEntity: device\nsteps: [{label: act, functionBlock: %s/act:1, runOn: device}]\n", pool, pool))
}

// checkTakeover has a worker function end in the middle of a job, as it is told: when
// the lease is over another invocation takes the job over, with a higher fence, and
// the run goes on as if nothing had been.
func checkTakeover(t *testing.T, s *stackClient, o *commandServer, command string) {
	entity := "device-" + command
	s.importDevices(entity)
	o.setCommands("faulty/"+entity, command, "work")
	id := s.startExecution("test/faulty", "{}", entity)
	s.waitState(id, sm.ExecutionCompletedAck)
	fences := o.fences("faulty/" + entity)
	if len(fences) != 2 || fences[0] >= fences[1] {
		t.Errorf("the job was begun with the fences %v, want two that rise", fences)
	}
	if jobs := s.jobs(id); len(jobs) != 1 || jobs[0].State != sm.JobCompleted {
		t.Errorf("jobs %+v", jobs)
	}
}

// checkDeadLetter has a pool's function fail before it can touch its message: the queue
// gives up on it, it is shown with its run, and once the function is repaired the
// message is put back and the run goes on.
func checkDeadLetter(t *testing.T, s *stackClient, o *commandServer, q *queuePair) {
	s.importDevices("device-dead")
	o.setCommands("broken", "missing")
	q.deadLetterAfterOneReceive(t)
	id := s.startExecution("test/broken", "{}", "device-dead")
	shown := func() (found []string) {
		for queue, err := range s.DeadLetters(t.Context(), "", 10) {
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range queue.DeadLetters {
				found = append(found, queue.Queue+" "+l.Execution)
			}
		}
		return found
	}
	eventually(t, "the queue gives up on the message", func() bool { return q.deadLetterCount(t) > 0 })
	letters := shown()
	if !slices.Contains(letters, "jobs-broken "+id) {
		t.Errorf("the dead letters that are shown are %v", letters)
	}
	if x, err := s.Execution(t.Context(), id); err != nil || x.State != sm.ExecutionRunning {
		t.Errorf("state %s, %v: a dead letter does not end a run at once", x.State, err)
	}
	o.setCommands("broken", "work")
	moved, err := s.Redrive(t.Context(), views.RedriveRequest{Queue: "jobs-broken"})
	if err != nil || moved.Moved != 1 {
		t.Fatalf("moved %+v, %v", moved, err)
	}
	s.waitState(id, sm.ExecutionCompletedAck)
	if letters := shown(); slices.Contains(letters, "jobs-broken "+id) {
		t.Errorf("still a dead letter: %v", letters)
	}
}
