package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// Start starts the command. The child gets a process group of its own, so that a
// Ctrl-C at the terminal reaches only its parent, which stops it in order.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = sysProcAttr()
	cmd.WaitDelay = time.Second
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The child dies with the thread that started it: this thread does
		// nothing else, and lives as long as the child.
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

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the child ended; nil while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop asks the child and everything it has started to end, and after grace ends
// them by force. It may be called again.
func (p *Process) Stop(grace time.Duration) {
	_ = syscall.Kill(-p.PID(), syscall.SIGTERM) // fails only if it has ended
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // the same
		<-p.done
	}
}
