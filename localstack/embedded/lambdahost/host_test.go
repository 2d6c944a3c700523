package lambdahost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// bootstrap is the path of the built function.
var bootstrap string

func TestMain(m *testing.M) {
	if binary := os.Getenv("LAMBDAHOST_TEST_HOST"); binary != "" {
		runHostProcess(binary)
	}
	dir, err := os.MkdirTemp("", "lambdahost")
	if err != nil {
		panic(err)
	}
	bootstrap = filepath.Join(dir, "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", bootstrap, "./testdata/bootstrap")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// runHostProcess runs the host that TestHost_ChildrenDieWithHost kills.
func runHostProcess(binary string) {
	h := lambdahost.New(lambdahost.Options{})
	fn, err := h.Deploy(lambdahost.Function{Name: "child", Binary: binary, ProvisionedConcurrency: 2, Timeout: time.Hour})
	if err == nil {
		err = fn.Ready(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for len(fn.Processes()) < 2 {
		time.Sleep(time.Millisecond)
	}
	// One process is in the middle of an invocation.
	go fn.Invoke(context.Background(), event("wait", os.Getenv("MARK")))
	for !exists(os.Getenv("MARK") + ".begun") {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(fn.Processes())
	select {}
}

func newHost(t *testing.T, o lambdahost.Options) (*lambdahost.Host, *testkit.Buffer) {
	t.Helper()
	log := &testkit.Buffer{}
	o.Log = log
	if o.Backoff == 0 {
		o.Backoff = 10 * time.Millisecond
	}
	h := lambdahost.New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return h, log
}

func deploy(t *testing.T, h *lambdahost.Host, f lambdahost.Function) *lambdahost.DeployedFunction {
	t.Helper()
	if f.Name == "" {
		f.Name = "fn"
	}
	if f.Timeout == 0 {
		f.Timeout = 30 * time.Second
	}
	f.Binary = bootstrap
	fn, err := h.Deploy(f)
	if err != nil {
		t.Fatal(err)
	}
	return fn
}

func event(do, text string) []byte {
	b, _ := json.Marshal(map[string]string{"do": do, "text": text})
	return b
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// wantFunctionError checks that err is a FunctionError of a type.
func wantFunctionError(t *testing.T, err error, kind string) *lambdahost.FunctionError {
	t.Helper()
	var fe *lambdahost.FunctionError
	if !errors.As(err, &fe) || fe.Type != kind {
		t.Fatalf("got error %v, want one of type %s", err, kind)
	}
	return fe
}

type functionReply struct {
	Env             []string
	Request         string
	ARN             string
	RemainingMillis int64
	PID             int
	Served          int
	Trace           string
	Text            string
}

func mustInvoke(t *testing.T, fn *lambdahost.DeployedFunction, payload []byte) functionReply {
	t.Helper()
	reply, err := fn.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	var r functionReply
	if err := json.Unmarshal(reply, &r); err != nil {
		t.Fatalf("%s: %v", reply, err)
	}
	return r
}

func TestDeployedFunction_EnvironmentMatchesAWS(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{Region: "eu-central-1", Account: "123456789012"})
	t.Setenv("SECRET_OF_THE_HOST", "1")
	fn := deploy(t, h, lambdahost.Function{
		Name: "api", MemoryMB: 256,
		Env: []string{"TABLE=t1", "AWS_ACCESS_KEY_ID=mine", "AWS_LAMBDA_FUNCTION_NAME=forged"},
	})
	a := mustInvoke(t, fn, event("about", ""))
	last := func(key string) (value string) {
		for _, e := range a.Env {
			if v, ok := strings.CutPrefix(e, key+"="); ok {
				value = v
			}
		}
		return value
	}
	for key, want := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_LAMBDA_FUNCTION_NAME": "api", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
		"AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "LAMBDA_TASK_ROOT": filepath.Dir(bootstrap), "_HANDLER": "bootstrap",
		"TABLE": "t1", "AWS_ACCESS_KEY_ID": "mine", "SECRET_OF_THE_HOST": "",
	} {
		if got := last(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if a.ARN != "arn:aws:lambda:eu-central-1:123456789012:function:api" {
		t.Errorf("arn %s", a.ARN)
	}
	if len(a.Request) != 36 || !strings.HasPrefix(a.Trace, "Root=1-") {
		t.Errorf("request %q, trace %q", a.Request, a.Trace)
	}
	if a.RemainingMillis <= 0 || a.RemainingMillis > 30_000 {
		t.Errorf("%d ms of 30 s remain", a.RemainingMillis)
	}
	if b := mustInvoke(t, fn, event("about", "")); b.PID != a.PID || b.Served != 2 || b.Request == a.Request {
		t.Errorf("second invocation: %d in process %d, first was in %d", b.Served, b.PID, a.PID)
	}
	if c := fn.Counts(); c.Invocations != 2 || c.Starts != 1 || c.Errors != 0 {
		t.Errorf("counts %+v", c)
	}
}

// The Runtime API of a process is for that program: another one that finds its port gets no event of it
// and answers none, nor does a page in a browser, also not under a name of its own.
func TestDeployedFunction_RuntimeAPIRefusesOthers(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{Name: "api"})
	address, secret := "", ""
	for _, e := range mustInvoke(t, fn, event("about", "")).Env {
		if v, ok := strings.CutPrefix(e, "AWS_LAMBDA_RUNTIME_API="); ok {
			address, secret, _ = strings.Cut(v, "/")
		}
	}
	for name, c := range map[string]struct {
		host, path, origin string
		want               int
	}{
		"the program":      {address, secret, "", http.StatusBadRequest}, // it names no invocation
		"another program":  {address, "", "", http.StatusNotFound},
		"one that guesses": {address, strings.Repeat("A", len(secret)), "", http.StatusNotFound},
		"a page":           {address, secret, "https://evil.example", http.StatusForbidden},
		"another name":     {"evil.example", secret, "", http.StatusForbidden},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+path.Join(address, c.path, "2018-06-01/runtime/invocation/x/response"), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close() // only the status matters
		if reply.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, reply.StatusCode, c.want)
		}
	}
}

func TestDeployedFunction_ErrorKeepsProcessPanicReplacesIt(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{})
	first := mustInvoke(t, fn, event("about", ""))

	_, err := fn.Invoke(t.Context(), event("error", "x"))
	if fe := wantFunctionError(t, err, "errorString"); fe.Message != "it went wrong: x" {
		t.Errorf("message %q", fe.Message)
	}
	if a := mustInvoke(t, fn, event("about", "")); a.PID != first.PID {
		t.Errorf("an error replaced process %d with %d", first.PID, a.PID)
	}
	_, err = fn.Invoke(t.Context(), event("panic", ""))
	if fe := wantFunctionError(t, err, "string"); !strings.Contains(string(fe.Stack), "handle") {
		t.Errorf("stack %s", fe.Stack)
	}
	if a := mustInvoke(t, fn, event("about", "")); a.PID == first.PID {
		t.Error("the process still serves after a panic")
	}
	if c := fn.Counts(); c.Errors != 2 || c.Starts != 2 {
		t.Errorf("counts %+v", c)
	}
}

// The alarms on errors of functions are raised by five within five minutes, by panics and by errors that a handler
// returns, and not by four. What AWS counts as an error is what this host counts.
func TestAlarm_FunctionErrors(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{})
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failures int
		fires    bool
	}{{4, false}, {5, true}} {
		before, values := fn.Counts().Errors, []testkit.Measured{}
		for i := range c.failures {
			counted := fn.Counts().Errors
			if _, err := fn.Invoke(t.Context(), event([]string{"error", "panic"}[i%2], "x")); err == nil {
				t.Fatal("the function does not fail")
			}
			mustInvoke(t, fn, event("about", "")) // counts as no error
			values = append(values, testkit.Measured{At: begin.Add(time.Duration(i) * time.Minute), Value: int(fn.Counts().Errors - counted)})
		}
		if n := int(fn.Counts().Errors - before); n != c.failures {
			t.Errorf("%d failures count as %d errors", c.failures, n)
		}
		for _, name := range []string{"ApiErrors", "LifecycleErrors", "ObserverErrors", "SweeperErrors", "WorkerErrors"} {
			if got := testkit.ReadAlarm(t, name).Fires(values); got != c.fires {
				t.Errorf("%s, %d failures: raised %v, want %v", name, c.failures, got, c.fires)
			}
		}
	}
}

