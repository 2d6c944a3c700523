package chaos

import (
	"bufio"
	"bytes"
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
	"github.com/lockstep-run/lockstep/localstack/process"

	"github.com/lockstep-run/lockstep/shared/client"
)

// testTimeout is how long anything may take to come back.
const testTimeout = 60 * time.Second

// settings are such that seconds stand for minutes: a claim that nobody renews is
// taken over within a few seconds, and no run gives up for want of a worker.
const settings = `
sweepInterval: 500ms
poll: 1s
worker: {heartbeat: 1s, unreachable: 5s, offline: 10s}
job: {lease: 2s, stuck: 10s, unclaimed: 5m, timeout: 10s, maxTakeovers: 50}
lock: {wait: 10m}
log: {level: warn}
`

// jobLease is that of the settings.
const jobLease = 2 * time.Second

// fixture is everything that runs: the devices and the HTTP blocks in this process,
// DynamoDB and the stack as processes of their own.
type fixture struct {
	t       *testing.T
	fleet   *simulator.Fleet
	devices *httptest.Server
	blocks  *httptest.Server

	dir         string
	env         []string
	port        int // of the stack
	tablesPort  int // port of DynamoDB
	queueFaults string
	*client.Client

	mu             sync.Mutex
	dynamo         *dynamodb.Process
	stack          *process.Process
	faultTotals    map[string]int // what the queues' faults have done, added up over restarts
	log            logBuffer
	longestRestart time.Duration // the longest that a stack took to come back
}

// newFixture starts everything, and ends it with the test.
func newFixture(t *testing.T, seed uint64, devices int) *fixture {
	t.Helper()
	r := &fixture{t: t, dir: t.TempDir(), faultTotals: map[string]int{}}
	r.fleet = simulator.New(simulator.Options{Devices: simulator.NumberedDevices(devices)})
	r.devices = httptest.NewServer(r.fleet.Handler())
	r.blocks = httptest.NewServer(&blockServer{
		devices: r.devices.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, onTestError: t.Errorf,
	})
	t.Cleanup(func() {
		r.blocks.CloseClientConnections()
		r.blocks.Close()
		_ = r.fleet.Close() // it keeps no journal
		r.devices.CloseClientConnections()
		r.devices.Close()
	})
	r.port, r.tablesPort = freePort(t), freePort(t)
	r.queueFaults = fmt.Sprintf(`{"seed":%d,"duplicate":0.2,"reorder":0.5,"maxDelayMillis":300,"dropReply":{"*":0.02}}`, seed)
	r.env = append(os.Environ(), "FLEET_URL="+r.devices.URL, fmt.Sprintf("AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:%d", r.tablesPort))
	if err := os.WriteFile(filepath.Join(r.dir, "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	r.Client, err = client.New(client.Options{URL: fmt.Sprintf("http://127.0.0.1:%d", r.port), Backoff: 50 * time.Millisecond, HTTP: &http.Client{Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the stack's log:\n%s", r.log.tail(60))
		}
	})
	r.startTables()
	t.Cleanup(func() { _ = r.dynamo.Stop() }) // it has been asked to
	r.startStack()
	t.Cleanup(func() { r.stack.Stop(15 * time.Second) })
	return r
}

func binary(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: run make build", path)
	}
	return path
}

// startTables starts DynamoDB on the port and the data it had before. The data
// live in a directory: what has been acknowledged outlives the process.
func (r *fixture) startTables() {
	r.t.Helper()
	p, err := dynamodb.Start(context.Background(), dynamodb.Options{Binary: binary(r.t, "dynoxide"), Dir: filepath.Join(r.dir, "tables"), Port: r.tablesPort})
	if err != nil {
		r.t.Errorf("DynamoDB does not come back: %v", err)
		return
	}
	r.mu.Lock()
	r.dynamo = p
	r.mu.Unlock()
}

