//go:build unix

package main

import "golang.org/x/sys/unix"

// hideTyping lets a terminal not show what is typed, until its state is restored. It still gives whole
// lines, and Ctrl-C is a signal.
func hideTyping(fd int) error {
	t, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	t.Lflag &^= unix.ECHO
	t.Lflag |= unix.ICANON | unix.ISIG
	t.Iflag |= unix.ICRNL
	return unix.IoctlSetTermios(fd, setTermios, t)
}
