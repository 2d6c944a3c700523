package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/client/auth"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Exit codes of every verb.
const (
	exitFailed      = 1 // the execution failed
	exitUsage       = 2 // wrong usage
	exitRefused     = 3 // the service refused
	exitUnreachable = 4 // the service is unreachable
	exitPartial     = 5 // the execution completed, and something in it failed

	exitWaitTimeout = 124 // --wait-timeout has passed; the usual code of a command that ran out of time
)

// hintedError is an error with a hint on what to do next.
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

// hintNotFound adds a hint to a not_found answer. Other errors stay as they are.
func hintNotFound(err error, format string, args ...any) error {
	if !workflow.Is(err, workflow.CodeNotFound) {
		return err
	}
	return withHint(err, format, args...)
}

func exitCode(err error) int {
	var unreachable *client.UnreachableError
	var service render.ServiceError
	var start startError
	var waited *waitTimeoutError
	var path *fs.PathError
	switch {
	case errors.As(err, &waited):
		return exitWaitTimeout
	case errors.Is(err, render.ErrPartial):
		return exitPartial
	case errors.Is(err, render.ErrSilent), errors.As(err, &start):
		return exitFailed
	case errors.As(err, &path) && path.Op == "write": // the disk is full, or the output is gone
		return exitFailed
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &service):
		return exitRefused
	}
	return exitUsage
}

// printError prints an error with its issues and its hint.
func printError(w io.Writer, err error) {
	var unreachable *client.UnreachableError
	if errors.As(err, &unreachable) {
		fmt.Fprintf(w, "lockstep: %v\n%s\n", unreachable, unreachableHint(unreachable.URL))
		printHint(w, err)
		return
	}
	at := ""
	var file *render.FileError
	if errors.As(err, &file) {
		at = file.Path + ":"
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
	if e != nil && !lacksRole(e) {
		printIssues(w, at, e.Issues)
	}
	printHint(w, err)
	if hint := issueHint(e); hint != "" {
		fmt.Fprintln(w, hint)
	}
}

// lacksRole reports whether the caller has been refused for want of a role, which the message names.
func lacksRole(e *workflow.Error) bool {
	return e.Code == workflow.CodeForbidden && len(e.Issues) == 1 && e.Issues[0].Code == "role"
}

// issueHint returns what to do about an error whose issues say it.
func issueHint(e *workflow.Error) string {
	switch {
	case e == nil:
	case lacksRole(e):
		return "a service that trusts headers, such as a local stack, takes the roles of --roles (or LOCKSTEP_ROLES), with commas between them; others know them from the credentials. \"lockstep whoami\" shows yours"
	case slices.ContainsFunc(e.Issues, func(i workflow.Issue) bool { return i.Code == "type" && strings.HasSuffix(i.Message, "want boolean") }):
		return "a boolean is true or false: --set NAME=true"
	}
	return ""
}

// unreachableHint explains what to do if the service at an address does not answer.
func unreachableHint(address string) string {
	u, err := url.Parse(address)
	if err == nil && (auth.IsLoopback(u.Hostname())) {
		start := "lockstep dev"
		if port := u.Port(); port != "" && port != "3030" {
			start += " --port " + port
		}
		return fmt.Sprintf("Is the service running? %q starts one there; --url or LOCKSTEP_URL names another.", start)
	}
	return "Is the address right? --url or LOCKSTEP_URL names it, and \"lockstep doctor\" checks a deployment."
}

func printHint(w io.Writer, err error) {
	var hint *hintedError
	if errors.As(err, &hint) {
		fmt.Fprintln(w, hint.hint)
	}
}

// printIssues prints issues, one a line, each after its file as compilers do.
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

// errorDocument is an error for programs: the service's own code and detail, else a
// code for the kind of failure (unreachable, failed, usage).
type errorDocument struct {
	Code   string           `json:"code"`
	Status int              `json:"status,omitempty"`
	Detail string           `json:"detail"`
	File   string           `json:"file,omitempty"`
	Hint   string           `json:"hint,omitempty"`
	Errors []workflow.Issue `json:"errors"`
}

func newErrorDocument(err error) errorDocument {
	doc := errorDocument{Detail: err.Error(), Errors: []workflow.Issue{}}
	switch exitCode(err) {
	case exitUnreachable:
		doc.Code = "unreachable"
	case exitFailed:
		doc.Code = "failed"
	case exitWaitTimeout:
		doc.Code = "timeout"
	default:
		doc.Code = "usage"
	}
	var e *workflow.Error
	if errors.As(err, &e) {
		doc.Code, doc.Status, doc.Detail = string(e.Code), e.Code.HTTPStatus(), e.Message
		doc.Errors = append(doc.Errors, e.Issues...)
	}
	var file *render.FileError
	if errors.As(err, &file) {
		doc.File = file.Path
	}
	var hint *hintedError
	if doc.Hint = issueHint(e); errors.As(err, &hint) {
		doc.Hint = hint.hint
	}
	return doc
}

// printErrorDocument writes an error as a JSON document.
func printErrorDocument(w io.Writer, err error) {
	e := json.NewEncoder(render.Raw(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(map[string]errorDocument{"error": newErrorDocument(err)}) // the text is on stderr already
}

// startError is a failure of the local system itself, neither wrong usage nor a
// refusal. Its exit code is 1.
type startError struct{ error }