// startStack starts the stack on the port and the data it had before, and turns
// the queues' faults on.
func (r *fixture) startStack() {
	r.t.Helper()
	began := time.Now()
	cmd := exec.Command(binary(r.t, "lockstep"), "dev", "--port", strconv.Itoa(r.port), "--config", filepath.Join(r.dir, "config.yaml"),
		"--data", filepath.Join(r.dir, "data"), "--worker", binary(r.t, "fleet-worker"), "--worker", binary(r.t, "fleet-worker"))
	cmd.Env, cmd.Stderr = r.env, &r.log
	ready := &readyWatcher{ready: make(chan struct{})}
	cmd.Stdout = ready
	p, err := process.Start(cmd)
	if err != nil {
		r.t.Errorf("the stack does not start: %v", err)
		return
	}
	r.mu.Lock()
	r.stack = p
	r.mu.Unlock()
	select {
	case <-ready.ready:
	case <-p.Done():
		r.t.Errorf("the stack ended before it was ready:\n%s", r.log.tail(30))
		return
	case <-time.After(testTimeout):
		r.t.Errorf("the stack is not ready after %s:\n%s", testTimeout, r.log.tail(30))
		return
	}
	r.longestRestart = max(r.longestRestart, time.Since(began))
	r.setFaults(r.queueFaults)
}

// setFaults replaces the faults of the stack's own queues.
func (r *fixture) setFaults(faults string) {
	r.t.Helper()
	reply, err := http.Post(r.queuesEndpoint()+"/_faults", "application/json", strings.NewReader(faults))
	if err != nil || reply.StatusCode != http.StatusOK {
		r.t.Errorf("the queues' faults cannot be set: %v %v", reply, err)
		return
	}
	_ = reply.Body.Close() // only the status is of interest
}

var queuesURLPattern = regexp.MustCompile(`(?m)^export AWS_ENDPOINT_URL_SQS=(.*)$`)

// queuesEndpoint is where the stack serves its queues; a new place with every start.
func (r *fixture) queuesEndpoint() string {
	text, err := os.ReadFile(filepath.Join(r.dir, "data", "worker.env"))
	found := queuesURLPattern.FindSubmatch(text)
	if err != nil || found == nil {
		r.t.Errorf("where are the queues? %v", err)
		return ""
	}
	return string(found[1])
}

// addFaultCounts adds what the faults have done since the stack's last start. A stack
// that is killed takes its counts with it, so they are read before.
func (r *fixture) addFaultCounts() {
	counts, err := faultCounts(r.queuesEndpoint())
	if err != nil {
		return // it has just died: its last second is not counted
	}
	for what, n := range counts {
		r.faultTotals[what] += n
	}
}

// pids are the processes below the stack whose command line matches.
func (r *fixture) pids(pattern string) []int {
	r.mu.Lock()
	parent := r.stack.PID()
	r.mu.Unlock()
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(parent), "-f", pattern).Output() // it fails if there is none
	var pids []int
	for _, word := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killTables kills DynamoDB and brings it back after a while.
func (r *fixture) killTables(away time.Duration) bool {
	if err := syscall.Kill(r.dynamo.PID(), syscall.SIGKILL); err != nil {
		r.t.Errorf("kill DynamoDB: %v", err)
		return false
	}
	<-r.dynamo.Done()
	time.Sleep(away) // how long it is away is what is tried
	r.startTables()
	return true
}

// killStack kills the stack; everything that it has started dies with it.
func (r *fixture) killStack() bool {
	r.addFaultCounts()
	_ = syscall.Kill(r.stack.PID(), syscall.SIGKILL) // it may be dead already
	<-r.stack.Done()
	r.startStack()
	return true
}

// deviceLogs are the devices' logs.
func (r *fixture) deviceLogs() map[string][]simulator.LogEntry {
	logs := map[string][]simulator.LogEntry{}
	for _, id := range r.fleet.IDs() {
		logs[id] = r.fleet.Log(id)
	}
	return logs
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := process.FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// readyWatcher waits for the line that says that the stack takes requests.
type readyWatcher struct {
	once  sync.Once
	text  bytes.Buffer
	ready chan struct{}
}

func (l *readyWatcher) Write(p []byte) (int, error) {
	l.text.Write(p)
	lines := bufio.NewScanner(bytes.NewReader(l.text.Bytes()))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "ready ") {
			l.once.Do(func() { close(l.ready) })
		}
	}
	return len(p), nil
}

// logBuffer keeps the end of what the stack says.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

const maxLogBytes = 1 << 20

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if len(l.text) > 2*maxLogBytes {
		l.text = append([]byte(nil), l.text[len(l.text)-maxLogBytes:]...)
	}
	return len(p), nil
}

func (l *logBuffer) tail(lines int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(string(l.text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
