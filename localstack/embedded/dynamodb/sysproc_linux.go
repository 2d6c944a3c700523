package dynamodb

import "syscall"

// sysProcAttr make the kernel end the child when the thread that started it
// ends, and keep a Ctrl-C at the terminal away from it: its parent stops it
// when everybody else has finished.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
