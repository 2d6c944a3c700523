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

// Function is a function to deploy.
type Function struct {
	Name   string
	Binary string   // path of the executable, "bootstrap" on AWS
	Env    []string // "KEY=value"; as on AWS, nothing is inherited from the host
	// Timeout limits one invocation, not the start of a process. Default 3s.
	Timeout time.Duration
	// MemoryMB is reported to the function and not enforced. Default 128.
	MemoryMB int
	// MaxConcurrency is the most environments; further invocations wait for one.
	// Default 10.
	MaxConcurrency int
	// ProvisionedConcurrency is how many environments start at once, are replaced when
	// they die, and are kept when idle. Default 0.
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
		return fmt.Errorf("lambdahost: function %s: limits are negative or contradict each other", f.Name)
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
	envs          map[*environment]bool      // all, from before the fork to after the exit
	idle          []*environment             // most recently used last; the last one is used first
	pending       []*invocation              // waiting for an environment, oldest first
	replyTimes    map[*environment]time.Time // replied at that time and has not asked for more
	reapingCount  int                        // idle environments that are being stopped
	startingCount int                        // environments that have not asked for an event
	failedStarts  int                        // failed starts since an environment last served
	lastStartErr  *FunctionError             // of the last start; nil if it succeeded
	backoffTimer  *time.Timer                // set while starts are delayed
	stateChanged  chan struct{}              // closed and replaced when an environment is ready or ends
}

// Name is the function's name.
func (d *DeployedFunction) Name() string { return d.spec.Name }

// MaxConcurrency is the most concurrent invocations.
func (d *DeployedFunction) MaxConcurrency() int { return d.spec.MaxConcurrency }

// Counts are the counters of a function since it was deployed.
type Counts struct {
	Invocations int64         // delivered to a process
	Errors      int64         // failed invocations, also those without an environment
	Starts      int64         // started processes: cold starts
	Busy        time.Duration // billed duration, not rounded
}

func (d *DeployedFunction) Counts() Counts {
	c := &d.counts
	return Counts{
		Invocations: c.invocations.Load(), Errors: c.errors.Load(), Starts: c.starts.Load(),
		Busy: time.Duration(c.micros.Load()) * time.Microsecond,
	}
}

// Processes lists the process ids of the running environments.
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

// Invoke invokes the function with a payload and waits for its reply. The error is a
// [*FunctionError] if the function failed, [ErrClosed] if the host is shutting down, and that of
// ctx if it ended. As on AWS, an invocation that has begun in a process continues without its
// caller.
func (d *DeployedFunction) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.host.beginInvocation() {
		return nil, ErrClosed
	}
	v := newInvocation(payload, &d.counts.errors, time.Now())
	go func() {
		<-v.done // counts the invocation until its end, even without its caller
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

// Ready waits until an environment has started, starting one if there is none. It
// returns the function's error if the start fails.
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

// environ returns the environment of a process: AWS's defaults, the function's own variables, and
// last the variables that a function cannot override.
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