func TestDeployedFunction_TimeoutReplacesProcess(t *testing.T) {
	h, log := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{Timeout: 150 * time.Millisecond, MaxConcurrency: 1})
	first := mustInvoke(t, fn, event("", ""))
	_, err := fn.Invoke(t.Context(), event("wait", filepath.Join(t.TempDir(), "never")))
	if fe := wantFunctionError(t, err, lambdahost.TypeTimeout); !strings.Contains(fe.Message, "timed out after 0.15 seconds") {
		t.Errorf("message %q", fe.Message)
	}
	if a := mustInvoke(t, fn, event("", "")); a.PID == first.PID {
		t.Error("the process still serves after its deadline")
	}
	testkit.Eventually(t, "the process is killed", func() bool { return !testkit.Alive(first.PID) })
	if !strings.Contains(log.String(), "fn | lambdahost: Sandbox.Timedout") {
		t.Error("the timeout was not logged")
	}
}

func TestDeployedFunction_ExitDuringInvocationFailsIt(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{})
	_, err := fn.Invoke(t.Context(), event("exit", ""))
	if fe := wantFunctionError(t, err, lambdahost.TypeExit); !strings.Contains(fe.Message, "exit status 7") || !lambdahost.Interrupted(err) {
		t.Errorf("message %q", fe.Message)
	}
	mustInvoke(t, fn, event("", ""))
}

