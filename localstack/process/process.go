// Package process runs programs that must not outlive this process, however it ends. On Linux the
// kernel kills them together with it; elsewhere they end only if this process ends in an orderly
// way. The package also finds free ports and waits until a server is ready.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// Start starts the command in a process group of its own, see [GroupAttr]: the
// parent decides when to stop it.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = GroupAttr()
	cmd.WaitDelay = time.Second
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The child dies with the thread that started it. This thread does nothing
		// else and lives as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is the error with which the child ended. It is nil while the child runs and
// after a clean end.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop sends SIGTERM to the child and its process group, SIGKILL after the grace
// period, and returns when the child has ended. It may be called again.
func (p *Process) Stop(grace time.Duration) {
	SignalGroup(p.PID(), syscall.SIGTERM)
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		SignalGroup(p.PID(), syscall.SIGKILL)
		<-p.done
	}
}

// SignalGroup sends a signal to the process group that a child leads: the child
// and whatever it has started. A group that has ended is ignored.
func SignalGroup(pid int, signal syscall.Signal) { _ = syscall.Kill(-pid, signal) }
