// Package testkit has what the tests of several packages share: polling a condition,
// ports, a buffer that several goroutines write, the repository's built programs,
// starting one of them until its ready line, and differences of what was consumed.
package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

const (
	defaultLimit = 10 * time.Second
	pollInterval = 2 * time.Millisecond
)

// Eventually polls a condition for up to 10 s and fails the test if it stays false.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	EventuallyWithin(t, defaultLimit, pollInterval, what, condition)
}

// EventuallyWithin polls a condition at an interval and fails the test if it is still
// false after the limit.
func EventuallyWithin(t testing.TB, limit, interval time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(interval) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// FreePort returns a free port on 127.0.0.1.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := process.FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// OccupyPort listens on a port of 127.0.0.1 until the test ends and returns it.
func OccupyPort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// Buffer collects text; it is safe for concurrent use. The zero value keeps all text.
type Buffer struct {
	Limit int // keeps at least the last Limit bytes; 0 keeps everything

	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	if b.Limit > 0 && len(b.text) > 2*b.Limit {
		b.text = bytes.Clone(b.text[len(b.text)-b.Limit:])
	}
	return len(p), nil
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// Tail returns the last lines.
func (b *Buffer) Tail(lines int) string {
	all := strings.Split(b.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Root returns the directory of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("there is no go.mod above the working directory")
		}
		dir = parent
	}
}

// Binary returns the path of a program that make has built below bin.
func Binary(t testing.TB, path ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{Root(t), "bin"}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%s is not built: run make build, or make test-localstack for what it deploys", file)
	}
	return file
}

// Program is a running program that has printed its ready line.
type Program struct {
	*process.Process
	URL string
}

// StartProgram starts a command, with its standard error in log, and waits for its
// line "ready URL". If that does not come within the limit, it stops the program.
func StartProgram(cmd *exec.Cmd, log *Buffer, limit time.Duration) (*Program, error) {
	ready := process.NewReadyLine()
	cmd.Stdout, cmd.Stderr = ready, log
	child, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case url := <-ready.URL():
		return &Program{Process: child, URL: url}, nil
	case <-child.Done():
		return nil, fmt.Errorf("%s ended before it was ready: %v\n%s", filepath.Base(cmd.Path), child.Err(), log.Tail(50))
	case <-timeout.C:
		child.Stop(0)
		return nil, fmt.Errorf("%s is not ready after %s\n%s", filepath.Base(cmd.Path), limit, log.Tail(50))
	}
}

// Terminate sends SIGTERM and waits for the end. An unclean end is an error, and so is
// one that takes longer than the limit; the program is killed then.
func (p *Program) Terminate(limit time.Duration) error {
	_ = syscall.Kill(p.PID(), syscall.SIGTERM) // fails only if the program has ended
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-p.Done():
		return p.Err()
	case <-timeout.C:
		p.Kill()
		return fmt.Errorf("still running %s after SIGTERM", limit)
	}
}

// Kill sends SIGKILL to the program alone and waits for its end.
func (p *Program) Kill() {
	_ = syscall.Kill(p.PID(), syscall.SIGKILL) // fails only if the program has ended
	<-p.Done()
}

// StartAndReadLine starts a command that prints a line and goes on, and returns the
// line without its end. The command is killed when the test ends.
func StartAndReadLine(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if the command has ended
		_ = cmd.Wait()         // killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s printed no line: %q, %v", cmd.Path, line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ChildPIDs lists the child processes of a process whose command line matches a
// pattern of pgrep.
func ChildPIDs(parent int, pattern string) []int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(parent), "-f", pattern).Output() // fails if there is none
	var pids []int
	for _, word := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Alive reports whether a process runs; a zombie does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, state, _ := bytes.Cut(stat, []byte(") "))
		return !bytes.HasPrefix(state, []byte("Z"))
	}
	if _, noProc := os.Stat("/proc/self"); noProc == nil {
		return errors.Is(err, os.ErrPermission)
	}
	return syscall.Kill(pid, 0) == nil
}
