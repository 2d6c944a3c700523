//go:build !linux

package dynamodb

import "syscall"

// attributes keep a Ctrl-C at the terminal away from the child. Only Linux ends
// a child with its parent; elsewhere one is left behind when the parent is
// killed, and has to be ended by hand.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
