package sqs

import (
	"fmt"
	"net/http"
)

// apiError is a refusal as the SDK reads it: Type selects the Go error type, Code
// is what its ErrorCode method answers. The two differ for historical reasons;
// the second travels in the header x-amzn-query-error.
type apiError struct {
	Type    string // with its namespace
	Code    string
	Message string
	Status  int // HTTP
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// isSenderFault tells whether the client is to blame, hence need not retry.
func (e *apiError) isSenderFault() bool { return e.Status < http.StatusInternalServerError }

const (
	sqsNamespace     = "com.amazonaws.sqs#"        // errors that the service's model names
	coralNamespace   = "com.amazon.coral.service#" // errors of the framework below it
	legacyCodePrefix = "AWS.SimpleQueueService."   // prefix of most codes of the older protocol
)

func newAPIError(kind, code, format string, args ...any) *apiError {
	return &apiError{Type: kind, Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

// queueDoesNotExist refuses a queue that does not exist.
func queueDoesNotExist(name string) *apiError {
	return newAPIError(sqsNamespace+"QueueDoesNotExist", legacyCodePrefix+"NonExistentQueue", "The queue %q does not exist.", name)
}

// queueNameExists refuses to create a queue again with other attributes.
func queueNameExists(name, attribute string) *apiError {
	return newAPIError(sqsNamespace+"QueueNameExists", "QueueAlreadyExists", "The queue %q exists with another value of %s.", name, attribute)
}

// receiptHandleIsInvalid refuses text that was never a receipt handle of the queue.
func receiptHandleIsInvalid() *apiError {
	return newAPIError(sqsNamespace+"ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "The receipt handle is not valid for this queue.")
}

// messageNotInFlight refuses to change the visibility of a message nobody holds.
func messageNotInFlight() *apiError {
	return newAPIError(sqsNamespace+"MessageNotInflight", legacyCodePrefix+"MessageNotInflight", "The message is not in flight.")
}

// overLimit refuses to receive while too many messages are in flight.
func overLimit(limit int) *apiError {
	e := newAPIError(sqsNamespace+"OverLimit", "OverLimit", "%d messages of the queue are in flight already.", limit)
	e.Status = http.StatusForbidden
	return e
}

// invalidMessageContents refuses characters that a message must not hold.
func invalidMessageContents(char rune) *apiError {
	return newAPIError(sqsNamespace+"InvalidMessageContents", "InvalidMessageContents", "The message holds the character %U, which is not allowed.", char)
}

// invalidAttributeName refuses the name of a queue attribute.
func invalidAttributeName(name string) *apiError {
	return newAPIError(sqsNamespace+"InvalidAttributeName", "InvalidAttributeName", "The queue attribute %q is unknown.", name)
}

// invalidAttributeValue refuses the value of a queue attribute.
func invalidAttributeValue(name, value, reason string) *apiError {
	return newAPIError(sqsNamespace+"InvalidAttributeValue", "InvalidAttributeValue", "The value %q of the queue attribute %s is not valid: %s.", value, name, reason)
}

// emptyBatchRequest refuses a batch without entries.
func emptyBatchRequest() *apiError {
	return newAPIError(sqsNamespace+"EmptyBatchRequest", legacyCodePrefix+"EmptyBatchRequest", "A batch needs at least one entry.")
}

// tooManyEntriesInBatch refuses a batch of more than ten.
func tooManyEntriesInBatch(n int) *apiError {
	return newAPIError(sqsNamespace+"TooManyEntriesInBatchRequest", legacyCodePrefix+"TooManyEntriesInBatchRequest", "A batch has at most 10 entries, not %d.", n)
}

// batchEntryIDsNotDistinct refuses a batch in which two entries share an id.
func batchEntryIDsNotDistinct(id string) *apiError {
	return newAPIError(sqsNamespace+"BatchEntryIdsNotDistinct", legacyCodePrefix+"BatchEntryIdsNotDistinct", "The id %q names two entries of the batch.", id)
}

// invalidBatchEntryID refuses the id of a batch's entry.
func invalidBatchEntryID(id string) *apiError {
	return newAPIError(sqsNamespace+"InvalidBatchEntryId", legacyCodePrefix+"InvalidBatchEntryId", "The id %q is not 1 to 80 letters, digits, hyphens and underscores.", id)
}

// batchRequestTooLong refuses a batch whose messages together exceed the limit.
func batchRequestTooLong(size, limit int) *apiError {
	return newAPIError(sqsNamespace+"BatchRequestTooLong", legacyCodePrefix+"BatchRequestTooLong", "The batch has %d bytes, the limit is %d.", size, limit)
}

// resourceNotFound refuses a dead-letter queue, destination or task that is not there.
func resourceNotFound(format string, args ...any) *apiError {
	e := newAPIError(sqsNamespace+"ResourceNotFoundException", "ResourceNotFoundException", format, args...)
	e.Status = http.StatusNotFound
	return e
}

// invalidParameterValue refuses the value of a field.
func invalidParameterValue(format string, args ...any) *apiError {
	return newAPIError(coralNamespace+"InvalidParameterValueException", "InvalidParameterValue", format, args...)
}

// missingParameter refuses a request without a field that it needs.
func missingParameter(field string) *apiError {
	return newAPIError(coralNamespace+"MissingRequiredParameterException", "MissingParameter", "The request must contain the parameter %s.", field)
}

// unknownOperation refuses what this server does not do.
func unknownOperation(target string) *apiError {
	return newAPIError(coralNamespace+"UnknownOperationException", "InvalidAction", "The operation %q is not one of this server; only AWS JSON 1.0 is spoken.", target)
}

// serializationError refuses a body that is not the JSON of its operation.
func serializationError(err error) *apiError {
	return newAPIError(coralNamespace+"SerializationException", "MalformedInput", "The request cannot be read: %v.", err)
}

// internalError reports that the server failed; the client may try again.
func internalError(err error) *apiError {
	e := newAPIError(sqsNamespace+"InternalError", "InternalError", "%v", err)
	e.Status = http.StatusInternalServerError
	return e
}
