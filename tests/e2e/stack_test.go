package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// waitTimeout is how long anything in these tests may take before it is a failure.
var waitTimeout = func() time.Duration {
	if deployed.on {
		return 2 * time.Minute // on one emulator for all of them
	}
	return time.Minute
}()

// fastConfig is a configuration in which seconds stand for minutes.
const fastConfig = `
sweepInterval: 1s
job: {lease: 3s, unclaimed: 20s}
lock: {wait: 60s}
log: {level: info}
`

// root is the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func bin(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: run make build", path)
	}
	return path
}

// localStack is one running local stack.
type localStack struct {
	t       testing.TB
	options stackOptions
	cmd     *exec.Cmd
	log     *logBuffer
	url     string
	*client.Client
}

// stackOptions says how to start one.
type stackOptions struct {
	config string   // YAML; quick if empty
	data   string   // directory; none keeps nothing
	env    []string // besides the test's own
	args   []string
	port   int
}

// startStack brings a local stack up and ends it with the test.
func startStack(t testing.TB, o stackOptions) *localStack {
	t.Helper()
	skipUnsupported(t, o)
	if o.config == "" {
		o.config = fastConfig
	}
	s := &localStack{t: t, options: o}
	if deployed.on {
		attachTenant(t, s)
		return s
	}
	s.startProcess()
	t.Cleanup(func() {
		s.stopProcess()
		if t.Failed() {
			t.Logf("log of the stack:\n%s", s.log.tail(200))
		}
	})
	return s
}

func (s *localStack) startProcess() {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(s.options.config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := append([]string{"dev", "--port", strconv.Itoa(s.options.port), "--config", file}, s.options.args...)
	if s.options.data != "" {
		args = append(args, "--data", s.options.data)
	}
	s.cmd = exec.Command(bin(s.t, "lockstep"), args...)
	s.cmd.Env = append(os.Environ(), s.options.env...)
	s.log = &logBuffer{}
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
				ready <- url
			}
		}
		close(ready)
	}()
	select {
	case url, ok := <-ready:
		if !ok {
			_ = s.cmd.Wait()
			s.t.Fatalf("the stack ended before it was ready:\n%s", s.log.tail(50))
		}
		s.url = url
	case <-time.After(waitTimeout):
		s.t.Fatalf("the stack is not ready:\n%s", s.log.tail(50))
	}
	if s.Client, err = client.New(client.Options{URL: s.url}); err != nil {
		s.t.Fatal(err)
	}
}

// stopProcess ends the stack as Ctrl-C does, and fails the test if that takes longer
// than it may.
func (s *localStack) stopProcess() {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	over := make(chan error, 1)
	go func() { over <- s.cmd.Wait() }()
	select {
	case err := <-over:
		if err != nil {
			s.t.Errorf("the stack did not end cleanly: %v", err)
		}
	case <-time.After(15 * time.Second):
		s.t.Error("the stack was still running 15 s after SIGTERM")
		_ = s.cmd.Process.Kill()
	}
}

// kill ends the whole stack at once, as a power cut does, and brings it up again
// on the same port and data.
func (s *localStack) killAndRestart() {
	s.t.Helper()
	requireEmbedded(s.t, "it kills the stack")
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait()
	s.startProcess()
}

// pids are the processes of a function or a worker program below the stack.
func (s *localStack) pids(pattern string) []int {
	requireEmbedded(s.t, "it looks for the stack's processes")
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(s.cmd.Process.Pid), "-f", pattern).Output()
	var pids []int
	for _, word := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll kills all processes that match and reports how many there were.
func (s *localStack) killAll(pattern string) int {
	pids := s.pids(pattern)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids)
}

// clientFor is a client that speaks for another tenant.
func (s *localStack) clientFor(tenant string) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Options{URL: s.url, Tenant: tenant})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// publish publishes a definition.
func (s *localStack) publish(source string) {
	s.t.Helper()
	if _, _, err := s.Publish(s.t.Context(), []byte(source), false); err != nil {
		s.t.Fatalf("publish: %v", err)
	}
}

// importEntities makes n entities e-0001, e-0002, ... of a type.
func (s *localStack) importEntities(kind string, n int) []string {
	s.t.Helper()
	var lines strings.Builder
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("e-%04d", i+1)
		fmt.Fprintf(&lines, `{"type":%q,"id":%q,"attributes":{"n":%d}}`+"\n", kind, ids[i], i+1)
	}
	if _, err := s.ImportEntities(s.t.Context(), strings.NewReader(lines.String())); err != nil {
		s.t.Fatalf("import: %v", err)
	}
	return ids
}

