package lambdahost

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

// environment is one process and the listener of its Runtime API.
//
// Lock order: DeployedFunction.mu before environment.mu.
type environment struct {
	fn       *DeployedFunction
	seq      int64            // number among the function's environments, from 1
	assigned chan *invocation // holds at most one, from assign to handleNext
	exited   chan struct{}    // closed when the process has been reaped

	idleSince time.Time // guarded by DeployedFunction.mu, like idledOut
	idledOut  bool      // stopped because it was idle

	mu           sync.Mutex
	proc         *os.Process
	terminating  bool           // terminate was called; a process that starts late is killed
	initialized  bool           // has asked for an event, so its start succeeded
	terminated   bool           // has been reaped; nothing may be delivered
	servedCount  int            // finished invocations
	initErr      *FunctionError // posted to init/error
	killed       *FunctionError // why the host killed it
	current      *invocation    // delivered, until the next request for an event
	currentSince time.Time      // when current was delivered
	timer        *time.Timer    // deadline of current, or of the start
}

func (e *environment) pid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil {
		return 0
	}
	return e.proc.Pid
}

// assign passes an invocation to an environment that has asked for an event.
func (e *environment) assign(v *invocation) { e.assigned <- v }

// run runs an environment until its process has been reaped.
func (e *environment) run() {
	exit, err := e.runProcess()
	e.mu.Lock()
	if e.timer != nil {
		e.timer.Stop()
	}
	e.proc, e.terminated = nil, true
	end := environmentExit{env: e, diedIdle: e.initialized && e.servedCount == 0 && e.current == nil && !e.terminating}
	v, killed := e.current, e.killed
	e.current = nil
	if !e.initialized {
		switch {
		case e.initErr != nil:
			end.initErr = e.initErr
		case killed != nil:
			end.initErr = killed
		case err != nil:
			end.initErr = &FunctionError{Type: TypeNoEntrypoint, Message: err.Error()}
		default:
			end.initErr = &FunctionError{Type: TypeExit, Message: "Error: Runtime exited during its start: " + exit}
		}
	}
	e.mu.Unlock()
	if v != nil {
		e.recordDuration()
		if killed == nil {
			killed = &FunctionError{Type: TypeExit, Message: "RequestId: " + v.id + " Error: Runtime exited: " + exit}
		}
		if v.finish(nil, killed) {
			e.fn.host.log.logf(e.fn.spec.Name, "%v", killed)
		}
	}
	e.fn.environmentExited(end)
	close(e.exited)
}

// environmentExit tells the pool how an environment ended.
type environmentExit struct {
	env      *environment
	initErr  *FunctionError // why it never asked for an event
	diedIdle bool           // it exited by itself before its first event
}

// runProcess starts the process, serves it and returns how it ended, or an error if it
// could not be started.
func (e *environment) runProcess() (exit string, err error) {
	h := e.fn.host
	listener, err := process.ListenLoopback("")
	if err != nil {
		return "", err
	}
	secret := "/" + rand.Text() // which only the process knows: it is in its environment
	server := &http.Server{Handler: process.ProgramsOnly(listener.Addr().String(), http.StripPrefix(secret, e.runtimeAPI())), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()

	spec := e.fn.spec
	cmd := exec.Command(spec.Binary)
	cmd.Env = e.fn.environ(listener.Addr().String()+secret, newID())
	cmd.Dir = filepath.Dir(spec.Binary)
	out := h.log.writer(spec.Name)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild may keep the pipe open
	cmd.SysProcAttr = process.GroupAttr()
	e.mu.Lock() // until proc is set: the process may ask for an event before this goroutine goes on
	if err := h.startProcess(cmd); err != nil {
		e.mu.Unlock()
		return "", err
	}
	e.proc = cmd.Process
	if e.terminating {
		process.SignalGroup(e.proc.Pid, syscall.SIGKILL)
	}
	if !e.initialized {
		e.timer = time.AfterFunc(h.opts.InitTimeout, func() {
			e.kill(func() bool { return !e.initialized }, &FunctionError{
				Type:    TypeTimeout,
				Message: fmt.Sprintf("Error: start timed out after %.2f seconds", h.opts.InitTimeout.Seconds()),
			})
		})
	}
	e.mu.Unlock()
	_ = cmd.Wait()                                        // ProcessState has the result
	process.SignalGroup(cmd.Process.Pid, syscall.SIGKILL) // its own children
	out.Flush()
	return cmd.ProcessState.String(), nil
}

// kill kills the process if the condition still holds.
func (e *environment) kill(condition func() bool, reason *FunctionError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil || e.killed != nil || !condition() {
		return
	}
	e.killed = reason
	process.SignalGroup(e.proc.Pid, syscall.SIGKILL)
}

// terminate sends SIGTERM, then SIGKILL after the grace period or when ctx ends, and
// waits until the process has been reaped.
func (e *environment) terminate(ctx context.Context) {
	e.mu.Lock()
	e.terminating = true
	proc := e.proc
	if proc != nil {
		process.SignalGroup(proc.Pid, syscall.SIGTERM)
	}
	e.mu.Unlock()
	grace := time.NewTimer(e.fn.host.opts.TerminationGrace)
	defer grace.Stop()
	select {
	case <-e.exited:
		return
	case <-grace.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	if e.proc != nil {
		process.SignalGroup(e.proc.Pid, syscall.SIGKILL)
	}
	e.mu.Unlock()
	<-e.exited
}

// recordDuration adds the duration of the current invocation.
func (e *environment) recordDuration() {
	e.fn.counts.micros.Add(time.Since(e.currentSince).Microseconds())
}
