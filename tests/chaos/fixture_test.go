package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// testTimeout is how long a restart may take.
const testTimeout = 60 * time.Second

// settings shorten minutes to seconds: a claim that is not renewed is taken over within
// seconds, and no execution fails because there is no worker.
const settings = `
sweepInterval: 500ms
observe: {age: 1s}
poll: 1s
worker: {heartbeat: 1s, unreachable: 5s, offline: 10s}
job: {lease: 2s, stuck: 10s, unclaimed: 5m, timeout: 10s, maxTakeovers: 50}
lock: {wait: 10m}
log: {level: warn}
`

// jobLease is job.lease of the settings.
const jobLease = 2 * time.Second

// fixture has the devices, the HTTP blocks and the subscriber in this process, and DynamoDB and the
// stack as child processes.
type fixture struct {
	t          *testing.T
	fleet      *simulator.Fleet
	devices    *httptest.Server
	blocks     *httptest.Server
	hooks      *httptest.Server // of the subscriber
	subscriber *subscriber

	dir         string
	env         []string
	port        int // of the stack
	tablesPort  int // of DynamoDB
	queueFaults string
	calls       callLog
	*client.Client

	mu             sync.Mutex
	dynamo         *dynamodb.Process
	stack          *testkit.Program
	faultTotals    map[string]int // counts of the queues' faults over all restarts
	verbs          map[string]int // that were accepted
	log            testkit.Buffer
	longestRestart time.Duration
}

// newFixture starts everything and stops it with the test.
func newFixture(t *testing.T, seed uint64, devices int) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), faultTotals: map[string]int{}, log: testkit.Buffer{Limit: 1 << 20}}
	f.fleet = simulator.New(simulator.Options{Devices: simulator.NumberedDevices(devices)})
	f.devices = httptest.NewServer(f.fleet.Handler())
	f.blocks = httptest.NewServer(&blockServer{
		devices: f.devices.URL, calls: &f.calls, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, onTestError: t.Errorf,
	})
	f.subscriber = &subscriber{told: map[string]map[int64]workflow.ObservedEvent{}, seen: map[string]bool{}}
	f.hooks = httptest.NewServer(f.subscriber)
	t.Cleanup(func() {
		f.hooks.CloseClientConnections()
		f.hooks.Close()
		f.blocks.CloseClientConnections()
		f.blocks.Close()
		_ = f.fleet.Close() // it has no state file
		f.devices.CloseClientConnections()
		f.devices.Close()
	})
	f.port, f.tablesPort = testkit.FreePort(t), testkit.FreePort(t)
	f.queueFaults = fmt.Sprintf(`{"seed":%d,"duplicate":0.2,"reorder":0.5,"maxDelayMillis":300,"dropReply":{"*":0.02}}`, seed)
	f.env = append(os.Environ(), "FLEET_URL="+f.devices.URL, fmt.Sprintf("AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:%d", f.tablesPort))
	if err := os.WriteFile(filepath.Join(f.dir, "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	f.Client, err = client.New(client.Options{URL: fmt.Sprintf("http://127.0.0.1:%d", f.port), Backoff: 50 * time.Millisecond, HTTP: &http.Client{Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the stack's log:\n%s", f.log.Tail(60))
		}
	})
	f.startTables()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { _ = f.dynamo.Stop() }) // its exit status does not matter
	f.startStack()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { f.stack.Stop(15 * time.Second) })
	return f
}

// startTables starts DynamoDB on the same port and data as before.
func (f *fixture) startTables() {
	f.t.Helper()
	p, err := dynamodb.Start(context.Background(), dynamodb.Options{Binary: testkit.Binary(f.t, "dynoxide"), Dir: filepath.Join(f.dir, "tables"), Port: f.tablesPort})
	if err != nil {
		f.t.Errorf("DynamoDB does not start: %v", err)
		return
	}
	f.mu.Lock()
	f.dynamo = p
	f.mu.Unlock()
}

// startStack starts the stack on the same port and data as before, and enables the
// queues' faults.
func (f *fixture) startStack() {
	f.t.Helper()
	start := time.Now()
	cmd := exec.Command(testkit.Binary(f.t, "lockstep"), "dev", "--port", strconv.Itoa(f.port), "--config", filepath.Join(f.dir, "config.yaml"),
		"--data", filepath.Join(f.dir, "data"), "--worker", testkit.Binary(f.t, "fleet-worker"), "--worker", testkit.Binary(f.t, "fleet-worker"))
	cmd.Env = f.env
	p, err := testkit.StartProgram(cmd, &f.log, testTimeout)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.mu.Lock()
	f.stack = p
	f.mu.Unlock()
	f.longestRestart = max(f.longestRestart, time.Since(start))
	if *told {
		f.hideMessages(hiddenSeconds)
	}
	f.setFaults(f.queueFaults)
}

// setFaults replaces the faults of the stack's own queues.
func (f *fixture) setFaults(faults string) {
	f.t.Helper()
	reply, err := http.Post(f.queuesEndpoint()+"/_faults", "application/json", strings.NewReader(faults))
	if err != nil || reply.StatusCode != http.StatusOK {
		f.t.Errorf("cannot set the queues' faults: %v %v", reply, err)
		return
	}
	_ = reply.Body.Close() // only the status matters
}

var queuesURLPattern = regexp.MustCompile(`(?m)^export AWS_ENDPOINT_URL_SQS=(.*)$`)

// queuesEndpoint is the endpoint of the stack's queues, which changes with every start.
func (f *fixture) queuesEndpoint() string {
	text, err := os.ReadFile(filepath.Join(f.dir, "data", "worker.env"))
	found := queuesURLPattern.FindSubmatch(text)
	if err != nil || found == nil {
		f.t.Errorf("worker.env has no endpoint of the queues: %v", err)
		return ""
	}
	return string(found[1])
}

// addFaultCounts adds the fault counts since the stack's last start. A killed stack loses
// its counts, so they are read before.
func (f *fixture) addFaultCounts() {
	counts, err := faultCounts(f.queuesEndpoint())
	if err != nil {
		return // the stack is down; its last counts are lost
	}
	for what, n := range counts {
		f.faultTotals[what] += n
	}
}

// pids lists the child processes of the stack whose command line matches.
func (f *fixture) pids(pattern string) []int {
	f.mu.Lock()
	parent := f.stack.PID()
	f.mu.Unlock()
	return testkit.ChildPIDs(parent, pattern)
}

// killTables kills DynamoDB and restarts it after a downtime.
func (f *fixture) killTables(downtime time.Duration) bool {
	if err := syscall.Kill(f.dynamo.PID(), syscall.SIGKILL); err != nil {
		f.t.Errorf("kill DynamoDB: %v", err)
		return false
	}
	<-f.dynamo.Done()
	time.Sleep(downtime) // part of the test
	f.startTables()
	return true
}

// killStack kills the stack, and with it its child processes, and restarts it.
func (f *fixture) killStack() bool {
	f.addFaultCounts()
	f.stack.Kill()
	f.startStack()
	return true
}

// deviceLogs returns the devices' logs by id.
func (f *fixture) deviceLogs() map[string][]simulator.LogEntry {
	logs := map[string][]simulator.LogEntry{}
	for _, id := range f.fleet.IDs() {
		logs[id] = f.fleet.Log(id)
	}
	return logs
}
