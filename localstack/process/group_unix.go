//go:build unix && !linux

package process

import "syscall"

// GroupAttr puts a child into a process group of its own, so that a Ctrl-C at the
// terminal reaches only its parent. These systems send no signal when a parent
// dies: a child whose parent was killed is left behind.
func GroupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
