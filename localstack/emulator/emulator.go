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

// Version is that of LocalStack, the last one that runs without an account's token.
const Version = "4.14.0"

// Options say how to run LocalStack.
type Options struct {
	// Dir holds what is installed (about half a gigabyte, kept), the logs and what
	// LocalStack writes. One emulator at a time uses a folder.
	Dir string

	// Port on 127.0.0.1. Default: one that is free.
	Port int

	// Mode is ModeHost or ModeDocker. Default: the host if there is a Python that is
	// new enough, otherwise Docker if there is a daemon that answers.
	Mode string

	// Log gets what the installation says. Default: nobody.
	Log io.Writer
}

// The ways to run it.
const (
	ModeHost   = "host"
	ModeDocker = "docker"
)

const (
	readyTimeout = 120 * time.Second // on a busy machine it takes half a minute
	stopTimeout  = 5 * time.Second   // it can spin in its own shutdown for ever
	pollInterval = 50 * time.Millisecond
)

// LocalStack is a LocalStack that runs.
type LocalStack struct {
	Mode string
	Dir  string

	port     int
	process  *process.Process
	database *dynamodb.Process
	log      *os.File
	docker   container
}

// Start installs what is missing and starts LocalStack. On a machine that can do
// neither way the error is ErrUnavailable.
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
	// What an earlier one has left would be mistaken for this one's.
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

// chooseMode chooses between the two ways.
func chooseMode(ctx context.Context, wanted, interpreter string) (string, error) {
	switch {
	case wanted == ModeDocker || wanted == "" && interpreter == "":
		if !dockerAvailable(ctx) {
			return "", ErrUnavailable
		}
		return ModeDocker, nil
	case wanted != "" && wanted != ModeHost:
		return "", fmt.Errorf("mode %q: want %s or %s", wanted, ModeHost, ModeDocker)
	case interpreter == "":
		return "", ErrUnavailable
	}
	return ModeHost, nil
}

func (e *LocalStack) startProcess(ctx context.Context, interpreter string, log io.Writer) error {
	if err := install(ctx, interpreter, e.Dir, log); err != nil {
		return err
	}
	var err error
	if e.database, err = dynamodb.Start(context.WithoutCancel(ctx), dynamodb.Options{}); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(e.Dir, "venv", "bin", "python"), "-m", "emulator")
	cmd.Dir = e.Dir
	cmd.Env = buildEnv(commonSettings(), hostSettings(e.Dir, e.port, e.database.Port()), clientCredentials)
	cmd.Stdout, cmd.Stderr = e.log, e.log
	e.process, err = process.Start(cmd)
	return err
}

// waitReady returns when LocalStack answers.
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

// URL is where every service of it is.
func (e *LocalStack) URL() string { return "http://127.0.0.1:" + strconv.Itoa(e.port) }

// Env is an environment in which AWS's command lines and libraries talk to it.
func (e *LocalStack) Env() []string {
	return buildEnv(clientCredentials, map[string]string{"AWS_ENDPOINT_URL": e.URL(), "AWS_ENDPOINT_URL_S3": e.URL()})
}

// LogDir is the folder with LocalStack's log and one log of each function.
func (e *LocalStack) LogDir() string { return filepath.Join(e.Dir, "logs") }

// HostAddress is the name by which a function finds a server of this machine. In a
// container, 127.0.0.1 is the container.
func (e *LocalStack) HostAddress() string {
	if e.Mode == ModeDocker {
		return dockerHost
	}
	return "127.0.0.1"
}

// Stop ends LocalStack and the functions that it runs. Everything in it is gone.
func (e *LocalStack) Stop() error {
	var errs []error
	if e.process != nil {
		e.process.Stop(stopTimeout)
		// Functions are of its process group; one that stands still has not heard of it.
		_ = syscall.Kill(-e.process.PID(), syscall.SIGKILL) // fails if nobody is left
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
