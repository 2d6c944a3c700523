//go:build unix

package render

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is the number of columns of a terminal, 0 if the file is none.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
