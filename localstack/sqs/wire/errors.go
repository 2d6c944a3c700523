package wire

import (
	"fmt"
	"net/http"
)

// Error is a refusal as the SDK reads it: Type selects the Go error type, Code
// is what its ErrorCode method answers. The two differ for historical reasons;
// the second travels in the header x-amzn-query-error.
type Error struct {
	Type    string // with its namespace
	Code    string
	Message string
	Status  int // HTTP
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// SenderFault tells whether the client is to blame, hence need not retry.
func (e *Error) SenderFault() bool { return e.Status < http.StatusInternalServerError }

const (
	modelled = "com.amazonaws.sqs#"        // errors that the service's model names
	coral    = "com.amazon.coral.service#" // errors of the framework below it
	legacy   = "AWS.SimpleQueueService."   // prefix of most codes of the older protocol
)

func refuse(kind, code, format string, args ...any) *Error {
	return &Error{Type: kind, Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

// NoQueue refuses a queue that does not exist.
func NoQueue(name string) *Error {
	return refuse(modelled+"QueueDoesNotExist", legacy+"NonExistentQueue", "The queue %q does not exist.", name)
}

// QueueExists refuses to create a queue again with other attributes.
func QueueExists(name, attribute string) *Error {
	return refuse(modelled+"QueueNameExists", "QueueAlreadyExists", "The queue %q exists with another value of %s.", name, attribute)
}

// BadReceipt refuses text that was never a receipt handle of the queue.
func BadReceipt() *Error {
	return refuse(modelled+"ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "The receipt handle is not valid for this queue.")
}

// NotInFlight refuses to change the visibility of a message nobody holds.
func NotInFlight() *Error {
	return refuse(modelled+"MessageNotInflight", legacy+"MessageNotInflight", "The message is not in flight.")
}

// OverLimit refuses to receive while too many messages are in flight.
func OverLimit(limit int) *Error {
	e := refuse(modelled+"OverLimit", "OverLimit", "%d messages of the queue are in flight already.", limit)
	e.Status = http.StatusForbidden
	return e
}

// BadContents refuses characters that a message must not hold.
func BadContents(char rune) *Error {
	return refuse(modelled+"InvalidMessageContents", "InvalidMessageContents", "The message holds the character %U, which is not allowed.", char)
}

// UnknownAttribute refuses the name of a queue attribute.
func UnknownAttribute(name string) *Error {
	return refuse(modelled+"InvalidAttributeName", "InvalidAttributeName", "The queue attribute %q is unknown.", name)
}

// BadAttribute refuses the value of a queue attribute.
func BadAttribute(name, value, why string) *Error {
	return refuse(modelled+"InvalidAttributeValue", "InvalidAttributeValue", "The value %q of the queue attribute %s is not valid: %s.", value, name, why)
}

// EmptyBatch refuses a batch without entries.
func EmptyBatch() *Error {
	return refuse(modelled+"EmptyBatchRequest", legacy+"EmptyBatchRequest", "A batch needs at least one entry.")
}

// TooManyEntries refuses a batch of more than ten.
func TooManyEntries(n int) *Error {
	return refuse(modelled+"TooManyEntriesInBatchRequest", legacy+"TooManyEntriesInBatchRequest", "A batch has at most 10 entries, not %d.", n)
}

// IDsNotDistinct refuses a batch in which two entries share an id.
func IDsNotDistinct(id string) *Error {
	return refuse(modelled+"BatchEntryIdsNotDistinct", legacy+"BatchEntryIdsNotDistinct", "The id %q names two entries of the batch.", id)
}

// BadEntryID refuses the id of a batch's entry.
func BadEntryID(id string) *Error {
	return refuse(modelled+"InvalidBatchEntryId", legacy+"InvalidBatchEntryId", "The id %q is not 1 to 80 letters, digits, hyphens and underscores.", id)
}

// BatchTooLong refuses a batch whose messages together exceed the limit.
func BatchTooLong(size, limit int) *Error {
	return refuse(modelled+"BatchRequestTooLong", legacy+"BatchRequestTooLong", "The batch has %d bytes, the limit is %d.", size, limit)
}

// NoTask refuses a dead-letter queue, destination or task that is not there.
func NoTask(format string, args ...any) *Error {
	e := refuse(modelled+"ResourceNotFoundException", "ResourceNotFoundException", format, args...)
	e.Status = http.StatusNotFound
	return e
}

// BadParameter refuses the value of a field.
func BadParameter(format string, args ...any) *Error {
	return refuse(coral+"InvalidParameterValueException", "InvalidParameterValue", format, args...)
}

// Missing refuses a request without a field that it needs.
func Missing(field string) *Error {
	return refuse(coral+"MissingRequiredParameterException", "MissingParameter", "The request must contain the parameter %s.", field)
}

// UnknownOperation refuses what this server does not do.
func UnknownOperation(target string) *Error {
	return refuse(coral+"UnknownOperationException", "InvalidAction", "The operation %q is not one of this server; only AWS JSON 1.0 is spoken.", target)
}

// Unreadable refuses a body that is not the JSON of its operation.
func Unreadable(err error) *Error {
	return refuse(coral+"SerializationException", "MalformedInput", "The request cannot be read: %v.", err)
}

// Internal reports that the server failed; the client may try again.
func Internal(err error) *Error {
	e := refuse(modelled+"InternalError", "InternalError", "%v", err)
	e.Status = http.StatusInternalServerError
	return e
}
