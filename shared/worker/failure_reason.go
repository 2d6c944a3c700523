package worker

import (
	"errors"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxFailureReason bounds a reason in a history, in bytes.
const maxFailureReason = 240

// failureReason words an error for a history: by its code and by what the outermost of
// our errors says of itself. What it was caused by is left to the log: that may
// quote a message's content.
func failureReason(err error) string {
	var e *workflow.Error
	var timeout interface{ Timeout() bool }
	text := "an error that is not one of the engine's"
	switch {
	case errors.As(err, &e):
		text = string(e.Code) + ": " + e.Message
		if e.Cause != nil {
			text = strings.TrimSuffix(strings.TrimSuffix(text, e.Cause.Error()), ": ")
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		text = "the time was up"
	}
	if len(text) > maxFailureReason {
		text = strings.ToValidUTF8(text[:maxFailureReason], "") + "..."
	}
	return text
}
