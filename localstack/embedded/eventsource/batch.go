package eventsource

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// maxBatchBytes ends a batch: an event with its envelope may have 6 MiB.
const maxBatchBytes = 5 << 20

func batchBytes(batch []types.Message) (n int) {
	for _, m := range batch {
		n += len(deref(m.Body))
	}
	return n
}

// origin is the queue that an event names as its source.
type origin struct{ arn, region string }

func newOrigin(m Mapping, host Host) origin {
	arn := m.QueueARN
	if arn == "" {
		account, name := host.Account, m.QueueURL
		if u, err := url.Parse(m.QueueURL); err == nil {
			parts := strings.Split(strings.Trim(u.Path, "/"), "/")
			name = parts[len(parts)-1]
			if len(parts) > 1 {
				account = parts[len(parts)-2]
			}
		}
		arn = "arn:aws:sqs:" + host.Region + ":" + account + ":" + name
	}
	return origin{arn: arn, region: host.Region}
}

// event encodes a batch as AWS does.
func (o origin) event(batch []types.Message) []byte {
	e := events.SQSEvent{Records: make([]events.SQSMessage, 0, len(batch))}
	for _, m := range batch {
		r := events.SQSMessage{
			MessageId:              deref(m.MessageId),
			ReceiptHandle:          deref(m.ReceiptHandle),
			Body:                   deref(m.Body),
			Md5OfBody:              deref(m.MD5OfBody),
			Md5OfMessageAttributes: deref(m.MD5OfMessageAttributes),
			Attributes:             m.Attributes,
			MessageAttributes:      map[string]events.SQSMessageAttribute{},
			EventSource:            "aws:sqs",
			EventSourceARN:         o.arn,
			AWSRegion:              o.region,
		}
		if r.Attributes == nil {
			r.Attributes = map[string]string{}
		}
		for name, a := range m.MessageAttributes {
			r.MessageAttributes[name] = events.SQSMessageAttribute{
				StringValue: a.StringValue, BinaryValue: a.BinaryValue, DataType: deref(a.DataType),
				// SQS has reserved list values and never accepted any.
				StringListValues: []string{}, BinaryListValues: [][]byte{},
			}
		}
		e.Records = append(e.Records, r)
	}
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and maps of strings always encode
	}
	return body
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// successfulMessages returns the messages of a batch that a reply does not report as
// failed. By AWS's rules, with an empty or missing list all succeeded; with an invalid
// reply none did, and problem says what is wrong.
func successfulMessages(batch []types.Message, reply []byte) (done []types.Message, problem string) {
	if len(reply) == 0 {
		return batch, ""
	}
	var report struct {
		Failures []struct {
			ID *string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if err := json.Unmarshal(reply, &report); err != nil {
		return nil, fmt.Sprintf("the reply is not a batch response: %v", err)
	}
	failed := map[string]bool{}
	for _, f := range report.Failures {
		if f.ID == nil || *f.ID == "" {
			return nil, "a failure has no itemIdentifier"
		}
		failed[*f.ID] = true
	}
	for _, m := range batch {
		if failed[deref(m.MessageId)] {
			delete(failed, deref(m.MessageId))
		} else {
			done = append(done, m)
		}
	}
	for id := range failed {
		return nil, fmt.Sprintf("%q is not in the batch", id)
	}
	return done, ""
}
