package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Exit codes of every verb.
const (
	exitFailed      = 1 // the run failed
	exitUsage       = 2
	exitRefused     = 3 // the service refused
	exitUnreachable = 4
)

// errSilent ends a command whose output has said everything already.
var errSilent = errors.New("the run failed")

// serviceError marks an error that came from calling the service.
type serviceError struct{ error }

func (e serviceError) Unwrap() error { return e.error }

// fileError is an error about what a file holds.
type fileError struct {
	file string
	err  error
}

func (e *fileError) Error() string { return e.file + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// reportedError ends a command that has told its errors one by one. The worst
// of them gives the exit code.
type reportedError struct{ worst error }

func (e *reportedError) Error() string { return e.worst.Error() }
func (e *reportedError) Unwrap() error { return e.worst }

// hintedError is an error with a sentence on what to do about it.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintedError{err, fmt.Sprintf(format, args...)}
}

// hintNotFound adds how to find what there is to an answer that says there is no such
// thing; other errors stay as they are.
func hintNotFound(err error, format string, args ...any) error {
	if !workflow.Is(err, workflow.CodeNotFound) {
		return err
	}
	return withHint(err, format, args...)
}

func exitCode(err error) int {
	var unreachable *client.UnreachableError
	var service serviceError
	var start startError
	switch {
	case errors.Is(err, errSilent), errors.As(err, &start):
		return exitFailed
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &service):
		return exitRefused
	}
	return exitUsage
}

// printError prints an error with every place it names, and what can be done.
func printError(w io.Writer, err error) {
	var unreachable *client.UnreachableError
	if errors.As(err, &unreachable) {
		fmt.Fprintf(w, "lockstep: %v\nIs the service running? \"lockstep dev\" starts one on this machine; --url or LOCKSTEP_URL names another.\n", unreachable)
		printHint(w, err)
		return
	}
	at := ""
	var file *fileError
	if errors.As(err, &file) {
		at = file.file + ":"
	}
	var e *workflow.Error
	switch {
	case errors.As(err, &e) && at != "":
		fmt.Fprintf(w, "lockstep: %s %s (%s)\n", at, e.Message, e.Code)
	case errors.As(err, &e):
		fmt.Fprintf(w, "lockstep: %s (%s)\n", e.Message, e.Code)
	default:
		fmt.Fprintf(w, "lockstep: %v\n", err)
	}
	if e != nil {
		printIssues(w, at, e.Issues)
	}
	printHint(w, err)
}

func printHint(w io.Writer, err error) {
	var hint *hintedError
	if errors.As(err, &hint) {
		fmt.Fprintln(w, hint.hint)
	}
}

// printIssues prints places, each after its file as compilers do.
func printIssues(w io.Writer, at string, all []workflow.Issue) {
	for _, i := range all {
		switch text := i.String(); {
		case at == "":
			fmt.Fprintf(w, "  %s\n", text)
		case i.Line > 0:
			fmt.Fprintf(w, "  %s%s\n", at, text)
		default:
			fmt.Fprintf(w, "  %s %s\n", at, text)
		}
	}
}

// errorDocument is an error as programs read it: the service's own where it is one,
// else with a code that tells what kind of failure it is.
type errorDocument struct {
	Code   string           `json:"code"`
	Status int              `json:"status,omitempty"`
	Detail string           `json:"detail"`
	File   string           `json:"file,omitempty"`
	Hint   string           `json:"hint,omitempty"`
	Errors []workflow.Issue `json:"errors"`
}

func newErrorDocument(err error) errorDocument {
	p := errorDocument{Detail: err.Error(), Errors: []workflow.Issue{}}
	switch exitCode(err) {
	case exitUnreachable:
		p.Code = "unreachable"
	case exitFailed:
		p.Code = "failed"
	default:
		p.Code = "usage"
	}
	var e *workflow.Error
	if errors.As(err, &e) {
		p.Code, p.Status, p.Detail = string(e.Code), e.Code.HTTPStatus(), e.Message
		p.Errors = append(p.Errors, e.Issues...)
	}
	var file *fileError
	if errors.As(err, &file) {
		p.File = file.file
	}
	var hint *hintedError
	if errors.As(err, &hint) {
		p.Hint = hint.hint
	}
	return p
}

// printErrorDocument writes an error as a JSON document.
func printErrorDocument(w io.Writer, err error) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(map[string]errorDocument{"error": newErrorDocument(err)}) // the text has been written; who does not read this has gone
}

// readError words why a file cannot be read.
func readError(file string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no file %s", file)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s may not be read", file)
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s cannot be read: %s", file, strings.TrimPrefix(err.Error(), "read "))
}