// R22: a worker is killed with kill -9, busy or idle.
func TestDeployedFunction_RecoversFromSIGKILL(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{ProvisionedConcurrency: 1, MaxConcurrency: 1})
	if err := fn.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy := fn.Processes()
	mark := filepath.Join(t.TempDir(), "mark")
	result := make(chan error, 1)
	go func() {
		_, err := fn.Invoke(t.Context(), event("wait", mark))
		result <- err
	}()
	testkit.Eventually(t, "the invocation has begun", func() bool { return exists(mark + ".begun") })
	syscall.Kill(busy[0], syscall.SIGKILL)
	if fe := wantFunctionError(t, <-result, lambdahost.TypeExit); !strings.Contains(fe.Message, "killed") {
		t.Errorf("message %q", fe.Message)
	}
	testkit.Eventually(t, "another process replaces it", func() bool {
		now := fn.Processes()
		return len(now) == 1 && now[0] != busy[0]
	})
	// Killed while idle: at most one invocation fails, and none is lost.
	for range 5 {
		idle := fn.Processes()
		if len(idle) > 0 {
			syscall.Kill(idle[0], syscall.SIGKILL)
		}
		if _, err := fn.Invoke(t.Context(), event("", "")); err != nil {
			wantFunctionError(t, err, lambdahost.TypeExit)
		}
	}
	testkit.Eventually(t, "the function works again", func() bool {
		_, err := fn.Invoke(t.Context(), event("", ""))
		return err == nil
	})
}

func TestDeployedFunction_BoundsConcurrency(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 3})
	dir := t.TempDir()
	var group sync.WaitGroup
	var mu sync.Mutex
	pids := map[int]int{}
	for i := range 5 {
		group.Go(func() {
			a := mustInvoke(t, fn, event("wait", filepath.Join(dir, strconv.Itoa(i))))
			mu.Lock()
			defer mu.Unlock()
			pids[a.PID]++
		})
	}
	begun := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, "*.begun"))
		return found
	}
	testkit.Eventually(t, "three have begun", func() bool { return len(begun()) == 3 })
	if n := len(fn.Processes()); n != 3 {
		t.Errorf("%d processes", n)
	}
	for i := range 5 {
		os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
	}
	group.Wait()
	if len(begun()) != 5 || len(pids) > 3 {
		t.Errorf("%d invocations begun, in processes %v", len(begun()), pids)
	}
}

func TestDeployedFunction_InvocationOutlivesCaller(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 1})
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := fn.Invoke(ctx, event("wait", mark)); first <- err }()
	testkit.Eventually(t, "the invocation has begun", func() bool { return exists(mark + ".begun") })

	waiting, stop := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := fn.Invoke(waiting, event("exit", "")); second <- err }()
	stop()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the waiting caller got %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller got %v", err)
	}
	pid := fn.Processes()
	os.WriteFile(mark, nil, 0o600)
	// The invocation that had begun finished; the one that waited never began.
	if a := mustInvoke(t, fn, event("about", "")); a.Served != 2 || !slices.Equal(pid, []int{a.PID}) {
		t.Errorf("process %d has served %d invocations, want process %v and 2", a.PID, a.Served, pid)
	}
}

func TestDeployedFunction_ReapsIdleDownToProvisioned(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{IdleTimeout: 50 * time.Millisecond})
	fn := deploy(t, h, lambdahost.Function{ProvisionedConcurrency: 1, MaxConcurrency: 4})
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 4 {
		mark := filepath.Join(dir, strconv.Itoa(i))
		group.Go(func() { mustInvoke(t, fn, event("wait", mark)) })
	}
	testkit.Eventually(t, "four processes", func() bool { return len(fn.Processes()) == 4 })
	for i := range 4 {
		os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
	}
	group.Wait()
	testkit.Eventually(t, "one process is left", func() bool { return len(fn.Processes()) == 1 })
	starts := fn.Counts().Starts
	mustInvoke(t, fn, event("", ""))
	if c := fn.Counts(); c.Starts != starts {
		t.Error("the provisioned process was not used")
	}
}

func TestDeployedFunction_RejectsLargeReply(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{})
	_, err := fn.Invoke(t.Context(), []byte(`{"do":"large","size":7000000}`))
	wantFunctionError(t, err, lambdahost.TypeTooLarge)
	reply, err := fn.Invoke(t.Context(), []byte(`{"do":"large","size":5000000}`))
	if err != nil || len(reply) != 5000002 {
		t.Errorf("%d bytes, %v", len(reply), err)
	}
}

