package lambdahost

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// environment is one process and the listener through which it is served.
//
// Lock order: Deployed.mu before environment.mu.
type environment struct {
	fn       *DeployedFunction
	seq      int64            // counts the function's environments, from 1
	assigned chan *invocation // at most one: given by the pool, taken by next
	exited   chan struct{}    // closed when the process has been reaped

	idleSince time.Time // under Deployed.mu, as is reaped
	idledOut  bool      // ended for being idle

	mu           sync.Mutex
	proc         *os.Process
	terminating  bool           // shall not live: killed as soon as it exists
	initialized  bool           // has asked for work once, so its start succeeded
	terminated   bool           // has been reaped; nothing may be delivered to it
	servedCount  int            // invocations it has finished
	initErr      *FunctionError // what it posted to init/error, or why it was not let start
	killed       *FunctionError // why the host killed it
	current      *invocation    // delivered and not followed by a request for more work
	currentSince time.Time      // when current was delivered
	timer        *time.Timer    // of current, or of the start
}

func (e *environment) pid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil {
		return 0
	}
	return e.proc.Pid
}

// assign gives an environment that has asked for work its next invocation.
func (e *environment) assign(v *invocation) { e.assigned <- v }

// run is the life of an environment.
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

// environmentExit is how an environment ended, as far as the pool has to know.
type environmentExit struct {
	env      *environment
	initErr  *FunctionError // it never asked for work, because of this
	diedIdle bool           // it asked for work and died by itself before it got any
}

// runProcess starts the process, serves it and returns how it ended, or an error if
// it never began.
func (e *environment) runProcess() (exit string, err error) {
	h := e.fn.host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: e.runtimeAPI(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()

	spec := e.fn.spec
	cmd := exec.Command(spec.Binary)
	cmd.Env = e.fn.environ(listener.Addr().String(), newID())
	cmd.Dir = filepath.Dir(spec.Binary)
	out := h.log.writer(spec.Name)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open
	setProcessGroup(cmd)
	if err := h.startProcess(cmd); err != nil {
		return "", err
	}
	e.mu.Lock()
	e.proc = cmd.Process
	if e.terminating {
		signalGroup(e.proc, syscall.SIGKILL)
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
	_ = cmd.Wait()                            // how it ended stands in its state
	signalGroup(cmd.Process, syscall.SIGKILL) // what it may have left behind in its group
	out.Flush()
	return cmd.ProcessState.String(), nil
}

// kill ends the process at once if the condition still holds.
func (e *environment) kill(condition func() bool, reason *FunctionError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil || e.killed != nil || !condition() {
		return
	}
	e.killed = reason
	signalGroup(e.proc, syscall.SIGKILL)
}

// terminate asks the process to end, makes it end after the grace or when ctx
// ends, and waits until it has.
func (e *environment) terminate(ctx context.Context) {
	e.mu.Lock()
	e.terminating = true
	proc := e.proc
	if proc != nil {
		signalGroup(proc, syscall.SIGTERM)
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
		signalGroup(e.proc, syscall.SIGKILL)
	}
	e.mu.Unlock()
	<-e.exited
}

// recordDuration adds what the invocation in hand has cost.
func (e *environment) recordDuration() {
	e.fn.counts.micros.Add(time.Since(e.currentSince).Microseconds())
}
