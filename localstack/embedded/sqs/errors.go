package sqs

import (
	"fmt"
	"net/http"
)

// apiError is an error as the SDK reads it: Type selects the Go error type, Code is
// what the error's ErrorCode method returns. The two differ for historical reasons;
// Code travels in the header x-amzn-query-error.
type apiError struct {
	Type    string // with its namespace
	Code    string
	Message string
	Status  int // HTTP
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// isSenderFault reports whether the request is at fault, so that a retry is useless.
func (e *apiError) isSenderFault() bool { return e.Status < http.StatusInternalServerError }

const (
	sqsNamespace     = "com.amazonaws.sqs#"        // errors in the service's model
	coralNamespace   = "com.amazon.coral.service#" // errors of the framework below the service
	legacyCodePrefix = "AWS.SimpleQueueService."   // prefix of most codes of the query protocol
)

func newAPIError(kind, code, format string, args ...any) *apiError {
	return &apiError{Type: kind, Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

func queueDoesNotExist(name string) *apiError {
	return newAPIError(sqsNamespace+"QueueDoesNotExist", legacyCodePrefix+"NonExistentQueue", "Queue %q does not exist.", name)
}

// queueNameExists is the error for creating a queue again with other attributes.
func queueNameExists(name, attribute string) *apiError {
	return newAPIError(sqsNamespace+"QueueNameExists", "QueueAlreadyExists", "Queue %q exists with another value of %s.", name, attribute)
}

// receiptHandleIsInvalid is the error for a text that was never a receipt handle of the queue.
func receiptHandleIsInvalid() *apiError {
	return newAPIError(sqsNamespace+"ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "The receipt handle is not valid for this queue.")
}

// messageNotInFlight is the error for changing the visibility of a message that is not in flight.
func messageNotInFlight() *apiError {
	return newAPIError(sqsNamespace+"MessageNotInflight", legacyCodePrefix+"MessageNotInflight", "The message is not in flight.")
}

// overLimit is the error for a receive while too many messages are in flight.
func overLimit(limit int) *apiError {
	e := newAPIError(sqsNamespace+"OverLimit", "OverLimit", "The queue already has %d messages in flight.", limit)
	e.Status = http.StatusForbidden
	return e
}

func invalidMessageContents(char rune) *apiError {
	return newAPIError(sqsNamespace+"InvalidMessageContents", "InvalidMessageContents", "The message contains the character %U, which is not allowed.", char)
}

// invalidAttributeName is the error for an invalid name of a queue attribute.
func invalidAttributeName(name string) *apiError {
	return newAPIError(sqsNamespace+"InvalidAttributeName", "InvalidAttributeName", "Queue attribute %q is unknown.", name)
}

// invalidAttributeValue is the error for an invalid value of a queue attribute.
func invalidAttributeValue(name, value, reason string) *apiError {
	return newAPIError(sqsNamespace+"InvalidAttributeValue", "InvalidAttributeValue", "Value %q of queue attribute %s is not valid: %s.", value, name, reason)
}

func emptyBatchRequest() *apiError {
	return newAPIError(sqsNamespace+"EmptyBatchRequest", legacyCodePrefix+"EmptyBatchRequest", "A batch needs at least one entry.")
}

func tooManyEntriesInBatch(n int) *apiError {
	return newAPIError(sqsNamespace+"TooManyEntriesInBatchRequest", legacyCodePrefix+"TooManyEntriesInBatchRequest", "A batch has at most 10 entries, not %d.", n)
}

func batchEntryIDsNotDistinct(id string) *apiError {
	return newAPIError(sqsNamespace+"BatchEntryIdsNotDistinct", legacyCodePrefix+"BatchEntryIdsNotDistinct", "Two entries of the batch have the id %q.", id)
}

func invalidBatchEntryID(id string) *apiError {
	return newAPIError(sqsNamespace+"InvalidBatchEntryId", legacyCodePrefix+"InvalidBatchEntryId", "The id %q is not 1 to 80 letters, digits, hyphens and underscores.", id)
}

// batchRequestTooLong is the error for a batch whose messages together exceed the limit.
func batchRequestTooLong(size, limit int) *apiError {
	return newAPIError(sqsNamespace+"BatchRequestTooLong", legacyCodePrefix+"BatchRequestTooLong", "The batch has %d bytes, the limit is %d.", size, limit)
}

func invalidParameterValue(format string, args ...any) *apiError {
	return newAPIError(coralNamespace+"InvalidParameterValueException", "InvalidParameterValue", format, args...)
}

func missingParameter(field string) *apiError {
	return newAPIError(coralNamespace+"MissingRequiredParameterException", "MissingParameter", "The request must contain the parameter %s.", field)
}

func unknownOperation(target string) *apiError {
	return newAPIError(coralNamespace+"UnknownOperationException", "InvalidAction", "This server does not implement %q; it accepts only AWS JSON 1.0.", target)
}

// serializationError is the error for a body that is not the JSON of its operation.
func serializationError(err error) *apiError {
	return newAPIError(coralNamespace+"SerializationException", "MalformedInput", "The request cannot be read: %v.", err)
}

// internalError is the error for a failure of the server; the client may retry.
func internalError(err error) *apiError {
	e := newAPIError(sqsNamespace+"InternalError", "InternalError", "%v", err)
	e.Status = http.StatusInternalServerError
	return e
}
