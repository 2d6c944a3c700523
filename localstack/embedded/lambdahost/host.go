// Package lambdahost runs the deployed Lambda binaries on one machine, in place of the AWS Lambda
// service. It starts bootstrap executables, serves them the Lambda Runtime API, and invokes them
// from SQS queues and on schedules. The binaries cannot see the difference.
//
//   - host.go: [Host], its options, and its shutdown.
//   - function.go: [Function], what is deployed; [DeployedFunction.Invoke].
//   - pool.go: which execution environments exist: start on demand, back off when
//     starts fail, stop idle ones.
//   - environment.go: one process. runtimeapi.go: the HTTP API that it uses.
//   - invocation.go: one event, and [FunctionError].
//   - prefixwriter.go: the output of many processes as whole lines.
//
// One process is one execution environment and handles one invocation at a time, as on AWS. Each
// process has its own listener on the loopback interface. So the listener identifies the process, a
// runtime in any language works, and no process can reply in place of one that it has replaced.
//
// The rules are those of the AWS documentation ("Building a custom runtime", "Lambda runtime API",
// "Using Lambda with Amazon SQS"). Deliberate differences: memory is reported to the function but
// not limited, there are no asynchronous retries, and an environment that does not start is tried
// twice before the invocation that needs it fails.
package lambdahost

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/eventsource"
)

// Options configure a [Host]. The zero value is usable.
type Options struct {
	// Log gets the output of the processes and the host's messages, in whole lines
	// that begin with the function's name. Default: standard error.
	Log io.Writer
	// Region and Account are used in ARNs and in the environment of functions.
	// Defaults: us-east-1 and 000000000000.
	Region, Account string
	// IdleTimeout is how long an idle environment is kept. Default 5m.
	IdleTimeout time.Duration
	// InitTimeout is the most time from fork to the first request for an event; 10s
	// by default, as on AWS.
	InitTimeout time.Duration
	// DrainTimeout is how long Close waits for running invocations. Default 5s.
	DrainTimeout time.Duration
	// TerminationGrace is the time between SIGTERM and SIGKILL. Default 2s.
	TerminationGrace time.Duration
	// Backoff is the pause after the first failed start; it doubles up to 50
	// times as much. Default 100ms.
	Backoff time.Duration
}

// Host is the local Lambda service. Create it with [New]; its methods are safe for
// concurrent use.
type Host struct {
	opts Options
	log  *logSink

	forks chan forkRequest

	pollContext context.Context // ends first: then sources neither receive nor fire
	stopPolling context.CancelFunc
	sources     sync.WaitGroup // pollers of mappings, and schedules
	invocations sync.WaitGroup

	mu        sync.Mutex
	closed    bool // no new invocations
	functions []*DeployedFunction

	closeOnce sync.Once
	closeDone chan struct{} // closed at the end of Close
}

// New returns a host without functions.
func New(opts Options) *Host {
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	opts.Region = cmp.Or(opts.Region, "us-east-1")
	opts.Account = cmp.Or(opts.Account, "000000000000")
	opts.IdleTimeout = cmp.Or(opts.IdleTimeout, 5*time.Minute)
	opts.InitTimeout = cmp.Or(opts.InitTimeout, 10*time.Second)
	opts.DrainTimeout = cmp.Or(opts.DrainTimeout, 5*time.Second)
	opts.TerminationGrace = cmp.Or(opts.TerminationGrace, 2*time.Second)
	opts.Backoff = cmp.Or(opts.Backoff, 100*time.Millisecond)
	h := &Host{opts: opts, log: newLogSink(opts.Log), forks: make(chan forkRequest), closeDone: make(chan struct{})}
	h.pollContext, h.stopPolling = context.WithCancel(context.Background())
	go h.forkThread()
	return h
}

type forkRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// forkThread starts all children. The kernel kills a child when the thread that forked
// it ends, and Go may end threads at any time; so this goroutine keeps its thread until
// the last child has been reaped.
func (h *Host) forkThread() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case f := <-h.forks:
			f.done <- f.cmd.Start()
		case <-h.closeDone:
			return
		}
	}
}

