package table

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A call is tried so often, with full jitter between nothing and a pause that
// doubles from the first to the longest one.
const (
	tries        = 8
	firstPause   = 25 * time.Millisecond
	longestPause = 1600 * time.Millisecond
)

var errUnprocessed = errors.New("keys stay unprocessed")

// repeat calls until the call succeeds, fails for a reason that repeating does
// not change, or the tries or the context's time are used up. A condition that
// did not hold is returned as the service put it; every other error is typed.
func (t *Table) repeat(ctx context.Context, call func(context.Context) error) error {
	for try := 0; ; try++ {
		err := call(ctx)
		var refused *types.ConditionalCheckFailedException
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			return err
		case ctx.Err() != nil:
			return t.unavailable(ctx.Err())
		case !transient(err):
			return t.classify(err)
		case try+1 >= tries:
			return t.unavailable(err)
		}
		if late := pause(ctx, try); late != nil {
			return t.unavailable(errors.Join(late, err))
		}
	}
}

// pause waits before the next try, unless the context ends before the wait does.
func pause(ctx context.Context, try int) error {
	d := rand.N(min(firstPause<<try, longestPause))
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// passing names the errors of the service that pass by themselves. The SDK by
// itself does not repeat a transaction conflict.
var passing = map[string]bool{
	"ProvisionedThroughputExceededException": true,
	"ThrottlingException":                    true,
	"Throttling":                             true,
	"RequestLimitExceeded":                   true,
	"TransactionConflictException":           true,
	"TransactionInProgressException":         true,
	"ReplicatedWriteConflictException":       true,
	"InternalServerError":                    true,
	"ServiceUnavailable":                     true,
	"RequestTimeout":                         true,
}

// transient reports whether repeating the call can help. An error that the
// service did not put in words is one of the way there or back.
func transient(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) {
		return passing[api.ErrorCode()] || api.ErrorFault() == smithy.FaultServer
	}
	var params *smithy.InvalidParamsError
	var form *smithy.SerializationError
	return !errors.As(err, &params) && !errors.As(err, &form)
}

// classify types an error that is there to stay.
func (t *Table) classify(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(strings.ToLower(api.ErrorMessage()), "size") &&
		strings.Contains(api.ErrorMessage(), "exceeded") {
		return &workflow.Error{Code: workflow.CodeTooLarge, Message: "an item of the " + t.role + " table would be larger than 400 KB", Cause: err}
	}
	code := workflow.CodeUnavailable
	if misformed(err) {
		code = workflow.CodeInternal
	}
	return &workflow.Error{Code: code, Message: "the " + t.role + " table refused a call", Cause: err}
}

// misformed reports whether a call was refused for what it says, which is our own
// mistake and the same the next time. Every other refusal (permissions, keys,
// credentials, a table that is missing) is for somebody to put right, and until
// then says nothing about the run at hand.
func misformed(err error) bool {
	var api smithy.APIError
	return !errors.As(err, &api) || api.ErrorCode() == "ValidationException" || api.ErrorCode() == "SerializationException"
}

func (t *Table) unavailable(err error) error {
	return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the " + t.role + " table does not answer", Cause: err}
}
