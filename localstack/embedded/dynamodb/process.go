package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

// Options of a process; the zero value runs in memory on a free port.
type Options struct {
	Binary string    // path of the program; "" asks Locate
	Dir    string    // where the data are kept, made if need be; "" keeps them in memory
	Port   int       // on 127.0.0.1; 0 picks a free one
	Log    io.Writer // what the program prints; nil drops it
}

// Times that no user has had a reason to change.
const (
	startTimeout = 15 * time.Second // a program that is not ready by then is broken
	stopTimeout  = 5 * time.Second  // it ends within milliseconds of SIGTERM
	pollInterval = 2 * time.Millisecond
)

// Process is a running program.
type Process struct {
	port int
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// Start runs the program and waits until it answers. When ctx ends the program
// is stopped, so a caller may leave Stop to it.
func Start(ctx context.Context, options Options) (*Process, error) {
	if options.Binary == "" {
		found, err := Locate()
		if err != nil {
			return nil, err
		}
		options.Binary = found
	} else if !executable(options.Binary) {
		return nil, notInstalledError(options.Binary)
	}
	if options.Dir != "" {
		if err := os.MkdirAll(options.Dir, 0o755); err != nil {
			return nil, err
		}
	}
	// A free port may be taken by another program before ours gets to it.
	for attempt := 1; ; attempt++ {
		p, err := start(ctx, options)
		if err == nil || options.Port != 0 || attempt == 3 || ctx.Err() != nil || !errors.Is(err, errEnded) {
			return p, err
		}
	}
}

var errEnded = errors.New("it ended before it was ready")

func start(ctx context.Context, options Options) (*Process, error) {
	port, err := process.FreePort(options.Port)
	if err != nil {
		return nil, fmt.Errorf("local DynamoDB: %w", err)
	}
	arguments := []string{"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}
	if options.Dir != "" {
		arguments = append(arguments, "--db-path", filepath.Join(options.Dir, "dynamodb.sqlite"))
	}
	cmd := exec.Command(options.Binary, arguments...)
	cmd.Stdout, cmd.Stderr = options.Log, options.Log
	cmd.SysProcAttr = sysProcAttr()
	cmd.WaitDelay = time.Second
	p := &Process{port: port, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The child dies with the thread that started it, so that thread must
		// do nothing else, and must live as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("local DynamoDB: %w", err)
	}
	if err := p.waitReady(ctx); err != nil {
		_ = p.Stop() // the reason is err
		return nil, fmt.Errorf("local DynamoDB on port %d: %w", port, err)
	}
	go func() {
		select {
		case <-ctx.Done():
			_ = p.Stop() // Err tells how it ended
		case <-p.done:
		}
	}()
	return p, nil
}

// waitReady returns when the program answers, has ended or takes too long.
func (p *Process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return process.WaitReady(ctx, p.Endpoint(), pollInterval, p.done, func(struct{}) error {
		return fmt.Errorf("%w: %v", errEnded, p.cmd.ProcessState)
	})
}

// Endpoint is the URL for AWS_ENDPOINT_URL_DYNAMODB.
func (p *Process) Endpoint() string { return "http://127.0.0.1:" + strconv.Itoa(p.port) }

// Port is the one on 127.0.0.1 that it listens on.
func (p *Process) Port() int { return p.port }

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the program ended; it is nil while it runs and after a clean
// end.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop ends the program, by force if it does not end by itself, and waits for
// it. It may be called again.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		_ = p.cmd.Process.Kill() // the same
		<-p.done
	}
	return p.err
}
