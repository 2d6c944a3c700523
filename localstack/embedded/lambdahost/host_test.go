package lambdahost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
)

// bootstrap is the path of the built test function.
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

// runHostProcess is the process that TestHost_ChildrenDieWithHost kills.
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
	// One is in the middle of an invocation.
	go fn.Invoke(context.Background(), event("wait", os.Getenv("MARK")))
	for exists(os.Getenv("MARK")+".begun") == false {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(fn.Processes())
	select {}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newHost(t *testing.T, o lambdahost.Options) (*lambdahost.Host, *safeBuffer) {
	t.Helper()
	log := &safeBuffer{}
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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func alive(pid int) bool {
	// A zombie still has a pid; only one that runs counts.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrPermission) || !exists("/proc/self") && syscall.Kill(pid, 0) == nil
	}
	return !bytes.Contains(stat, []byte(") Z "))
}

// wantFunctionError asserts that err is a FunctionError of a type.
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
	var a functionReply
	if err := json.Unmarshal(reply, &a); err != nil {
		t.Fatalf("%s: %v", reply, err)
	}
	return a
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
		t.Errorf("%d ms left of 30 s", a.RemainingMillis)
	}
	if b := mustInvoke(t, fn, event("about", "")); b.PID != a.PID || b.Served != 2 || b.Request == a.Request {
		t.Errorf("second invocation: %d in process %d, first was in %d", b.Served, b.PID, a.PID)
	}
	if c := fn.Counts(); c.Invocations != 2 || c.Starts != 1 || c.Errors != 0 {
		t.Errorf("counts %+v", c)
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
		t.Errorf("an error replaced process %d by %d", first.PID, a.PID)
	}
	_, err = fn.Invoke(t.Context(), event("panic", ""))
	if fe := wantFunctionError(t, err, "string"); !strings.Contains(string(fe.Stack), "handle") {
		t.Errorf("stack %s", fe.Stack)
	}
	if a := mustInvoke(t, fn, event("about", "")); a.PID == first.PID {
		t.Error("a panic left its process in service")
	}
	if c := fn.Counts(); c.Errors != 2 || c.Starts != 2 {
		t.Errorf("counts %+v", c)
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
		t.Error("the process outlived its deadline")
	}
	eventually(t, "the process is dead", func() bool { return !alive(first.PID) })
	if !strings.Contains(log.String(), "fn | lambdahost: Sandbox.Timedout") {
		t.Error("the timeout was not reported")
	}
}

func TestDeployedFunction_ExitDuringInvocationFailsIt(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{})
	_, err := fn.Invoke(t.Context(), event("exit", ""))
	if fe := wantFunctionError(t, err, lambdahost.TypeExit); !strings.Contains(fe.Message, "exit status 7") {
		t.Errorf("message %q", fe.Message)
	}
	mustInvoke(t, fn, event("", ""))
}

