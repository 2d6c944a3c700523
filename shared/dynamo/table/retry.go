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
	maxAttempts = 8
	baseBackoff = 25 * time.Millisecond
	maxBackoff  = 1600 * time.Millisecond
)

var errUnprocessed = errors.New("keys stay unprocessed")

// retry calls until the call succeeds, fails for a reason that repeating does
// not change, or the tries or the context's time are used up. A condition that
// did not hold is returned as the service put it; every other error is typed.
func (t *Table) retry(ctx context.Context, call func(context.Context) error) error {
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
		case !isTransient(err):
			return t.classify(err)
		case try+1 >= maxAttempts:
			return t.unavailable(err)
		}
		if waitErr := backoff(ctx, try); waitErr != nil {
			return t.unavailable(errors.Join(waitErr, err))
		}
	}
}

// backoff waits before the next try, unless the context ends before the wait does.
func backoff(ctx context.Context, try int) error {
	d := rand.N(min(baseBackoff<<try, maxBackoff))
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

// transientCodes names the errors of the service that pass by themselves. The SDK by
// itself does not repeat a transaction conflict.
var transientCodes = map[string]bool{
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

// isTransient reports whether repeating the call can help. An error that the
// service did not put in words is one of the way there or back.
func isTransient(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) {
		return transientCodes[api.ErrorCode()] || api.ErrorFault() == smithy.FaultServer
	}
	var params *smithy.InvalidParamsError
	var serialization *smithy.SerializationError
	return !errors.As(err, &params) && !errors.As(err, &serialization)
}

// classify types an error that is there to stay.
func (t *Table) classify(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(strings.ToLower(api.ErrorMessage()), "size") &&
		strings.Contains(api.ErrorMessage(), "exceeded") {
		return &workflow.Error{Code: workflow.CodeTooLarge, Message: "an item of the " + t.role + " table would be larger than 400 KB", Cause: err}
	}
	code := workflow.CodeUnavailable
	if isMalformed(err) {
		code = workflow.CodeInternal
	}
	return &workflow.Error{Code: code, Message: "the " + t.role + " table refused a call", Cause: err}
}

// isMalformed reports whether a call was refused for what it says, which is our own
// mistake and the same the next time. Every other refusal (permissions, keys,
// credentials, a table that is missing) is for somebody to put right, and until
// then says nothing about the run at hand.
func isMalformed(err error) bool {
	var api smithy.APIError
	return !errors.As(err, &api) || api.ErrorCode() == "ValidationException" || api.ErrorCode() == "SerializationException"
}

func (t *Table) unavailable(err error) error {
	return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the " + t.role + " table does not answer", Cause: err}
}
