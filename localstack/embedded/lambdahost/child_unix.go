//go:build unix && !linux

package lambdahost

import (
	"os"
	"os/exec"
	"syscall"
)

// tether gives the child a group of its own. These systems have no signal for
// the death of a parent; here a child ends because its next call to the Runtime
// API fails, at the latest when the invocation it works on is over.
func tether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// signal reaches the child and its children.
func signal(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) }