// startExecution starts a run and returns its id.
func (s *localStack) startExecution(ref string, parameters string, ids ...string) string {
	s.t.Helper()
	req := views.StartRequest{Workflow: ref, Parameters: []byte(parameters)}
	if len(ids) > 0 {
		req.ExecuteOnParameters = &workflow.Selector{Type: "device", IDs: ids}
	}
	x, _, err := s.Start(s.t.Context(), req)
	if err != nil {
		s.t.Fatalf("start: %v", err)
	}
	return x.ID
}

// waitForState waits until a run rests in the state.
func (s *localStack) waitForState(id string, in sm.ExecutionState) views.ExecutionView {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTimeout)
	defer cancel()
	x, err := s.Wait(ctx, id, 20*time.Millisecond, nil)
	if err != nil {
		now, _ := s.Execution(context.Background(), id)
		s.t.Fatalf("run %s does not rest (state %s, step %v, waiting %+v): %v\n%s", id, now.State, deref(now.CurrentStep), now.Waiting, err, s.describeUnfinishedJobs(id))
	}
	if x.State != in {
		s.t.Fatalf("run %s rests in %s, want %s; cause %v, error %+v", id, x.State, in, deref(x.Cause), x.Error)
	}
	return x
}

// describeUnfinishedJobs lists the jobs of a run that are not over, to explain a failure.
func (s *localStack) describeUnfinishedJobs(id string) string {
	var lines strings.Builder
	for j, err := range s.Jobs(context.Background(), id, views.JobFilter{}) {
		if err != nil {
			return err.Error()
		}
		if j.EndedAt == nil {
			fmt.Fprintf(&lines, "%s %s %s %v: %s, attempt %d, worker %v, claimed %v\n", j.ID, j.Kind, j.Step, deref(j.Entity), j.State, j.Attempt, deref(j.Worker), deref(j.ClaimedAt))
		}
	}
	return lines.String()
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// freePort is a port that nobody uses now.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := process.FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// eventually polls until ok, or fails.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(10 * time.Millisecond) // a poll, bounded by the deadline above
	}
}

// history reads a run's whole history and checks that it has no gaps and, if the
// run has ended, exactly one terminal event.
func (s *localStack) history(id string) []workflow.Event {
	s.t.Helper()
	var all []workflow.Event
	terminal := 0
	for e, err := range s.History(s.t.Context(), id) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Sequence != int64(len(all)+1) {
			s.t.Errorf("history of %s: event %d follows %d", id, e.Sequence, len(all))
		}
		switch e.Type {
		case "execution.completed", "execution.failed_safe", "execution.failed_unsafe", "execution.cancelled":
			terminal++
		case "execution.retried": // another try, with an end of its own
			if terminal != 1 {
				s.t.Errorf("run %s is tried again after %d terminal events", id, terminal)
			}
			terminal = 0
		}
		all = append(all, e)
	}
	x, err := s.Status(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	if want := map[bool]int{true: 1}[x.TerminalEvent != nil]; terminal != want {
		s.t.Errorf("run %s has %d terminal events, want %d", id, terminal, want)
	}
	return all
}

// stateHistory are those that a run has been in, in order.
func (s *localStack) stateHistory(id string) (states []string) {
	s.t.Helper()
	for _, e := range s.history(id) {
		if e.Layer == "execution" {
			states = append(states, e.To)
		}
	}
	return states
}

// wantNoLocks checks that no live lock names a run.
func (s *localStack) wantNoLocks(id string) {
	s.t.Helper()
	for l, err := range s.Locks(s.t.Context()) {
		if err != nil {
			s.t.Fatal(err)
		}
		if l.HeldBy != nil && *l.HeldBy == id {
			s.t.Errorf("%s is still locked by %s", l.Entity, id)
		}
	}
}

// sendRaw sends a raw request, for what the client would never send.
func (s *localStack) sendRaw(method, path, contentType, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(reply.Body); err != nil {
		s.t.Fatal(err)
	}
	return reply.StatusCode, text.String()
}

// logBuffer collects a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) tail(lines int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Split(b.text.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
