package sqs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

// in is a request as JSON, out a reply.
type (
	request map[string]any
	reply   struct {
		Status int
		Type   string `json:"__type"`
		Code   string

		QueueUrl   string
		QueueUrls  []string
		NextToken  string
		Attributes map[string]string
		Tags       map[string]string
		TaskHandle string
		Results    []map[string]any

		MessageId        string
		MD5OfMessageBody string
		SequenceNumber   string
		Messages         []message
		Successful       []map[string]any
		Failed           []struct {
			Id, Code    string
			SenderFault bool
		}
	}
	message struct {
		MessageId, ReceiptHandle, Body string
		Attributes                     map[string]string
		MessageAttributes              map[string]any
	}
)

func newServer(t *testing.T, o sqs.Options) *sqs.Server {
	t.Helper()
	s, err := sqs.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// call asks without a network, so that tests can run on a virtual clock.
func call(ctx context.Context, s *sqs.Server, operation string, request any) reply {
	body, ok := request.(string)
	if !ok {
		encoded, err := json.Marshal(request)
		if err != nil {
			panic(err)
		}
		body = string(encoded)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://queues.test/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	o := reply{Status: w.Code, Code: w.Header().Get("X-Amzn-Query-Error")}
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&o); err != nil {
		panic(err)
	}
	return o
}

func mustCall(t *testing.T, s *sqs.Server, operation string, request any) reply {
	t.Helper()
	o := call(t.Context(), s, operation, request)
	if o.Status != http.StatusOK {
		t.Fatalf("%s %v: %d %s %s", operation, request, o.Status, o.Type, o.Code)
	}
	return o
}

func createQueue(t *testing.T, s *sqs.Server, name string, attributes map[string]string) string {
	t.Helper()
	return mustCall(t, s, "CreateQueue", request{"QueueName": name, "Attributes": attributes}).QueueUrl
}

func send(t *testing.T, s *sqs.Server, url, body string) reply {
	t.Helper()
	return mustCall(t, s, "SendMessage", request{"QueueUrl": url, "MessageBody": body})
}

// receive takes up to ten messages and waits for the first of them.
func receive(t *testing.T, s *sqs.Server, url string, wait int) []message {
	t.Helper()
	return mustCall(t, s, "ReceiveMessage", request{"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": wait, "MessageSystemAttributeNames": []string{"All"}, "MessageAttributeNames": []string{"All"}}).Messages
}

func remove(t *testing.T, s *sqs.Server, url string, m message) {
	t.Helper()
	mustCall(t, s, "DeleteMessage", request{"QueueUrl": url, "ReceiptHandle": m.ReceiptHandle})
}

func queueAttribute(t *testing.T, s *sqs.Server, url, name string) string {
	t.Helper()
	return mustCall(t, s, "GetQueueAttributes", request{"QueueUrl": url, "AttributeNames": []string{"All"}}).Attributes[name]
}

func bodies(messages []message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Body)
	}
	return strings.Join(all, " ")
}

func redrivePolicy(t *testing.T, s *sqs.Server, dlq, count string) string {
	t.Helper()
	return `{"deadLetterTargetArn":"` + queueAttribute(t, s, dlq, "QueueArn") + `","maxReceiveCount":` + count + `}`
}
