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

// request and reply are the JSON of an operation.
type (
	request map[string]any
	reply   struct {
		Status  int
		Type    string `json:"__type"`
		Message string `json:"message"`
		Code    string

		QueueUrl   string
		Attributes map[string]string

		MessageId  string
		Messages   []message
		Successful []map[string]any
		Failed     []struct {
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

func newServer(t *testing.T, options sqs.Options) *sqs.Server {
	t.Helper()
	s, err := sqs.New(options)
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

// call calls the handler without a network, so that tests can use a virtual clock.
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
	out := reply{Status: w.Code, Code: w.Header().Get("X-Amzn-Query-Error")}
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&out); err != nil {
		panic(err)
	}
	return out
}

func mustCall(t *testing.T, s *sqs.Server, operation string, request any) reply {
	t.Helper()
	out := call(t.Context(), s, operation, request)
	if out.Status != http.StatusOK {
		t.Fatalf("%s %v: %d %s %s", operation, request, out.Status, out.Type, out.Code)
	}
	return out
}

func createQueue(t *testing.T, s *sqs.Server, name string, attributes map[string]string) string {
	t.Helper()
	return mustCall(t, s, "CreateQueue", request{"QueueName": name, "Attributes": attributes}).QueueUrl
}

func send(t *testing.T, s *sqs.Server, url, body string) reply {
	t.Helper()
	return mustCall(t, s, "SendMessage", request{"QueueUrl": url, "MessageBody": body})
}

// receive receives up to ten messages and waits up to wait seconds for the first.
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
