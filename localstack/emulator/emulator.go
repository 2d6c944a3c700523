// Package emulator starts LocalStack 4.14.0, an emulator of AWS, so that the real stack
// can be deployed and run without an account: as a process of this machine, installed
// from PyPI, or in Docker. README.md says what works there and what is ignored.
//
//   - emulator.go: [Start], [LocalStack] and how it stops. docker.go: the same in a
//     container. env.go: the environment of LocalStack and of its clients.
//   - install.go: which Python, and what is installed once.
//   - proxy.go: makes a function URL callable whose host name does not resolve.
//   - emulator/: Python code that LocalStack lacks to run functions as processes,
//     invoke them concurrently, and use dynoxide for DynamoDB.
//   - requirements.in, requirements.lock: the packages to install, with hashes.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/localstack/process"
)

// Version is the version of LocalStack, the last one that runs without an auth token.
const Version = "4.14.0"

// Options say how to run LocalStack.
type Options struct {
	// Dir holds the installation (about half a gigabyte, kept), the logs and the files
	// of LocalStack. Only one emulator at a time may use it.
	Dir string

	// Port on 127.0.0.1. Default: a free one.
	Port int

	// Mode is ModeHost or ModeDocker. Default: the host if there is a Python that is
	// new enough, otherwise Docker if its daemon answers.
	Mode string

	// Log gets the output of the installation. Default: dropped.
	Log io.Writer
}

// The modes of [Options].
const (
	ModeHost   = "host"
	ModeDocker = "docker"
)

const (
	readyTimeout = 120 * time.Second // it takes up to 30 s on a busy machine
	stopTimeout  = 5 * time.Second   // its shutdown can hang
	pollInterval = 50 * time.Millisecond
)

// LocalStack is a running LocalStack.
type LocalStack struct {
	Mode string
	Dir  string

	port     int
	process  *process.Process
	database *dynamodb.Process
	log      *os.File
	docker   container
}

// Start installs what is missing and starts LocalStack. If neither mode is possible on
// this machine, the error is ErrUnavailable.
func Start(ctx context.Context, options Options) (*LocalStack, error) {
	if options.Log == nil {
		options.Log = io.Discard
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	interpreter := ""
	if options.Mode != ModeDocker {
		interpreter = findPython(ctx)
	}
	if options.Mode, err = chooseMode(ctx, options.Mode, interpreter); err != nil {
		return nil, err
	}
	e := &LocalStack{Mode: options.Mode, Dir: dir}
	if e.port, err = process.FreePort(options.Port); err != nil {
		return nil, err
	}
	// Files of an earlier LocalStack could be taken for those of this one.
	for _, sub := range []string{"root", "tmp", "logs"} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o750); err != nil {
			return nil, err
		}
	}
	if e.log, err = os.Create(filepath.Join(dir, "logs", "localstack.log")); err != nil {
		return nil, err
	}
	if e.Mode == ModeDocker {
		err = e.startContainer(ctx)
	} else {
		err = e.startProcess(ctx, interpreter, options.Log)
	}
	if err == nil {
		err = e.waitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// chooseMode chooses the mode from what is wanted and available.
func chooseMode(ctx context.Context, wanted, interpreter string) (string, error) {
	switch {
	case wanted == ModeDocker || wanted == "" && interpreter == "":
		if !dockerAvailable(ctx) {
			return "", ErrUnavailable
		}
		return ModeDocker, nil
	case wanted != "" && wanted != ModeHost:
		return "", fmt.Errorf("unknown mode %q: use %s or %s", wanted, ModeHost, ModeDocker)
	case interpreter == "":
		return "", ErrUnavailable
	}
	return ModeHost, nil
}

func (e *LocalStack) startProcess(ctx context.Context, interpreter string, log io.Writer) error {
	if err := install(ctx, interpreter, e.Dir, log); err != nil {
		return err
	}
	port, err := process.FreePort(0) // LocalStack expects its database on 127.0.0.1
	if err != nil {
		return err
	}
	if e.database, err = dynamodb.Start(context.WithoutCancel(ctx), dynamodb.Options{Port: port}); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(e.Dir, "venv", "bin", "python"), "-m", "emulator")
	cmd.Dir = e.Dir
	cmd.Env = buildEnv(commonSettings(), hostSettings(e.Dir, e.port, e.database.Port()), clientCredentials)
	cmd.Stdout, cmd.Stderr = e.log, e.log
	e.process, err = process.Start(cmd)
	return err
}

// waitReady waits until LocalStack answers.
func (e *LocalStack) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ended := make(<-chan struct{})
	if e.process != nil {
		ended = e.process.Done()
	}
	err := process.WaitReady(ctx, e.URL()+"/_localstack/health", pollInterval, ended, func(struct{}) error {
		return fmt.Errorf("LocalStack ended before it was ready: %w; see %s", e.process.Err(), e.log.Name())
	})
	if errors.Is(err, process.ErrNotReady) {
		return fmt.Errorf("LocalStack: %w; see %s", err, e.log.Name())
	}
	return err
}

// URL is the endpoint of every service.
func (e *LocalStack) URL() string { return "http://127.0.0.1:" + strconv.Itoa(e.port) }

// Env is the environment in which command lines and libraries of AWS use LocalStack.
func (e *LocalStack) Env() []string {
	return buildEnv(clientCredentials, map[string]string{"AWS_ENDPOINT_URL": e.URL(), "AWS_ENDPOINT_URL_S3": e.URL()})
}

// LogDir is the directory with LocalStack's log and a log of each function.
func (e *LocalStack) LogDir() string { return filepath.Join(e.Dir, "logs") }

// HostAddress is this machine's host name for functions. In a container, 127.0.0.1 is
// the container.
func (e *LocalStack) HostAddress() string {
	if e.Mode == ModeDocker {
		return dockerHost
	}
	return "127.0.0.1"
}

// Stop stops LocalStack and its functions. Its state is lost.
func (e *LocalStack) Stop() error {
	var errs []error
	if e.process != nil {
		e.process.Stop(stopTimeout)
		// Functions belong to its process group; a stopped one ignores SIGTERM.
		process.SignalGroup(e.process.PID(), syscall.SIGKILL)
	}
	if e.docker.id != "" {
		errs = append(errs, e.docker.remove())
	}
	if e.database != nil {
		errs = append(errs, e.database.Stop())
	}
	if e.log != nil {
		errs = append(errs, e.log.Close())
	}
	return errors.Join(errs...)
}
