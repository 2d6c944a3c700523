package port

import (
	"errors"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Permanent reports whether repeating cannot help.
func Permanent(err error) bool {
	switch workflow.CodeOf(err) {
	case workflow.CodeInternal:
		var e *workflow.Error
		return errors.As(err, &e) // an error nobody has classified may pass
	case workflow.CodeInvalid, workflow.CodeLimit, workflow.CodeTooLarge, workflow.CodeNotFound:
		return true
	}
	return false
}

// Reason is an error in words for people.
func Reason(err error) string {
	var e *workflow.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "internal error"
}
