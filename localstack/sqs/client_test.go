package sqs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/sqs"
)

// in is a request as JSON, out a reply.
type (
	in  map[string]any
	out struct {
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

func server(t *testing.T, o sqs.Options) *sqs.Server {
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

// try asks without a network, so that tests can run on a virtual clock.
func try(ctx context.Context, s *sqs.Server, operation string, request any) out {
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
	o := out{Status: w.Code, Code: w.Header().Get("X-Amzn-Query-Error")}
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&o); err != nil {
		panic(err)
	}
	return o
}

func ask(t *testing.T, s *sqs.Server, operation string, request any) out {
	t.Helper()
	o := try(t.Context(), s, operation, request)
	if o.Status != http.StatusOK {
		t.Fatalf("%s %v: %d %s %s", operation, request, o.Status, o.Type, o.Code)
	}
	return o
}

func create(t *testing.T, s *sqs.Server, name string, attributes map[string]string) string {
	t.Helper()
	return ask(t, s, "CreateQueue", in{"QueueName": name, "Attributes": attributes}).QueueUrl
}

func send(t *testing.T, s *sqs.Server, url, body string) out {
	t.Helper()
	return ask(t, s, "SendMessage", in{"QueueUrl": url, "MessageBody": body})
}

// receive takes up to ten messages and waits for the first of them.
func receive(t *testing.T, s *sqs.Server, url string, wait int) []message {
	t.Helper()
	return ask(t, s, "ReceiveMessage", in{"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": wait, "MessageSystemAttributeNames": []string{"All"}, "MessageAttributeNames": []string{"All"}}).Messages
}

func remove(t *testing.T, s *sqs.Server, url string, m message) {
	t.Helper()
	ask(t, s, "DeleteMessage", in{"QueueUrl": url, "ReceiptHandle": m.ReceiptHandle})
}

func attribute(t *testing.T, s *sqs.Server, url, name string) string {
	t.Helper()
	return ask(t, s, "GetQueueAttributes", in{"QueueUrl": url, "AttributeNames": []string{"All"}}).Attributes[name]
}

func bodies(messages []message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Body)
	}
	return strings.Join(all, " ")
}

func redrive(t *testing.T, s *sqs.Server, dlq, count string) string {
	t.Helper()
	return `{"deadLetterTargetArn":"` + attribute(t, s, dlq, "QueueArn") + `","maxReceiveCount":` + count + `}`
}
