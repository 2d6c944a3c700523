package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

// Timeouts. A command may have to wait for a takeover from a killed worker, which takes
// little more than a lease.
const (
	startTimeout   = 60 * time.Second
	stopTimeout    = 20 * time.Second
	commandTimeout = 4 * time.Minute
)

// programSpec describes a program to start.
type programSpec struct {
	name    string
	args    []string
	env     []string
	showLog bool // print its log to Progress too
}

// program is a server that this process started. It ends with this process, however that
// ends.
type program struct {
	process *process.Process
	url     string
	log     *os.File
}

// startProgram starts a program and waits for its line "ready URL". Its standard error
// goes to a log file.
func (d *Demo) startProgram(ctx context.Context, l programSpec) (*program, error) {
	log, err := os.Create(filepath.Join(d.logDir, l.name+".log"))
	if err != nil {
		return nil, err
	}
	p := &program{log: log}
	ready := process.NewReadyLine()
	cmd := exec.Command(filepath.Join(d.Bin, l.name), l.args...)
	cmd.Env = append(os.Environ(), l.env...)
	cmd.Stdout, cmd.Stderr = ready, io.Writer(log)
	if l.showLog {
		cmd.Stderr = io.MultiWriter(log, d.Progress)
	}
	if p.process, err = process.Start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: run make build", err), log.Close())
	}
	d.programs = append(d.programs, p)
	limit := time.NewTimer(startTimeout)
	defer limit.Stop()
	select {
	case p.url = <-ready.URL():
		return p, nil
	case <-p.process.Done():
		return nil, fmt.Errorf("%s exited before it was ready:\n%s", l.name, lastLines(log.Name()))
	case <-limit.C:
		return nil, fmt.Errorf("%s is not ready after %s:\n%s", l.name, startTimeout, lastLines(log.Name()))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stopPrograms stops all programs, the last started first.
func (d *Demo) stopPrograms() {
	for i := len(d.programs) - 1; i >= 0; i-- {
		p := d.programs[i]
		p.process.Stop(stopTimeout)
		_ = p.log.Close() // the program has ended
	}
	d.programs = nil
}

// runLockstep runs the command, with its output in the demo's, and returns its exit code
// and its output. It runs in its own process group and is killed when ctx ends: else it
// would say that the execution continues, which is wrong here.
func (d *Demo) runLockstep(ctx context.Context, args ...string) (code int, output string, err error) {
	timed, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var copied bytes.Buffer
	cmd := exec.CommandContext(timed, filepath.Join(d.Bin, "lockstep"), append([]string{"--url", d.url}, args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(d.Out, &copied), d.Progress
	p, err := process.Start(cmd)
	if err != nil {
		return 0, "", err
	}
	<-p.Done()
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case timed.Err() != nil:
		return 0, "", fmt.Errorf("lockstep %s has not ended after %s", strings.Join(args, " "), commandTimeout)
	}
	var exit *exec.ExitError
	if err := p.Err(); err != nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return code, copied.String(), nil
}

// lastLines returns the last lines of a log.
func lastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// shellQuote quotes a word for the shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
