package conformance

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func inGroup(group, id string) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) {
		in.MessageGroupId, in.MessageDeduplicationId = optional(group), optional(id)
	}
}

func joined(messages []types.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, aws.ToString(m.Body))
	}
	return strings.Join(all, " ")
}

func fifoOrder(t *testing.T) {
	u := newQueue(t, "order.fifo", "FifoQueue", "true", "VisibilityTimeout", "60")
	for _, body := range strings.Split("x1 x2 y1 x3", " ") {
		mustEnqueue(t, u, body, inGroup(body[:1], body))
	}
	first := mustFetch(t, u, 1, 1)
	same(t, "first", joined(first), "x1")
	same(t, "group", first[0].Attributes["MessageGroupId"], "x")
	same(t, "has a sequence number", first[0].Attributes["SequenceNumber"] != "", true)
	same(t, "while group x is held", joined(mustFetch(t, u, 1, 1)), "y1")
	none(t, "while both groups are held", u)
	done(t, u, first[0])
	next := joined(mustFetch(t, u, 10, 1))
	if next != "x2 x3" && next != "x2" { // one receive may give several of a group
		t.Fatalf("after the delete: %q", next)
	}
	_, err := enqueue(t, u, "z", inGroup("", "z"))
	same(t, "without a group refused", err != nil, true)
}

func fifoRepetitions(t *testing.T) {
	u := newQueue(t, "repeat.fifo", "FifoQueue", "true", "ContentBasedDeduplication", "true")
	first := mustEnqueue(t, u, "content", inGroup("a", ""))
	second := mustEnqueue(t, u, "content", inGroup("b", ""))
	same(t, "id of the repetition", aws.ToString(second.MessageId), aws.ToString(first.MessageId))
	mustEnqueue(t, u, "by id", inGroup("c", "id"))
	mustEnqueue(t, u, "other content", inGroup("d", "id"))
	same(t, "messages", joined(mustFetch(t, u, 10, 1)), "content by id")
	none(t, "after all", u)
}
