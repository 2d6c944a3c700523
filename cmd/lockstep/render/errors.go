package render

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrSilent ends a command with exit code 1 without a message, because its output has said
// everything.
var ErrSilent = errors.New("the execution failed")

// ErrPartial ends a command with exit code 5 without a message. It is an [ErrSilent].
var ErrPartial = fmt.Errorf("%w in part", ErrSilent)

// ServiceError marks an error as the service's answer. The command exits with the
// code for a refusal.
type ServiceError struct{ error }

// Unwrap returns the marked error.
func (e ServiceError) Unwrap() error { return e.error }

// AsServiceError marks an error as the service's answer; nil stays nil.
func AsServiceError(err error) error {
	if err == nil {
		return nil
	}
	return ServiceError{err}
}

// FileError is an error in the content of a file.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error without the path.
func (e *FileError) Unwrap() error { return e.Err }

// ReportedError ends a command that has printed its errors one by one. The worst one decides the
// exit code.
type ReportedError struct{ Worst error }

func (e *ReportedError) Error() string { return e.Worst.Error() }

// Unwrap returns the worst error.
func (e *ReportedError) Unwrap() error { return e.Worst }

// ReadError explains why a file cannot be read.
func ReadError(path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no file %s", path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no permission to read %s", path)
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("cannot read %s: %s", path, strings.TrimPrefix(err.Error(), "read "))
}
