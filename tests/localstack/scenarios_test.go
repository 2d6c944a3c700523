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
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// stackClient is a client of a stack, for one test.
type stackClient struct {
	t *testing.T
	*client.Client
}

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

// waitState waits until an execution rests in a state, and checks that its history has no
// gaps and that it holds no locks.
func (s *stackClient) waitState(id string, state sm.ExecutionState) views.ExecutionView {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	x, err := s.Wait(ctx, id, 100*time.Millisecond, nil)
	if err != nil || x.State != state {
		current, _ := s.Execution(context.Background(), id)
		s.t.Fatalf("execution %s is in %s, want %s: %v, cause %v, error %+v, waiting %+v", id, current.State, state, err, current.Cause, current.Error, current.Waiting)
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

// jobs lists the jobs of an execution.
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

// upgradeFleet upgrades a fleet and checks the devices' versions and logs: all get the new
// version; in a second upgrade one device rejects every attempt, and all get their version
// back.
func upgradeFleet(t *testing.T, s *stackClient, fleet *simulator.Fleet) {
	for _, b := range fleetBlocks() {
		if _, err := s.RegisterBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile(filepath.Join(testkit.Root(t), "examples", "fleet", "upgrade_firmware.yaml"))
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
	check := func(version string) {
		t.Helper()
		if n := fleet.Versions()[version]; n != len(ids) {
			t.Errorf("the devices report %v, want all to be %s", fleet.Versions(), version)
		}
		if v := fleet.CheckLogs(); len(v) > 0 {
			t.Errorf("the devices' logs: %v", v)
		}
	}
	upgrade("2.0.0", sm.ExecutionCompletedAck)
	check("2.0.0")
	rejects := simulator.Behaviour{Refuse: &simulator.Refuse{Fault: simulator.Fault{Operations: []simulator.Operation{simulator.OpUpgrade}}}}
	if err := fleet.SetBehaviour(rejects, ids[len(ids)/2]); err != nil {
		t.Fatal(err)
	}
	if x := upgrade("3.0.0", sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Errorf("not rolled back: %+v", x.Error)
	}
	check("2.0.0")
}

// fleetBlocks returns the blocks of the fleet's worker. A worker function does not register
// its blocks itself.
func fleetBlocks() []workflow.Block {
	w := worker.New(worker.Options{Pool: "fleet"})
	fleetworker.Add(w, "http://nowhere.invalid")
	return w.Blocks()
}

// registerPoolBlock registers the block of a pool whose worker is tests/localstack/faulty,
// and publishes a definition with one step that uses it.
func (s *stackClient) registerPoolBlock(pool string) {
	s.t.Helper()
	b := workflow.Block{Package: pool, Name: "act", Version: "1.0.0", Pool: pool, Idempotent: true, Timeout: workflow.Duration(30 * time.Second)}
	if _, err := s.RegisterBlock(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
	s.publish(fmt.Sprintf("package: test\nname: %s\nversion: 1.0.0\nseedEntity: device\nsteps: [{label: act, functionBlock: %s/act:1, runOn: device}]\n", pool, pool))
}

// checkTakeover lets a worker function die during a job. When the lease has expired, another
// invocation takes over the job with a higher fence, and the execution continues.
func checkTakeover(t *testing.T, s *stackClient, commands *commandServer, command string) {
	entity := "device-" + command
	s.importDevices(entity)
	commands.setCommands("faulty/"+entity, command, "work")
	id := s.startExecution("test/faulty", "{}", entity)
	s.waitState(id, sm.ExecutionCompletedAck)
	// On a slow machine an invocation may end before its job has begun, so the job may have
	// begun once only. The last number of the fence counts the takeovers of the pack.
	fences := commands.fences("faulty/" + entity)
	if len(fences) == 0 || !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != len(fences) || strings.HasSuffix(fences[len(fences)-1], "-01") {
		t.Errorf("the job began with the fences %v, want some that increase, the last after a takeover", fences)
	}
	if jobs := s.jobs(id); len(jobs) != 1 || jobs[0].State != sm.JobCompleted {
		t.Errorf("jobs %+v", jobs)
	}
}

// checkDeadLetter lets a pool's function fail to start, so that a pack message becomes a dead
// letter, which is listed with its execution. After a repair and a redrive the execution
// continues.
func checkDeadLetter(t *testing.T, s *stackClient, commands *commandServer, q *queuePair) {
	s.importDevices("device-dead")
	commands.setCommands("broken", "missing")
	q.deadLetterAfterOneReceive(t)
	id := s.startExecution("test/broken", "{}", "device-dead")
	list := func() (found []string) {
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
	eventually(t, "the message is a dead letter", func() bool { return q.deadLetterCount(t) > 0 })
	letters := list()
	if !slices.Contains(letters, "jobs-broken "+id) {
		t.Errorf("dead letters: %v", letters)
	}
	if x, err := s.Execution(t.Context(), id); err != nil || x.State != sm.ExecutionRunning {
		t.Errorf("state %s, %v, want RUNNING: a dead letter must not end the execution", x.State, err)
	}
	commands.setCommands("broken", "work")
	moved, err := s.Redrive(t.Context(), views.RedriveRequest{Queue: "jobs-broken"})
	if err != nil || moved.Moved == 0 { // the engine may have sent the pack again, and that message may have died too
		t.Fatalf("redrive: %+v, %v", moved, err)
	}
	s.waitState(id, sm.ExecutionCompletedAck)
	// A function that was starting while it was repaired may let the message die once more; the
	// execution then continues with the one that the engine sends, and the letter is redriven again.
	eventually(t, "no dead letter is left", func() bool {
		if !slices.Contains(list(), "jobs-broken "+id) {
			return true
		}
		if _, err := s.Redrive(t.Context(), views.RedriveRequest{Queue: "jobs-broken"}); err != nil {
			t.Fatal(err)
		}
		return false
	})
}
