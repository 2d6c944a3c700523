package localstack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

var bootstrapOnce sync.Once

// bootstrap makes what CDK needs in an account.
func bootstrap(t *testing.T) {
	t.Helper()
	bootstrapOnce.Do(func() { runCDK(t, "bootstrap", "aws://000000000000/"+region) })
}

// TestDeployment_ExampleAppRunsE2EAndUpdates deploys the app of infra, has the doctor examine it, and runs the
// end-to-end tests on it; then the stack is updated to the next release while a run
// is under way, and destroyed.
func TestDeployment_ExampleAppRunsE2EAndUpdates(t *testing.T) {
	t.Parallel()
	bootstrap(t)
	s := devStack(t)
	s.deploy(t)
	if err := s.client(t).Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("doctor", func(t *testing.T) { checkDoctor(t, s) })
	runE2E(t, s)
	reportColdStarts(t)
	t.Run("update", func(t *testing.T) { checkUpdateDuringExecution(t, s) })
	t.Run("destroy", func(t *testing.T) { checkDestroyRemovesAll(t, s) })
}

// TestDeployment_CustomPoolsRunScenarios deploys an app with pools of a user's own, whose workers are
// functions, and looks at what only functions, queues and a schedule of AWS do.
func TestDeployment_CustomPoolsRunScenarios(t *testing.T) {
	t.Parallel()
	fleet := simulator.New(simulator.Options{Devices: simulator.NumberedDevices(30)})
	defer func() { _ = fleet.Close() }()
	o := startCommandServer(t)
	bootstrap(t)
	s := scenarioStack(t, serveForFunctions(t, fleet.Handler()), o.url)
	s.deploy(t)
	newClient := func(t *testing.T) *stackClient { return &stackClient{t, s.client(t)} }
	for _, pool := range []string{"faulty", "broken"} {
		newClient(t).registerPoolBlock(pool)
	}
	// The outer run ends when all of those that are side by side have.
	t.Run("side by side", func(t *testing.T) {
		for name, check := range map[string]func(*testing.T, *stackClient){
			"fleet":       func(t *testing.T, h *stackClient) { upgradeFleet(t, h, fleet) },
			"panic":       func(t *testing.T, h *stackClient) { checkTakeover(t, h, o, "crash") },
			"time-out":    func(t *testing.T, h *stackClient) { checkTakeover(t, h, o, "freeze") },
			"dead letter": func(t *testing.T, h *stackClient) { checkDeadLetter(t, h, o, s.queue(t, "JobsBroken")) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, newClient(t))
			})
		}
	})
	t.Run("schedule", func(t *testing.T) { checkSweepWakesExecution(t, newClient(t), s.queue(t, "Lifecycle")) })
	t.Run("destroy", func(t *testing.T) { checkDestroyRemovesAll(t, s) })
}

// checkSweepWakesExecution loses every message that would wake a run; the schedule's next sweep does.
func checkSweepWakesExecution(t *testing.T, s *stackClient, lifecycle *queuePair) {
	s.importDevices("device-swept")
	startAt := time.Now().Add(8 * time.Second)
	x, _, err := s.Start(t.Context(), views.StartRequest{
		Workflow: "test/faulty", Parameters: json.RawMessage("{}"), NotBefore: startAt,
		ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: []string{"device-swept"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := x.ID
	began := time.Now()
	lifecycle.purge(t)
	if now, err := s.Execution(t.Context(), id); err != nil || !time.Now().Before(startAt) || now.EndedAt != nil {
		t.Fatalf("the machine is too slow for this scene, or the run has begun already: %+v, %v", now, err)
	}
	s.waitState(id, sm.ExecutionCompletedAck)
	printDuration("woken by the schedule", began)
}

// checkUpdateDuringExecution deploys the next release in the middle of a run: the run goes on, no job
// is lost, and the new release answers.
func checkUpdateDuringExecution(t *testing.T, s *deployedStack) {
	h := &stackClient{t, s.client(t)}
	var mu sync.Mutex
	done, release := map[string]int{}, make(chan struct{})
	begun := make(chan struct{}, 1000)
	url := serveForFunctions(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Entity struct{ ID string } }
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		begun <- struct{}{}
		if call.Entity.ID == "device-07" {
			<-release // until the update is over, or its invocation is
		}
		mu.Lock()
		defer mu.Unlock()
		done[call.Entity.ID]++
		_, _ = io.WriteString(w, `{"outcome":"OK"}`) // whoever has gone asks again
	}))
	b := workflow.Block{Package: "test", Name: "slow", Version: "1.0.0", Idempotent: true,
		Timeout: workflow.Duration(testTimeout), HTTP: &workflow.Endpoint{URL: url}}
	if _, err := h.RegisterBlock(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	h.publish("package: test\nname: updated\nversion: 1.0.0\nseedEntity: device\nconfig: {maxInFlight: 3}\n" +
		"steps: [{label: one, functionBlock: test/slow:1, runOn: device}, {label: two, functionBlock: test/slow:1, runOn: device}]\n")
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("device-%02d", i))
	}
	h.importDevices(ids...)
	before, err := h.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := h.startExecution("test/updated", "{}", ids...)
	<-begun
	s.context = append(s.context, "functionsDir="+filepath.Join(repoRoot(t), "bin", "scenes", "next"), "logLevel=debug", "version=next")
	s.deploy(t)
	close(release)
	after, err := h.Version(t.Context())
	if err != nil || after.Version != "next" || before.Version == after.Version {
		t.Errorf("version %q, after the update %q, %v", before.Version, after.Version, err)
	}
	if x := h.waitState(id, sm.ExecutionCompletedAck); x.Progress.Jobs.Total != 2*len(ids) {
		t.Errorf("jobs %+v", x.Progress.Jobs)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range ids {
		if done[id] < 2 {
			t.Errorf("%s was worked on %d times, want twice at least", id, done[id])
		}
	}
}

// checkDestroyRemovesAll takes the stack away, and nothing of it is left.
func checkDestroyRemovesAll(t *testing.T, s *deployedStack) {
	t.Helper()
	stackResources := func() (all []string) {
		for _, name := range listResources(t) {
			if strings.Contains(name, s.stackName+"-") {
				all = append(all, name)
			}
		}
		return all
	}
	// Four tables, two queues and their dead letters and those of the schedule, four functions.
	if all := stackResources(); len(all) < 13 {
		t.Errorf("before: %v", all)
	}
	s.destroy(t)
	if all := stackResources(); len(all) > 0 {
		t.Errorf("after: %v", all)
	}
}
