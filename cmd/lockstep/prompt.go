package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// form asks for values field by field. One form reads all that a command asks for.
type form struct {
	ctx      context.Context
	in       *bufio.Reader
	out      io.Writer
	terminal *os.File // the input, if somebody types it; nil otherwise
}

func newForm(cmd *cobra.Command) *form {
	f := &form{ctx: cmd.Context(), in: bufio.NewReader(cmd.InOrStdin()), out: cmd.ErrOrStderr()}
	if in, ok := cmd.InOrStdin().(*os.File); ok && isatty.IsTerminal(in.Fd()) {
		f.terminal = in
	}
	return f
}

// typed is a line of the input.
type typed struct {
	text string
	err  error
}

// readLine reads a line, without showing what is typed if it is hidden. An interrupt ends it.
func (f *form) readLine(hidden bool) (string, error) {
	hidden = hidden && f.terminal != nil
	if hidden {
		fd := int(f.terminal.Fd())
		before, err := term.GetState(fd)
		if err != nil {
			return "", fmt.Errorf("the terminal cannot hide what is typed: %w", err)
		}
		defer func() {
			_ = term.Restore(fd, before) // after an interrupt the reader below still waits
			fmt.Fprintln(f.out)          // the end of the line was not shown either
		}()
		// Not in the reader: after an interrupt, it could hide what is typed once the terminal is as it was.
		if err := hideTyping(fd); err != nil {
			return "", fmt.Errorf("the terminal cannot hide what is typed: %w", err)
		}
	}
	done := make(chan typed, 1)
	go func() {
		line, err := f.in.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			err = nil // the last line may have no end
		}
		done <- typed{line, err}
	}()
	select {
	case line := <-done:
		if line.err != nil {
			return "", errors.New("the answer ends before its last field")
		}
		return line.text, nil
	case <-f.ctx.Done():
		return "", context.Cause(f.ctx)
	}
}
