package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Limits of what is waited for.
const (
	startLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
	runLimit   = 3 * time.Minute
)

// program is a server that this process has started.
type program struct {
	name string
	cmd  *exec.Cmd
	url  string
	log  *os.File
	over chan struct{}
}

// start starts a program and waits for its line "ready URL". What it says beside
// that goes to a log file.
func (d *Demo) start(ctx context.Context, name string, env []string, args ...string) (*program, error) {
	log, err := os.Create(filepath.Join(d.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &program{name: name, log: log, over: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(d.Bin, name), args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C reaches only the demo, which stops things in order
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	d.programs = append(d.programs, p)
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
				ready <- url
			}
		}
		_ = p.cmd.Wait() // how it ended stands in its log
		close(p.over)
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case p.url = <-ready:
		return p, nil
	case <-p.over:
		return nil, fmt.Errorf("%s ended before it was ready:\n%s", name, lastLines(log.Name()))
	case <-limit.C:
		return nil, fmt.Errorf("%s is not ready after %s:\n%s", name, startLimit, lastLines(log.Name()))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func lastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// stop ends all programs, the last started first.
func (d *Demo) stop() {
	for i := len(d.programs) - 1; i >= 0; i-- {
		p := d.programs[i]
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
		limit := time.NewTimer(stopLimit)
		select {
		case <-p.over:
		case <-limit.C:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the same
			<-p.over
		}
		limit.Stop()
		_ = p.log.Close() // nobody writes to it any more
	}
}

// lockstep runs the command, with its output where the demo's goes. It returns
// the exit code.
func (d *Demo) lockstep(ctx context.Context, out io.Writer, args ...string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "lockstep"), append([]string{"--url", d.url}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = out, d.Progress
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return exit.ExitCode(), nil
	}
	return 0, errors.Join(err, ctx.Err())
}
