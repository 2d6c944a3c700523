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
	// Log takes what the processes write and what the host remarks, a line at a
	// time, each beginning with the function's name. Nil is standard error.
	Log io.Writer
	// Region and Account appear in ARNs and in the environment of functions.
	// Defaults: us-east-1 and 000000000000.
	Region, Account string
	// IdleTimeout is how long an environment without work is kept. Default 5m.
	IdleTimeout time.Duration
	// InitTimeout bounds the time from fork to the first request for work; 10s
	// on AWS and by default.
	InitTimeout time.Duration
	// DrainTimeout bounds how long Close waits for work under way. Default 5s.
	DrainTimeout time.Duration
	// TerminationGrace is what a process has between SIGTERM and SIGKILL. Default 2s.
	TerminationGrace time.Duration
	// Backoff is the pause after the first failed start; it doubles up to 50
	// times as much. Default 100ms.
	Backoff time.Duration
}

// Host is the local Lambda service. Make one with [New]; its methods are safe
// for concurrent use.
type Host struct {
	opts Options
	log  *logSink

	forks chan forkRequest

	pollContext context.Context // ends first: nothing new is received or fired
	stopPolling context.CancelFunc
	sources     sync.WaitGroup // mappings' pollers and schedules
	invocations sync.WaitGroup // invocations

	mu        sync.Mutex
	closed    bool // no new invocations
	functions []*DeployedFunction

	closeOnce sync.Once
	closeDone chan struct{} // closed when Close has done everything
}

// New starts a host without functions.
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

// forkThread starts all children. The signal by which the kernel lets a child
// die with its parent is tied to the thread that forked, not to the process, and
// Go ends threads as it likes; so the goroutine keeps its thread until the last
// child has been reaped.
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

// beginInvocation counts an invocation in, unless the host is closed.
func (h *Host) beginInvocation() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.invocations.Add(1)
	return true
}

// startSource runs f as something that Close stops first and waits for.
func (h *Host) startSource(f func(ctx context.Context)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.pollContext.Err() != nil {
		return ErrClosed
	}
	h.sources.Go(func() { f(h.pollContext) })
	return nil
}

// Close shuts down in the order in which nothing is lost: queues and schedules
// stop, work under way gets [Options.Drain] to end (less if ctx ends before),
// processes get SIGTERM and, after [Options.Grace], SIGKILL. It returns when the
// last process has been reaped; calling it again waits for the same end. The
// error is ctx's if work had to be cut short because of it.
func (h *Host) Close(ctx context.Context) error {
	var drainErr error
	h.closeOnce.Do(func() {
		drain, cancel := context.WithTimeout(ctx, h.opts.DrainTimeout)
		defer cancel()
		h.mu.Lock()
		h.stopPolling()
		h.mu.Unlock()
		_ = waitGroup(drain, &h.sources) // what is not over by then is cut short
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
		// What had been cut short has failed by now, and its feeders have
		// noticed; the context only guards against a queue that hangs.
		flushCtx, cancelFlush := context.WithTimeout(context.WithoutCancel(ctx), h.opts.TerminationGrace)
		defer cancelFlush()
		_ = waitGroup(flushCtx, &h.sources) // the same
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

// Deploy deploys f: it starts its warm environments and returns the handle by
// which it is invoked.
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
			return nil, errors.New("lambdahost: function " + f.Name + " exists already")
		}
	}
	h.functions = append(h.functions, d)
	d.mu.Lock()
	d.scale()
	d.mu.Unlock()
	return d, nil
}

// Mapping feeds a function from an SQS queue; see [Host.AddMapping].
type Mapping = eventsource.Mapping

// AddMapping feeds a function from a standard queue by AWS's rules, until the host
// is closed; see [source.Map].
func (h *Host) AddMapping(m Mapping) error { return eventsource.StartMapping(h.eventSourceHost(), m) }

// AddSchedule fires a function each interval, first after one, until the host is
// closed; a nil payload is [Host.ScheduledEvent]. See [source.Every].
func (h *Host) AddSchedule(interval time.Duration, fn *DeployedFunction, payload func(now time.Time) []byte) error {
	if fn == nil {
		return errors.New("lambdahost: a schedule needs a function")
	}
	return eventsource.StartSchedule(h.eventSourceHost(), interval, fn, payload)
}

// ScheduledEvent is what EventBridge sends when the rule of that name fires.
func (h *Host) ScheduledEvent(rule string, now time.Time) []byte {
	return eventsource.ScheduledEvent(h.eventSourceHost(), rule, now)
}

func (h *Host) eventSourceHost() eventsource.Host {
	return eventsource.Host{
		Region: h.opts.Region, Account: h.opts.Account, Backoff: h.opts.Backoff,
		Start: h.startSource, Logf: h.log.logf, NewID: newID, ErrClosed: ErrClosed,
	}
}
