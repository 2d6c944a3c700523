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
	fn     *Deployed
	number int64            // counts the function's environments, from 1
	offers chan *invocation // at most one: given by the pool, taken by next
	exited chan struct{}    // closed when the process has been reaped

	idleSince time.Time // under Deployed.mu, as is reaped
	reaped    bool      // ended for being idle

	mu      sync.Mutex
	proc    *os.Process
	doomed  bool           // shall not live: killed as soon as it exists
	asked   bool           // has asked for work once, so its start succeeded
	dead    bool           // has been reaped; nothing may be delivered to it
	served  int            // invocations it has finished
	initErr *FunctionError // what it posted to init/error, or why it was not let start
	killed  *FunctionError // why the host killed it
	current *invocation    // delivered and not followed by a request for more work
	began   time.Time      // when current was delivered
	clock   *time.Timer    // of current, or of the start
}

func (e *environment) pid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil {
		return 0
	}
	return e.proc.Pid
}

// offer gives an environment that has asked for work its next invocation.
func (e *environment) offer(v *invocation) { e.offers <- v }

// run is the life of an environment.
func (e *environment) run() {
	exit, err := e.live()
	e.mu.Lock()
	if e.clock != nil {
		e.clock.Stop()
	}
	e.proc, e.dead = nil, true
	end := ending{env: e, early: e.asked && e.served == 0 && e.current == nil && !e.doomed}
	v, killed := e.current, e.killed
	e.current = nil
	if !e.asked {
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
		e.account()
		if killed == nil {
			killed = &FunctionError{Type: TypeExit, Message: "RequestId: " + v.id + " Error: Runtime exited: " + exit}
		}
		if v.finish(nil, killed) {
			e.fn.host.log.Say(e.fn.spec.Name, "%v", killed)
		}
	}
	e.fn.exited(end)
	close(e.exited)
}

// ending is how an environment ended, as far as the pool has to know.
type ending struct {
	env     *environment
	initErr *FunctionError // it never asked for work, because of this
	early   bool           // it asked for work and died by itself before it got any
}

// live starts the process, serves it and returns how it ended, or an error if
// it never began.
func (e *environment) live() (exit string, err error) {
	h := e.fn.host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: e.api(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()

	spec := e.fn.spec
	cmd := exec.Command(spec.Binary)
	cmd.Env = e.fn.environ(listener.Addr().String(), newID())
	cmd.Dir = filepath.Dir(spec.Binary)
	out := h.log.Writer(spec.Name)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open
	tether(cmd)
	if err := h.start(cmd); err != nil {
		return "", err
	}
	e.mu.Lock()
	e.proc = cmd.Process
	if e.doomed {
		signal(e.proc, syscall.SIGKILL)
	}
	if !e.asked {
		e.clock = time.AfterFunc(h.opts.InitTimeout, func() {
			e.kill(func() bool { return !e.asked }, &FunctionError{
				Type:    TypeTimeout,
				Message: fmt.Sprintf("Error: start timed out after %.2f seconds", h.opts.InitTimeout.Seconds()),
			})
		})
	}
	e.mu.Unlock()
	_ = cmd.Wait()                       // how it ended stands in its state
	signal(cmd.Process, syscall.SIGKILL) // what it may have left behind in its group
	out.Flush()
	return cmd.ProcessState.String(), nil
}

// kill ends the process at once if the condition still holds.
func (e *environment) kill(still func() bool, why *FunctionError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil || e.killed != nil || !still() {
		return
	}
	e.killed = why
	signal(e.proc, syscall.SIGKILL)
}

// terminate asks the process to end, makes it end after the grace or when ctx
// ends, and waits until it has.
func (e *environment) terminate(ctx context.Context) {
	e.mu.Lock()
	e.doomed = true
	proc := e.proc
	if proc != nil {
		signal(proc, syscall.SIGTERM)
	}
	e.mu.Unlock()
	grace := time.NewTimer(e.fn.host.opts.Grace)
	defer grace.Stop()
	select {
	case <-e.exited:
		return
	case <-grace.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	if e.proc != nil {
		signal(e.proc, syscall.SIGKILL)
	}
	e.mu.Unlock()
	<-e.exited
}

// account adds what the invocation in hand has cost.
func (e *environment) account() {
	e.fn.counts.micros.Add(time.Since(e.began).Microseconds())
}
