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
	"github.com/lockstep-run/lockstep/examples/fleet/simulator/devicelog"
	"github.com/lockstep-run/lockstep/localstack/child"
	"github.com/lockstep-run/lockstep/localstack/dynamodb"
	"github.com/lockstep-run/lockstep/localstack/loopback"
	"github.com/lockstep-run/lockstep/shared/client"
)

// patience is how long anything may take to come back.
const patience = 60 * time.Second

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

// lease is that of the settings.
const lease = 2 * time.Second

// rig is everything that runs: the devices and the HTTP blocks in this process,
// DynamoDB and the stack as processes of their own.
type rig struct {
	t       *testing.T
	fleet   *simulator.Fleet
	devices *httptest.Server
	blocks  *httptest.Server

	dir    string
	env    []string
	port   int // of the stack
	tables int // port of DynamoDB
	faults string
	*client.Client

	mu      sync.Mutex
	dynamo  *dynamodb.Process
	stack   *child.Process
	counts  map[string]int // what the queues' faults have done, added up over restarts
	log     log
	restart time.Duration // the longest that a stack took to come back
}

// open starts everything, and ends it with the test.
func open(t *testing.T, seed uint64, devices int) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), counts: map[string]int{}}
	r.fleet = simulator.New(simulator.Options{Devices: simulator.Numbered(devices)})
	r.devices = httptest.NewServer(r.fleet.Handler())
	r.blocks = httptest.NewServer(&blocks{
		devices: r.devices.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, mistaken: t.Errorf,
	})
	t.Cleanup(func() {
		r.blocks.CloseClientConnections()
		r.blocks.Close()
		_ = r.fleet.Close() // it keeps no journal
		r.devices.CloseClientConnections()
		r.devices.Close()
	})
	r.port, r.tables = freePort(t), freePort(t)
	r.faults = fmt.Sprintf(`{"seed":%d,"duplicate":0.2,"reorder":0.5,"maxDelayMillis":300,"dropReply":{"*":0.02}}`, seed)
	r.env = append(os.Environ(), "FLEET_URL="+r.devices.URL, fmt.Sprintf("AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:%d", r.tables))
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
	r.serveTables()
	t.Cleanup(func() { _ = r.dynamo.Stop() }) // it has been asked to
	r.serveStack()
	t.Cleanup(func() { r.stack.Stop(15 * time.Second) })
	return r
}

func bin(t testing.TB, name string) string {
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

// serveTables starts DynamoDB on the port and the data it had before. The data
// live in a directory: what has been acknowledged outlives the process.
func (r *rig) serveTables() {
	r.t.Helper()
	p, err := dynamodb.Start(context.Background(), dynamodb.Options{Binary: bin(r.t, "dynoxide"), Dir: filepath.Join(r.dir, "tables"), Port: r.tables})
	if err != nil {
		r.t.Errorf("DynamoDB does not come back: %v", err)
		return
	}
	r.mu.Lock()
	r.dynamo = p
	r.mu.Unlock()
}

// serveStack starts the stack on the port and the data it had before, and turns
// the queues' faults on.
func (r *rig) serveStack() {
	r.t.Helper()
	began := time.Now()
	cmd := exec.Command(bin(r.t, "lockstep"), "dev", "--port", strconv.Itoa(r.port), "--config", filepath.Join(r.dir, "config.yaml"),
		"--data", filepath.Join(r.dir, "data"), "--worker", bin(r.t, "fleet-worker"), "--worker", bin(r.t, "fleet-worker"))
	cmd.Env, cmd.Stderr = r.env, &r.log
	ready := &readyLine{found: make(chan struct{})}
	cmd.Stdout = ready
	p, err := child.Start(cmd)
	if err != nil {
		r.t.Errorf("the stack does not start: %v", err)
		return
	}
	r.mu.Lock()
	r.stack = p
	r.mu.Unlock()
	select {
	case <-ready.found:
	case <-p.Done():
		r.t.Errorf("the stack ended before it was ready:\n%s", r.log.tail(30))
		return
	case <-time.After(patience):
		r.t.Errorf("the stack is not ready after %s:\n%s", patience, r.log.tail(30))
		return
	}
	r.restart = max(r.restart, time.Since(began))
	r.setFaults(r.faults)
}

// setFaults replaces the faults of the stack's own queues.
func (r *rig) setFaults(faults string) {
	r.t.Helper()
	reply, err := http.Post(r.queues()+"/_faults", "application/json", strings.NewReader(faults))
	if err != nil || reply.StatusCode != http.StatusOK {
		r.t.Errorf("the queues' faults cannot be set: %v %v", reply, err)
		return
	}
	_ = reply.Body.Close() // only the status is of interest
}

var queuesURL = regexp.MustCompile(`(?m)^export AWS_ENDPOINT_URL_SQS=(.*)$`)

// queues is where the stack serves its queues; a new place with every start.
func (r *rig) queues() string {
	text, err := os.ReadFile(filepath.Join(r.dir, "data", "worker.env"))
	found := queuesURL.FindSubmatch(text)
	if err != nil || found == nil {
		r.t.Errorf("where are the queues? %v", err)
		return ""
	}
	return string(found[1])
}

// struck adds what the faults have done since the stack's last start. A stack
// that is killed takes its counts with it, so they are read before.
func (r *rig) struck() {
	counts, err := faultCounts(r.queues())
	if err != nil {
		return // it has just died: its last second is not counted
	}
	for what, n := range counts {
		r.counts[what] += n
	}
}

// pids are the processes below the stack whose command line matches.
func (r *rig) pids(pattern string) []int {
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
func (r *rig) killTables(away time.Duration) bool {
	if err := syscall.Kill(r.dynamo.PID(), syscall.SIGKILL); err != nil {
		r.t.Errorf("kill DynamoDB: %v", err)
		return false
	}
	<-r.dynamo.Done()
	time.Sleep(away) // how long it is away is what is tried
	r.serveTables()
	return true
}

// killStack kills the stack; everything that it has started dies with it.
func (r *rig) killStack() bool {
	r.struck()
	_ = syscall.Kill(r.stack.PID(), syscall.SIGKILL) // it may be dead already
	<-r.stack.Done()
	r.serveStack()
	return true
}

// entries are the devices' logs.
func (r *rig) entries() map[string][]devicelog.Entry {
	logs := map[string][]devicelog.Entry{}
	for _, id := range r.fleet.IDs() {
		logs[id] = r.fleet.Log(id)
	}
	return logs
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := loopback.Port(0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// readyLine waits for the line that says that the stack takes requests.
type readyLine struct {
	once  sync.Once
	text  bytes.Buffer
	found chan struct{}
}

func (l *readyLine) Write(p []byte) (int, error) {
	l.text.Write(p)
	lines := bufio.NewScanner(bytes.NewReader(l.text.Bytes()))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "ready ") {
			l.once.Do(func() { close(l.found) })
		}
	}
	return len(p), nil
}

// log keeps the end of what the stack says.
type log struct {
	mu   sync.Mutex
	text []byte
}

const kept = 1 << 20

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if len(l.text) > 2*kept {
		l.text = append([]byte(nil), l.text[len(l.text)-kept:]...)
	}
	return len(p), nil
}

func (l *log) tail(lines int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(string(l.text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
