package queue

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// Accept checks one entry against the queue's rules and makes a message of it,
// which is not in the queue yet.
func (q *Queue) Accept(in *wire.SendEntry, now time.Time) (*Message, error) {
	if in.MessageBody == nil || *in.MessageBody == "" {
		return nil, wire.Missing("MessageBody")
	}
	if i := strings.IndexFunc(*in.MessageBody, forbidden); i >= 0 {
		return nil, wire.BadContents([]rune((*in.MessageBody)[i:])[0])
	}
	delay, err := Within("DelaySeconds", in.DelaySeconds, q.Number("DelaySeconds"), 0, 900)
	if err != nil {
		return nil, err
	}
	if q.FIFO && in.DelaySeconds != nil && *in.DelaySeconds != 0 {
		return nil, wire.BadParameter("Value %d for parameter DelaySeconds is invalid. Reason: A FIFO queue delays all of its messages alike.", *in.DelaySeconds)
	}
	if err := checkAttributes(in.MessageAttributes); err != nil {
		return nil, err
	}
	for name, a := range in.MessageSystemAttributes {
		if name != "AWSTraceHeader" || a.DataType != "String" || a.StringValue == nil {
			return nil, wire.BadParameter("Message system attribute %q is invalid: only AWSTraceHeader, a String, can be sent.", name)
		}
	}
	m := &Message{Stored: Stored{
		ID:         uuid.NewString(),
		Body:       *in.MessageBody,
		Attributes: in.MessageAttributes,
		Trace:      in.MessageSystemAttributes,
		Group:      in.MessageGroupID,
		Sent:       now.UnixMilli(),
	}}
	if delay > 0 {
		m.NotBefore = now.Add(Seconds(delay)).UnixNano()
	}
	if most := q.Number("MaximumMessageSize"); m.Size() > most {
		return nil, wire.BadParameter("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", most)
	}
	return m, q.acceptOrder(in, m)
}

// forbidden tells whether a message must not hold the character.
func forbidden(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}

func checkAttributes(attributes map[string]wire.Attribute) error {
	if len(attributes) > 10 {
		return wire.BadParameter("Number of message attributes [%d] exceeds the allowed maximum [10].", len(attributes))
	}
	for name, a := range attributes {
		kind, _, _ := strings.Cut(a.DataType, ".")
		text := a.StringValue != nil && *a.StringValue != ""
		valid := kind == "Binary" && len(a.BinaryValue) > 0 && !text ||
			(kind == "String" || kind == "Number") && text && len(a.BinaryValue) == 0
		if !valid || name == "" || len(name) > 256 || len(a.DataType) > 256 {
			return wire.BadParameter("The message attribute %q must have a name, a type (String, Number, Binary) and one non-empty value of that type.", name)
		}
	}
	return nil
}

// Within is an optional number of a request, or the value it has if left out.
func Within(field string, given *int, otherwise, least, most int) (int, error) {
	if given == nil {
		return otherwise, nil
	}
	if *given < least || *given > most {
		return 0, wire.BadParameter("Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", *given, field, least, most)
	}
	return *given, nil
}

// Seconds is a duration from the unit of the protocol.
func Seconds(n int) time.Duration { return time.Duration(n) * time.Second }
