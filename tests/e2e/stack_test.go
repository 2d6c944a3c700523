package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// waitTimeout is how long these tests wait for anything.
var waitTimeout = func() time.Duration {
	if deployed.on {
		return 5 * time.Minute // all tests share one emulator, and its sweep comes once a minute
	}
	return time.Minute
}()

// fastConfig shortens minutes to seconds.
const fastConfig = `
sweepInterval: 1s
job: {lease: 3s, unclaimed: 20s}
lock: {wait: 60s}
log: {level: info}
`

// localStack is a running local stack.
type localStack struct {
	t       testing.TB
	options stackOptions
	program *testkit.Program // nil if it is deployed
	log     *testkit.Buffer  // of the last start
	logs    []*testkit.Buffer
	url     string
	*client.Client
}

// stackOptions are the options of a local stack.
type stackOptions struct {
	config string   // YAML; "" means fastConfig
	data   string   // directory; "" for one of its own
	env    []string // added to the test's environment
	args   []string
	port   int
}

// startStack starts a local stack and stops it with the test.
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
	suiteScan.watch(t, &s.options)
	s.startProcess()
	t.Cleanup(func() {
		suiteScan.export(t, s)
		s.stopProcess()
		suiteScan.keep(t, s.options.data, s.logs)
		if t.Failed() {
			t.Logf("log of the stack:\n%s", s.log.Tail(200))
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
	cmd := exec.Command(testkit.Binary(s.t, "lockstep"), args...)
	cmd.Env = append(os.Environ(), s.options.env...)
	s.log = &testkit.Buffer{}
	s.logs = append(s.logs, s.log)
	var err error
	if s.program, err = testkit.StartProgram(cmd, s.log, waitTimeout); err != nil {
		s.t.Fatal(err)
	}
	s.url = s.program.URL
	if s.Client, err = client.New(client.Options{URL: s.url}); err != nil {
		s.t.Fatal(err)
	}
}

// stopProcess stops the stack, unless it has ended, and fails the test if it takes more
// than 15 s or does not end cleanly.
func (s *localStack) stopProcess() {
	if s.program == nil {
		return
	}
	select {
	case <-s.program.Done():
		return
	default:
	}
	if err := s.program.Terminate(15 * time.Second); err != nil {
		s.t.Errorf("stop the stack: %v", err)
	}
}

// killAndRestart kills the whole stack, like a power loss, and starts it again on the same
// port and data.
func (s *localStack) killAndRestart() {
	s.t.Helper()
	requireEmbedded(s.t, "it kills the stack")
	s.program.Kill()
	s.startProcess()
}

// pids lists the processes of a function or a worker program of the stack.
func (s *localStack) pids(pattern string) []int {
	requireEmbedded(s.t, "it needs the stack's processes")
	return testkit.ChildPIDs(s.program.PID(), pattern)
}

// killAll kills all processes that match and reports how many there were.
func (s *localStack) killAll(pattern string) int {
	pids := s.pids(pattern)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids)
}

// clientFor is a client of another tenant.
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

// importEntities imports n entities e-0001, e-0002, ... of a type.
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

// startExecution starts an execution and returns its id.
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

// waitForState waits until an execution is idle and checks its state.
func (s *localStack) waitForState(id string, in sm.ExecutionState) views.ExecutionView {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTimeout)
	defer cancel()
	x, err := s.Wait(ctx, id, 20*time.Millisecond, nil)
	if err != nil {
		now, _ := s.Execution(context.Background(), id)
		s.t.Fatalf("execution %s does not become idle (state %s, step %v, waiting %+v): %v\n%s", id, now.State, deref(now.CurrentStep), now.Waiting, err, s.describeUnfinishedJobs(id))
	}
	if x.State != in {
		s.t.Fatalf("execution %s is in %s, want %s; cause %v, error %+v", id, x.State, in, deref(x.Cause), x.Error)
	}
	return x
}

// describeUnfinishedJobs lists the unfinished jobs of an execution, to explain a failure.
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

// eventually polls a condition and fails the test if it stays false.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	testkit.EventuallyWithin(t, waitTimeout, 10*time.Millisecond, what, condition)
}

// history reads an execution's whole history and checks that it has no gaps and, after
// the end, exactly one terminal event.
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
		case "execution.retried": // the next try has its own end
			if terminal != 1 {
				s.t.Errorf("execution %s was retried after %d terminal events", id, terminal)
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
		s.t.Errorf("execution %s has %d terminal events, want %d", id, terminal, want)
	}
	return all
}

// stateHistory lists the states of an execution, in order.
func (s *localStack) stateHistory(id string) (states []string) {
	s.t.Helper()
	for _, e := range s.history(id) {
		if e.Layer == "execution" {
			states = append(states, e.To)
		}
	}
	return states
}

// wantNoLocks checks that no lock names an execution.
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

// sendRaw sends a request that the client would never send.
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