func (h *Host) startProcess(cmd *exec.Cmd) error {
	f := forkRequest{cmd: cmd, done: make(chan error, 1)}
	select {
	case h.forks <- f:
		return <-f.done
	case <-h.closeDone:
		return ErrClosed
	}
}

// beginInvocation counts an invocation, unless the host is closed.
func (h *Host) beginInvocation() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.invocations.Add(1)
	return true
}

// startSource runs an event source, which Close stops first.
func (h *Host) startSource(f func(ctx context.Context)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.pollContext.Err() != nil {
		return ErrClosed
	}
	h.sources.Go(func() { f(h.pollContext) })
	return nil
}

// Close shuts down in the order in which nothing is lost: it stops mappings and
// schedules, waits up to [Options.DrainTimeout] for running invocations, and sends the
// processes SIGTERM and, after [Options.TerminationGrace], SIGKILL. It returns when the
// last process has been reaped; a second call waits for the same. The error is that of
// ctx if its end aborted invocations.
func (h *Host) Close(ctx context.Context) error {
	var drainErr error
	h.closeOnce.Do(func() {
		drain, cancel := context.WithTimeout(ctx, h.opts.DrainTimeout)
		defer cancel()
		h.mu.Lock()
		h.stopPolling()
		h.mu.Unlock()
		_ = waitGroup(drain, &h.sources) // the rest is aborted below
		h.mu.Lock()
		h.closed = true
		functions := h.functions
		h.mu.Unlock()
		for _, f := range functions {
			f.rejectAll()
		}
		if waitGroup(drain, &h.invocations) != nil {
			drainErr = ctx.Err()
		}
		var terminating sync.WaitGroup
		for _, f := range functions {
			terminating.Go(func() { f.terminate(ctx) })
		}
		terminating.Wait()
		// Aborted invocations have failed by now and their sources have seen it. The
		// context only guards against a queue that hangs.
		flushCtx, cancelFlush := context.WithTimeout(context.WithoutCancel(ctx), h.opts.TerminationGrace)
		defer cancelFlush()
		_ = waitGroup(flushCtx, &h.sources)
		close(h.closeDone)
	})
	<-h.closeDone
	return drainErr
}

func waitGroup(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Deploy deploys a function and starts its provisioned environments.
func (h *Host) Deploy(f Function) (*DeployedFunction, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	d := &DeployedFunction{host: h, spec: f, envs: map[*environment]bool{}, replyTimes: map[*environment]time.Time{}, stateChanged: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	for _, other := range h.functions {
		if other.spec.Name == f.Name {
			return nil, errors.New("lambdahost: function " + f.Name + " already exists")
		}
	}
	h.functions = append(h.functions, d)
	d.mu.Lock()
	d.scale()
	d.mu.Unlock()
	return d, nil
}

// Mapping invokes a function from an SQS queue; see [Host.AddMapping].
type Mapping = eventsource.Mapping

// AddMapping invokes a function with the messages of a standard queue until the host
// is closed; see [eventsource.StartMapping].
func (h *Host) AddMapping(m Mapping) error { return eventsource.StartMapping(h.eventSourceHost(), m) }

// AddSchedule invokes a function once per interval until the host is closed; see
// [eventsource.StartSchedule]. A nil payload means [Host.ScheduledEvent].
func (h *Host) AddSchedule(interval time.Duration, fn *DeployedFunction, payload func(now time.Time) []byte) error {
	if fn == nil {
		return errors.New("lambdahost: a schedule needs a function")
	}
	return eventsource.StartSchedule(h.eventSourceHost(), interval, fn, payload)
}

// ScheduledEvent is the event that EventBridge sends when a rule fires.
func (h *Host) ScheduledEvent(rule string, now time.Time) []byte {
	return eventsource.ScheduledEvent(h.eventSourceHost(), rule, now)
}

func (h *Host) eventSourceHost() eventsource.Host {
	return eventsource.Host{
		Region: h.opts.Region, Account: h.opts.Account, Backoff: h.opts.Backoff,
		Start: h.startSource, Logf: h.log.logf, NewID: newID, ErrClosed: ErrClosed,
	}
}
