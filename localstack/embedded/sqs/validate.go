package sqs

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// newMessage checks one entry against the queue's rules and makes a message of it,
// which is not in the queue yet.
func (q *queue) newMessage(in *sendMessageEntry, now time.Time) (*message, error) {
	if in.MessageBody == nil || *in.MessageBody == "" {
		return nil, missingParameter("MessageBody")
	}
	if i := strings.IndexFunc(*in.MessageBody, isForbiddenRune); i >= 0 {
		return nil, invalidMessageContents([]rune((*in.MessageBody)[i:])[0])
	}
	delay, err := intInRange("DelaySeconds", in.DelaySeconds, q.intAttribute("DelaySeconds"), 0, 900)
	if err != nil {
		return nil, err
	}
	if q.fifo && in.DelaySeconds != nil && *in.DelaySeconds != 0 {
		return nil, invalidParameterValue("Value %d for parameter DelaySeconds is invalid. Reason: A FIFO queue delays all of its messages alike.", *in.DelaySeconds)
	}
	if err := validateMessageAttributes(in.MessageAttributes); err != nil {
		return nil, err
	}
	for name, a := range in.MessageSystemAttributes {
		if name != "AWSTraceHeader" || a.DataType != "String" || a.StringValue == nil {
			return nil, invalidParameterValue("Message system attribute %q is invalid: only AWSTraceHeader, a String, can be sent.", name)
		}
	}
	m := &message{storedMessage: storedMessage{
		ID:              uuid.NewString(),
		Body:            *in.MessageBody,
		Attributes:      in.MessageAttributes,
		TraceAttributes: in.MessageSystemAttributes,
		GroupID:         in.MessageGroupID,
		SentMillis:      now.UnixMilli(),
	}}
	if delay > 0 {
		m.NotBeforeNanos = now.Add(seconds(delay)).UnixNano()
	}
	if limit := q.intAttribute("MaximumMessageSize"); m.size() > limit {
		return nil, invalidParameterValue("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", limit)
	}
	return m, q.validateFIFO(in, m)
}

// isForbiddenRune tells whether a message must not hold the character.
func isForbiddenRune(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}

func validateMessageAttributes(attributes map[string]messageAttribute) error {
	if len(attributes) > 10 {
		return invalidParameterValue("Number of message attributes [%d] exceeds the allowed maximum [10].", len(attributes))
	}
	for name, a := range attributes {
		kind, _, _ := strings.Cut(a.DataType, ".")
		text := a.StringValue != nil && *a.StringValue != ""
		valid := kind == "Binary" && len(a.BinaryValue) > 0 && !text ||
			(kind == "String" || kind == "Number") && text && len(a.BinaryValue) == 0
		if !valid || name == "" || len(name) > 256 || len(a.DataType) > 256 {
			return invalidParameterValue("The message attribute %q must have a name, a type (String, Number, Binary) and one non-empty value of that type.", name)
		}
	}
	return nil
}

// intInRange is an optional number of a request, or the value it has if left out.
func intInRange(field string, given *int, fallback, minimum, maximum int) (int, error) {
	if given == nil {
		return fallback, nil
	}
	if *given < minimum || *given > maximum {
		return 0, invalidParameterValue("Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", *given, field, minimum, maximum)
	}
	return *given, nil
}

// seconds is a duration from the unit of the protocol.
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
