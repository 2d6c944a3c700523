package lambdahost

import (
	"os"
	"os/exec"
	"syscall"
)

// setProcessGroup makes the kernel kill the child when the thread that forked it ends,
// which is why [Host] forks on a thread that lives as long as the host. A group
// of its own keeps the terminal's Ctrl-C from reaching the child before the host
// has drained it, and lets signal reach whatever the child itself has started.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup reaches the child and its children.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) }