// R22 starts like this: a worker is killed with kill -9, busy or idle.
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
	eventually(t, "it has begun", func() bool { return exists(mark + ".begun") })
	syscall.Kill(busy[0], syscall.SIGKILL)
	if fe := wantFunctionError(t, <-result, lambdahost.TypeExit); !strings.Contains(fe.Message, "killed") {
		t.Errorf("message %q", fe.Message)
	}
	eventually(t, "a warm one replaces it", func() bool {
		now := fn.Processes()
		return len(now) == 1 && now[0] != busy[0]
	})
	// Killed while idle: at worst one invocation notices, and none is lost.
	for range 5 {
		idle := fn.Processes()
		if len(idle) > 0 {
			syscall.Kill(idle[0], syscall.SIGKILL)
		}
		if _, err := fn.Invoke(t.Context(), event("", "")); err != nil {
			wantFunctionError(t, err, lambdahost.TypeExit)
		}
	}
	eventually(t, "it works again", func() bool {
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
	eventually(t, "three have begun", func() bool { return len(begun()) == 3 })
	if n := len(fn.Processes()); n != 3 {
		t.Errorf("%d processes", n)
	}
	for i := range 5 {
		os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
	}
	group.Wait()
	if len(begun()) != 5 || len(pids) > 3 {
		t.Errorf("%d begun, by processes %v", len(begun()), pids)
	}
}

func TestDeployedFunction_InvocationOutlivesCaller(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 1})
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := fn.Invoke(ctx, event("wait", mark)); first <- err }()
	eventually(t, "it has begun", func() bool { return exists(mark + ".begun") })

	waiting, stop := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := fn.Invoke(waiting, event("exit", "")); second <- err }()
	stop()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting caller got %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("first caller got %v", err)
	}
	pid := fn.Processes()
	os.WriteFile(mark, nil, 0o600)
	// What had begun went on to its end; what had not, never began.
	if a := mustInvoke(t, fn, event("about", "")); a.Served != 2 || !slices.Equal(pid, []int{a.PID}) {
		t.Errorf("process %d has served %d, want %v and 2", a.PID, a.Served, pid)
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
	eventually(t, "four processes", func() bool { return len(fn.Processes()) == 4 })
	for i := range 4 {
		os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
	}
	group.Wait()
	eventually(t, "one is left", func() bool { return len(fn.Processes()) == 1 })
	starts := fn.Counts().Starts
	mustInvoke(t, fn, event("", ""))
	if c := fn.Counts(); c.Starts != starts {
		t.Error("the warm one was not used")
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
	fn := deploy(t, h, lambdahost.Function{Name: "talker"})
	mustInvoke(t, fn, event("say", "one\ntwo\nhalf"))
	eventually(t, "lines", func() bool { return strings.Contains(log.String(), "talker | one\ntalker | two\n") })
	fn.Invoke(t.Context(), event("exit", ""))
	eventually(t, "the last line", func() bool { return strings.Contains(log.String(), "talker | half\n") })
}

func TestHost_ChildrenDieWithHost(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Log("only Linux kills children with their parent: nothing to see here")
		return
	}
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), "LAMBDAHOST_TEST_HOST="+bootstrap, "MARK="+filepath.Join(t.TempDir(), "mark"))
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	buf := make([]byte, 200)
	n, _ := out.Read(buf)
	for _, f := range strings.Fields(strings.Trim(strings.TrimSpace(string(buf[:n])), "[]")) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("the host said %q", buf[:n])
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 || !alive(pids[0]) || !alive(pids[1]) {
		t.Fatalf("processes %v", pids)
	}
	host.Process.Kill()
	host.Wait()
	eventually(t, "the children are dead", func() bool { return !alive(pids[0]) && !alive(pids[1]) })
}

func TestHost_CloseDrainsThenTerminatesThenKills(t *testing.T) {
	log := &safeBuffer{}
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
	eventually(t, "it has begun", func() bool { return exists(mark + ".begun") })
	closed := make(chan error, 1)
	go func() { closed <- h.Close(t.Context()) }()
	eventually(t, "new work is refused", func() bool {
		_, err := stubborn.Invoke(t.Context(), event("", ""))
		return errors.Is(err, lambdahost.ErrClosed)
	})
	os.WriteFile(mark, nil, 0o600)
	if err := <-result; err != nil {
		t.Errorf("work under way was not let end: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if alive(pids[0]) || len(good.Processes())+len(stubborn.Processes()) > 0 {
		t.Error("a process is left")
	}
	if _, err := h.Deploy(lambdahost.Function{Name: "late", Binary: bootstrap}); !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("deploy after close: %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestHost_CloseAbortsAfterDrainTimeout(t *testing.T) {
	h := lambdahost.New(lambdahost.Options{Log: &safeBuffer{}, DrainTimeout: 20 * time.Millisecond, TerminationGrace: time.Second})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 1})
	mark := filepath.Join(t.TempDir(), "mark")
	busy, waits := make(chan error, 1), make(chan error, 1)
	go func() { _, err := fn.Invoke(t.Context(), event("wait", mark)); busy <- err }()
	eventually(t, "it has begun", func() bool { return exists(mark + ".begun") })
	go func() { _, err := fn.Invoke(t.Context(), event("", "")); waits <- err }()
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	wantFunctionError(t, <-busy, lambdahost.TypeExit)
	if err := <-waits; !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("who waited got %v", err)
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
	deploy(t, h, lambdahost.Function{Name: "twice"})
	if _, err := h.Deploy(lambdahost.Function{Name: "twice", Binary: bootstrap}); err == nil {
		t.Error("the same name was accepted twice")
	}
}
