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
	"github.com/lockstep-run/lockstep/tests/testkit"
)

var bootstrapOnce sync.Once

// bootstrap deploys what CDK needs in an account.
func bootstrap(t *testing.T) {
	t.Helper()
	bootstrapOnce.Do(func() { runCDK(t, "bootstrap", "aws://000000000000/"+region) })
}

// The app of infra is deployed and checked by lockstep doctor, and the end-to-end tests run
// on it. Then it is updated to the next release during an execution, and destroyed.
func TestDeployment_ExampleAppRunsE2EAndUpdates(t *testing.T) {
	t.Parallel()
	bootstrap(t)
	s := devStack(t)
	s.context = append(s.context, "tokenKeys="+createTokenKeys(t))
	s.deploy(t)
	if err := s.client(t).Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("doctor", func(t *testing.T) { checkDoctor(t, s) })
	runE2E(t, s)
	reportColdStarts(t)
	checkLogsHoldNoToken(t)
	t.Run("update", func(t *testing.T) { checkUpdateDuringExecution(t, s) })
	t.Run("destroy", func(t *testing.T) { checkDestroyRemovesAll(t, s) })
}

// An app with worker pools of its own, whose workers are functions, is deployed, for what
// only functions, queues and the schedule of AWS do.
func TestDeployment_CustomPoolsRunScenarios(t *testing.T) {
	t.Parallel()
	fleet := simulator.New(simulator.Options{Devices: simulator.NumberedDevices(30)})
	defer func() { _ = fleet.Close() }()
	commands := startCommandServer(t)
	bootstrap(t)
	s := scenarioStack(t, serveForFunctions(t, fleet.Handler()), commands.url)
	s.deploy(t)
	newClient := func(t *testing.T) *stackClient { return &stackClient{t, s.client(t)} }
	for _, pool := range []string{"faulty", "broken"} {
		newClient(t).registerPoolBlock(pool)
	}
	// Ends when all of its parallel subtests have ended.
	t.Run("parallel", func(t *testing.T) {
		for name, check := range map[string]func(*testing.T, *stackClient){
			"fleet":       func(t *testing.T, h *stackClient) { upgradeFleet(t, h, fleet) },
			"panic":       func(t *testing.T, h *stackClient) { checkTakeover(t, h, commands, "crash") },
			"timeout":     func(t *testing.T, h *stackClient) { checkTakeover(t, h, commands, "freeze") },
			"dead_letter": func(t *testing.T, h *stackClient) { checkDeadLetter(t, h, commands, s.queue(t, "JobsBroken")) },
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

// checkSweepWakesExecution deletes every wake-up of an execution; the next sweep of the
// schedule wakes it. Where the execution has started before its wake-ups were deleted, it proves
// nothing, and another one gets more time.
func checkSweepWakesExecution(t *testing.T, s *stackClient, lifecycle *queuePair) {
	s.importDevices("device-swept")
	for ahead := 8 * time.Second; ; ahead *= 2 {
		began := time.Now()
		startAt := began.Add(ahead)
		x, _, err := s.Start(t.Context(), views.StartRequest{
			Workflow: "test/faulty", Parameters: json.RawMessage("{}"), NotBefore: startAt,
			ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: []string{"device-swept"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		lifecycle.purge(t)
		inTime := time.Now().Before(startAt)
		s.waitState(x.ID, sm.ExecutionCompletedAck)
		if inTime {
			printDuration("woken by the schedule", began)
			return
		}
	}
}

// checkUpdateDuringExecution deploys the next release during an execution: the execution
// continues, no job is lost, and the new release answers.
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
			<-release // until the update is over
		}
		mu.Lock()
		defer mu.Unlock()
		done[call.Entity.ID]++
		_, _ = io.WriteString(w, `{"outcome":"OK"}`) // fails if the caller has ended
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
	s.context = append(s.context, "functionsDir="+filepath.Join(testkit.Root(t), "bin", "scenarios", "next"), "logLevel=debug", "version=next")
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
			t.Errorf("%s had %d calls, want at least 2", id, done[id])
		}
	}
}

// checkDestroyRemovesAll destroys the stack and checks that nothing of it is left.
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
	// Four tables, two queues with their dead-letter queues, that of the schedule, four functions.
	if all := stackResources(); len(all) < 13 {
		t.Errorf("before destroy: %v", all)
	}
	s.destroy(t)
	if all := stackResources(); len(all) > 0 {
		t.Errorf("left after destroy: %v", all)
	}
}
