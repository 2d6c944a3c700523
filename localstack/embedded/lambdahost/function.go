package lambdahost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Function is what gets deployed.
type Function struct {
	Name   string
	Binary string   // path of the executable, "bootstrap" on AWS
	Env    []string // "KEY=value"; nothing is inherited from the host, as on AWS
	// Timeout bounds one invocation, not the start of a process. Default 3s.
	Timeout time.Duration
	// MemoryMB is told to the function and not enforced. Default 128.
	MemoryMB int
	// MaxConcurrency is the most environments at a time; further invocations
	// wait for one. Default 10.
	MaxConcurrency int
	// ProvisionedConcurrency environments are started at once, replaced when they die, and never
	// reaped for being idle. Default 0.
	ProvisionedConcurrency int
}

func (f *Function) validate() error {
	f.Timeout = cmp.Or(f.Timeout, 3*time.Second)
	f.MemoryMB = cmp.Or(f.MemoryMB, 128)
	f.MaxConcurrency = cmp.Or(f.MaxConcurrency, 10)
	f.Env = slices.Clone(f.Env)
	switch {
	case f.Name == "" || f.Binary == "":
		return errors.New("lambdahost: a function needs a name and a binary")
	case f.Timeout < 0 || f.MaxConcurrency < 0 || f.ProvisionedConcurrency < 0 || f.ProvisionedConcurrency > f.MaxConcurrency:
		return fmt.Errorf("lambdahost: function %s: limits make no sense", f.Name)
	}
	path, err := filepath.Abs(f.Binary)
	if err != nil {
		return fmt.Errorf("lambdahost: function %s: %w", f.Name, err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("lambdahost: function %s: %w", f.Name, err)
	}
	f.Binary = path
	return nil
}

// DeployedFunction is a function that can be invoked.
type DeployedFunction struct {
	host *Host
	spec Function

	counts struct{ invocations, errors, starts, micros atomic.Int64 }

	mu            sync.Mutex
	closed        bool
	envs          map[*environment]bool      // all of them, from before the fork to after the exit
	idle          []*environment             // the last used one last, and used first
	pending       []*invocation              // for an environment, the oldest first
	replyTimes    map[*environment]time.Time // have answered and not asked for more yet, since when
	reapingCount  int                        // environments ended for being idle and not gone yet
	startingCount int                        // environments that have not asked for work yet
	failedStarts  int                        // starts that came to nothing since one served
	lastStartErr  *FunctionError             // of the last start, nil if it succeeded
	backoffTimer  *time.Timer                // runs while starts are held back
	stateChanged  chan struct{}              // closed and replaced when an environment gets ready or fails
}

// Name is the function's name.
func (d *DeployedFunction) Name() string { return d.spec.Name }

// MaxConcurrency is the most invocations that run at a time.
func (d *DeployedFunction) MaxConcurrency() int { return d.spec.MaxConcurrency }

// Counts is what a function has done since it was deployed.
type Counts struct {
	Invocations int64         // delivered to a process
	Errors      int64         // of these, and of those that found no environment
	Starts      int64         // processes started: cold starts
	Busy        time.Duration // what AWS would bill, unrounded
}

// Counts reads the counters.
func (d *DeployedFunction) Counts() Counts {
	c := &d.counts
	return Counts{
		Invocations: c.invocations.Load(), Errors: c.errors.Load(), Starts: c.starts.Load(),
		Busy: time.Duration(c.micros.Load()) * time.Microsecond,
	}
}

// Processes lists the process ids of the environments that are alive.
func (d *DeployedFunction) Processes() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var pids []int
	for e := range d.envs {
		if pid := e.pid(); pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// Invoke runs the function on a payload and waits for its reply. The error is a
// [*FunctionError] if the function failed, [ErrClosed] if the host is shutting
// down, and ctx's if the caller gave up. An invocation that a process has begun
// goes on without its caller, as on AWS.
func (d *DeployedFunction) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.host.beginInvocation() {
		return nil, ErrClosed
	}
	v := newInvocation(payload, time.Now())
	go func() {
		<-v.done // the flight ends with the invocation, not with its caller
		var failure *FunctionError
		if errors.As(v.err, &failure) {
			d.counts.errors.Add(1)
		}
		d.host.invocations.Done()
	}()
	d.submit(v)
	select {
	case <-v.done:
		return v.reply, v.err
	case <-ctx.Done():
		d.cancelPending(v, ctx.Err())
		return nil, ctx.Err()
	}
}

// Ready waits until an environment waits for work or runs, starting one if
// there is none, and returns the function's own error if it does not start.
func (d *DeployedFunction) Ready(ctx context.Context) error {
	d.mu.Lock()
	for {
		if len(d.envs) == 0 && d.backoffTimer == nil && !d.closed {
			d.lastStartErr = nil
			d.startEnvironment()
		}
		changed := d.stateChanged
		switch {
		case d.closed:
			d.mu.Unlock()
			return ErrClosed
		case d.lastStartErr != nil:
			err := d.lastStartErr
			d.mu.Unlock()
			return err
		case len(d.envs) > d.startingCount:
			d.mu.Unlock()
			return nil
		}
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		d.mu.Lock()
	}
}

func (d *DeployedFunction) arn() string {
	return "arn:aws:lambda:" + d.host.opts.Region + ":" + d.host.opts.Account + ":function:" + d.spec.Name
}

// environ is a process's environment: what AWS always sets, what the function
// was deployed with, and last what a function cannot choose.
func (d *DeployedFunction) environ(api, stream string) []string {
	o, f := d.host.opts, d.spec
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/opt/bin",
		"LANG=en_US.UTF-8",
		"TZ=:UTC",
		"AWS_REGION=" + o.Region,
		"AWS_DEFAULT_REGION=" + o.Region,
		"AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local",
		"AWS_SESSION_TOKEN=local",
	}
	env = append(env, f.Env...)
	return append(env,
		"AWS_LAMBDA_RUNTIME_API="+api,
		"AWS_LAMBDA_FUNCTION_NAME="+f.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE="+strconv.Itoa(f.MemoryMB),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/"+f.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME="+stream,
		"LAMBDA_TASK_ROOT="+filepath.Dir(f.Binary),
		"_HANDLER="+filepath.Base(f.Binary),
	)
}
