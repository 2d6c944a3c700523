package process

import "syscall"

// GroupAttr puts a child into a process group of its own, so that a Ctrl-C at the
// terminal reaches only its parent, and has the kernel kill the child when the
// thread that started it ends.
func GroupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