func TestHost_LogLinesNameTheFunction(t *testing.T) {
	h, log := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{Name: "printer"})
	mustInvoke(t, fn, event("print", "one\ntwo\nhalf"))
	testkit.Eventually(t, "two lines in the log", func() bool { return strings.Contains(log.String(), "printer | one\nprinter | two\n") })
	fn.Invoke(t.Context(), event("exit", ""))
	testkit.Eventually(t, "the unfinished line in the log", func() bool { return strings.Contains(log.String(), "printer | half\n") })
}

func TestHost_ChildrenDieWithHost(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Log("only Linux kills children with their parent")
		return
	}
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), "LAMBDAHOST_TEST_HOST="+bootstrap, "MARK="+filepath.Join(t.TempDir(), "mark"))
	line := testkit.StartAndReadLine(t, host)
	var pids []int
	for _, f := range strings.Fields(strings.Trim(line, "[]")) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("the host printed %q", line)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 || !testkit.Alive(pids[0]) || !testkit.Alive(pids[1]) {
		t.Fatalf("processes %v", pids)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the children are killed", func() bool { return !testkit.Alive(pids[0]) && !testkit.Alive(pids[1]) })
}

func TestDeployedFunction_ListsProcessesOnceReady(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	var group sync.WaitGroup
	for i := range 24 {
		fn := deploy(t, h, lambdahost.Function{Name: "fn" + strconv.Itoa(i)})
		group.Go(func() {
			if err := fn.Ready(t.Context()); err != nil {
				t.Error(err)
			}
			if pids := fn.Processes(); len(pids) != 1 {
				t.Errorf("a ready function has the processes %v", pids)
			}
		})
	}
	group.Wait()
}

func TestHost_CloseDrainsThenTerminatesThenKills(t *testing.T) {
	log := &testkit.Buffer{}
	h := lambdahost.New(lambdahost.Options{Log: log, DrainTimeout: 5 * time.Second, TerminationGrace: 50 * time.Millisecond})
	good := deploy(t, h, lambdahost.Function{Name: "good"})
	stubborn := deploy(t, h, lambdahost.Function{Name: "stubborn", ProvisionedConcurrency: 1, Env: []string{"START=stubborn"}})
	if err := stubborn.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids := stubborn.Processes()
	mark := filepath.Join(t.TempDir(), "mark")
	result := make(chan error, 1)
	go func() { _, err := good.Invoke(t.Context(), event("wait", mark)); result <- err }()
	testkit.Eventually(t, "the invocation has begun", func() bool { return exists(mark + ".begun") })
	closed := make(chan error, 1)
	go func() { closed <- h.Close(t.Context()) }()
	testkit.Eventually(t, "new invocations are rejected", func() bool {
		_, err := stubborn.Invoke(t.Context(), event("", ""))
		return errors.Is(err, lambdahost.ErrClosed)
	})
	os.WriteFile(mark, nil, 0o600)
	if err := <-result; err != nil {
		t.Errorf("the running invocation was aborted: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if testkit.Alive(pids[0]) || len(good.Processes())+len(stubborn.Processes()) > 0 {
		t.Error("a process still runs")
	}
	if _, err := h.Deploy(lambdahost.Function{Name: "other", Binary: bootstrap}); !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("deploy after Close: %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestHost_CloseAbortsAfterDrainTimeout(t *testing.T) {
	h := lambdahost.New(lambdahost.Options{Log: &testkit.Buffer{}, DrainTimeout: 20 * time.Millisecond, TerminationGrace: time.Second})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 1})
	mark := filepath.Join(t.TempDir(), "mark")
	running, waiting := make(chan error, 1), make(chan error, 1)
	go func() { _, err := fn.Invoke(t.Context(), event("wait", mark)); running <- err }()
	testkit.Eventually(t, "the invocation has begun", func() bool { return exists(mark + ".begun") })
	go func() { _, err := fn.Invoke(t.Context(), event("", "")); waiting <- err }()
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	wantFunctionError(t, <-running, lambdahost.TypeExit)
	if err := <-waiting; !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("the waiting invocation got %v", err)
	}
}

func TestHost_DeployRejectsInvalidFunctions(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	for _, f := range []lambdahost.Function{
		{Binary: bootstrap},
		{Name: "x"},
		{Name: "x", Binary: bootstrap + "-missing"},
		{Name: "x", Binary: bootstrap, ProvisionedConcurrency: 20},
		{Name: "x", Binary: bootstrap, Timeout: -1},
	} {
		if _, err := h.Deploy(f); err == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
	deploy(t, h, lambdahost.Function{Name: "duplicate"})
	if _, err := h.Deploy(lambdahost.Function{Name: "duplicate", Binary: bootstrap}); err == nil {
		t.Error("a second function of the same name was accepted")
	}
}
