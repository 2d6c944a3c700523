//go:build !unix

package main

import "golang.org/x/sys/windows"

// hideTyping lets a terminal not show what is typed, until its state is restored. It still gives whole
// lines, and Ctrl-C is a signal.
func hideTyping(fd int) error {
	var mode uint32
	if err := windows.GetConsoleMode(windows.Handle(fd), &mode); err != nil {
		return err
	}
	mode &^= windows.ENABLE_ECHO_INPUT
	mode |= windows.ENABLE_PROCESSED_INPUT | windows.ENABLE_LINE_INPUT
	return windows.SetConsoleMode(windows.Handle(fd), mode)
}
