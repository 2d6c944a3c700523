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

// A call is made at most maxAttempts times within maxDuration. The pauses have full jitter: between zero
// and a bound that doubles from baseBackoff up to maxBackoff. maxDuration is far below the time of a
// wake-up, so that a table that does not answer is an outage rather than a wake-up that takes too long.
const (
	maxAttempts = 8
	maxDuration = 30 * time.Second
	baseBackoff = 25 * time.Millisecond
	maxBackoff  = 1600 * time.Millisecond
)

var errUnprocessed = errors.New("keys remain unprocessed")

// retry repeats a call until it succeeds, fails with an error that a retry cannot change, or runs
// out of attempts or time. It returns a failed condition as the SDK's error, and every other error
// with a code.
func (t *Table) retry(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
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

// backoff waits before the next attempt; it returns an error if the context ends first.
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

// transientCodes are the codes of DynamoDB's transient errors. The SDK does not
// retry a transaction conflict.
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

// isTransient reports whether a retry can help. An error that does not come from the service is a
// network error.
func isTransient(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) {
		return transientCodes[api.ErrorCode()] || api.ErrorFault() == smithy.FaultServer
	}
	var params *smithy.InvalidParamsError
	var serialization *smithy.SerializationError
	return !errors.As(err, &params) && !errors.As(err, &serialization)
}

// classify gives a permanent error its code.
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
	return &workflow.Error{Code: code, Message: "the " + t.role + " table refused the request", Cause: err}
}

// isMalformed reports whether a call was refused because of its content, which is a bug in this
// program and will fail again. Every other refusal (permissions, keys, credentials, a missing
// table) must be corrected by an operator and is not the fault of the execution.
func isMalformed(err error) bool {
	var api smithy.APIError
	return !errors.As(err, &api) || api.ErrorCode() == "ValidationException" || api.ErrorCode() == "SerializationException"
}

func (t *Table) unavailable(err error) error {
	return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the " + t.role + " table is unavailable", Cause: err}
}
