package sqs_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

func TestServer_RejectsInvalidRequests(t *testing.T) {
	s := newServer(t, sqs.Options{})
	u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "10"})
	other := createQueue(t, s, "other", nil)
	send(t, s, u, "x")
	m := receive(t, s, u, 0)[0]
	mustCall(t, s, "ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": m.ReceiptHandle, "VisibilityTimeout": 0})
	const model, coral, old = "com.amazonaws.sqs#", "com.amazon.coral.service#", "AWS.SimpleQueueService."
	entries := func(ids ...string) []request {
		list := []request{}
		for _, id := range ids {
			list = append(list, request{"Id": id, "MessageBody": "x"})
		}
		return list
	}
	big := strings.Repeat("x", 600<<10)
	for name, c := range map[string]struct {
		operation string
		request   any
		kind      string // __type
		code      string // of the header
	}{
		"no queue":                        {"SendMessage", request{"QueueUrl": "http://x/1/none", "MessageBody": "x"}, model + "QueueDoesNotExist", old + "NonExistentQueue"},
		"no queue of that name":           {"GetQueueUrl", request{"QueueName": "none"}, model + "QueueDoesNotExist", old + "NonExistentQueue"},
		"no queue name":                   {"GetQueueUrl", request{}, coral + "MissingRequiredParameterException", "MissingParameter"},
		"no queue URL":                    {"ReceiveMessage", request{}, coral + "MissingRequiredParameterException", "MissingParameter"},
		"other attributes":                {"CreateQueue", request{"QueueName": "q", "Attributes": request{"VisibilityTimeout": "11"}}, model + "QueueNameExists", "QueueAlreadyExists"},
		"bad queue name":                  {"CreateQueue", request{"QueueName": "a b"}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"unknown attribute":               {"SetQueueAttributes", request{"QueueUrl": u, "Attributes": request{"Colour": "red"}}, model + "InvalidAttributeName", "InvalidAttributeName"},
		"unknown attribute read":          {"GetQueueAttributes", request{"QueueUrl": u, "AttributeNames": []string{"Colour"}}, model + "InvalidAttributeName", "InvalidAttributeName"},
		"attribute out of range":          {"SetQueueAttributes", request{"QueueUrl": u, "Attributes": request{"DelaySeconds": "901"}}, model + "InvalidAttributeValue", "InvalidAttributeValue"},
		"no dead-letter queue":            {"SetQueueAttributes", request{"QueueUrl": u, "Attributes": request{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:none","maxReceiveCount":3}`}}, model + "InvalidAttributeValue", "InvalidAttributeValue"},
		"bad redrive policy":              {"SetQueueAttributes", request{"QueueUrl": u, "Attributes": request{"RedrivePolicy": `{"maxReceiveCount":0}`}}, model + "InvalidAttributeValue", "InvalidAttributeValue"},
		"empty body":                      {"SendMessage", request{"QueueUrl": u, "MessageBody": ""}, coral + "MissingRequiredParameterException", "MissingParameter"},
		"control character":               {"SendMessage", request{"QueueUrl": u, "MessageBody": "a\x00"}, model + "InvalidMessageContents", "InvalidMessageContents"},
		"too large":                       {"SendMessage", request{"QueueUrl": u, "MessageBody": strings.Repeat("x", 1<<20+1)}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"delay too long":                  {"SendMessage", request{"QueueUrl": u, "MessageBody": "x", "DelaySeconds": 901}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"attribute without value":         {"SendMessage", request{"QueueUrl": u, "MessageBody": "x", "MessageAttributes": request{"a": request{"DataType": "String"}}}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"empty batch":                     {"SendMessageBatch", request{"QueueUrl": u}, model + "EmptyBatchRequest", old + "EmptyBatchRequest"},
		"eleven entries":                  {"SendMessageBatch", request{"QueueUrl": u, "Entries": entries(strings.Split("a b c d e f g h i j k", " ")...)}, model + "TooManyEntriesInBatchRequest", old + "TooManyEntriesInBatchRequest"},
		"duplicate id":                    {"SendMessageBatch", request{"QueueUrl": u, "Entries": entries("a", "a")}, model + "BatchEntryIdsNotDistinct", old + "BatchEntryIdsNotDistinct"},
		"bad id":                          {"SendMessageBatch", request{"QueueUrl": u, "Entries": entries("a b")}, model + "InvalidBatchEntryId", old + "InvalidBatchEntryId"},
		"batch too long":                  {"SendMessageBatch", request{"QueueUrl": u, "Entries": []request{{"Id": "a", "MessageBody": big}, {"Id": "b", "MessageBody": big}}}, model + "BatchRequestTooLong", old + "BatchRequestTooLong"},
		"eleven messages":                 {"ReceiveMessage", request{"QueueUrl": u, "MaxNumberOfMessages": 11}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"long poll too long":              {"ReceiveMessage", request{"QueueUrl": u, "WaitTimeSeconds": 21}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"no receipt handle":               {"DeleteMessage", request{"QueueUrl": u}, coral + "MissingRequiredParameterException", "MissingParameter"},
		"bad receipt handle":              {"DeleteMessage", request{"QueueUrl": u, "ReceiptHandle": "x"}, model + "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"},
		"receipt handle of another queue": {"DeleteMessage", request{"QueueUrl": other, "ReceiptHandle": m.ReceiptHandle}, model + "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"},
		"message not in flight":           {"ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": m.ReceiptHandle, "VisibilityTimeout": 1}, model + "MessageNotInflight", old + "MessageNotInflight"},
		"visibility too long":             {"ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": m.ReceiptHandle, "VisibilityTimeout": 43201}, coral + "InvalidParameterValueException", "InvalidParameterValue"},
		"not JSON":                        {"GetQueueUrl", "{", coral + "SerializationException", "MalformedInput"},
		"wrong type":                      {"GetQueueUrl", `{"QueueName":1}`, coral + "SerializationException", "MalformedInput"},
		"unknown operation":               {"AddPermission", request{}, coral + "UnknownOperationException", "InvalidAction"},
	} {
		t.Run(name, func(t *testing.T) {
			o := call(t.Context(), s, c.operation, c.request)
			if o.Status/100 != 4 || o.Type != c.kind || o.Code != c.code+";Sender" {
				t.Errorf("got %d %s %s, want %s %s", o.Status, o.Type, o.Code, c.kind, c.code)
			}
		})
	}
	if n := queueAttribute(t, s, u, "ApproximateNumberOfMessages"); n != "1" {
		t.Errorf("a rejected request changed the queue: %s messages, want 1", n)
	}
}

func TestServer_BatchReportsFailedEntries(t *testing.T) {
	s := newServer(t, sqs.Options{})
	u := createQueue(t, s, "q", nil)
	o := mustCall(t, s, "SendMessageBatch", request{"QueueUrl": u, "Entries": []request{{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": ""}}})
	if len(o.Successful) != 1 || o.Successful[0]["Id"] != "good" || len(o.Failed) != 1 || o.Failed[0].Id != "bad" || !o.Failed[0].SenderFault {
		t.Fatalf("send: %+v", o)
	}
	m := receive(t, s, u, 0)[0]
	for _, operation := range []string{"ChangeMessageVisibilityBatch", "DeleteMessageBatch"} {
		o = mustCall(t, s, operation, request{"QueueUrl": u, "Entries": []request{{"Id": "good", "ReceiptHandle": m.ReceiptHandle, "VisibilityTimeout": 9}, {"Id": "bad", "ReceiptHandle": "?"}}})
		if len(o.Successful) != 1 || len(o.Failed) != 1 || o.Failed[0].Code != "ReceiptHandleIsInvalid" {
			t.Errorf("%s: %+v", operation, o)
		}
	}
}

func TestServer_DeletesQueues(t *testing.T) {
	s := newServer(t, sqs.Options{})
	u := createQueue(t, s, "q", nil)
	send(t, s, u, "x")
	mustCall(t, s, "DeleteQueue", request{"QueueUrl": u})
	if reply := call(t.Context(), s, "GetQueueUrl", request{"QueueName": "q"}); reply.Status == http.StatusOK {
		t.Error("a deleted queue is found")
	}
	if got := receive(t, s, createQueue(t, s, "q", nil), 0); len(got) != 0 {
		t.Errorf("a queue created again has the messages %v", got)
	}
}

func TestServer_AutoCreatesQueues(t *testing.T) {
	var names []string
	s := newServer(t, sqs.Options{AutoCreate: func(name string) (map[string]string, bool) {
		names = append(names, name)
		if name == "jobs-x" {
			return map[string]string{"VisibilityTimeout": "77", "RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:jobs-x-dlq","maxReceiveCount":20}`}, true
		}
		return nil, name == "jobs-x-dlq"
	}})
	u := mustCall(t, s, "GetQueueUrl", request{"QueueName": "jobs-x"}).QueueUrl
	if queueAttribute(t, s, u, "VisibilityTimeout") != "77" || !slices.Equal(names, []string{"jobs-x", "jobs-x-dlq"}) {
		t.Errorf("AutoCreate was called for %v", names)
	}
	send(t, s, "http://anywhere/1/jobs-x-dlq", "x")
	if o := call(t.Context(), s, "SendMessage", request{"QueueUrl": "http://x/1/other", "MessageBody": "x"}); o.Type != "com.amazonaws.sqs#QueueDoesNotExist" {
		t.Errorf("a send created a queue that AutoCreate rejected: %+v", o)
	}
	if o := call(t.Context(), s, "ReceiveMessage", request{"QueueUrl": "http://x/1/jobs-y"}); o.Status == http.StatusOK {
		t.Error("a receive created a queue")
	}
}

// N12: every message arrives twice and in random order. End-to-end tests use the same
// faults over /_faults.
func TestServer_FaultsDuplicateAndReorder(t *testing.T) {
	s := newServer(t, sqs.Options{})
	u, unaffected := createQueue(t, s, "jobs-a", nil), createQueue(t, s, "lifecycle", nil)
	control := func(method, body string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "/_faults", strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	if code, text := control(http.MethodPost, `{"seed":7,"duplicate":1,"reorder":1,"queues":["jobs-*"]}`); code != http.StatusOK {
		t.Fatal(text)
	}
	order := ""
	for i := range 10 {
		order += string(rune('a' + i))
		send(t, s, u, order[i:])
		send(t, s, unaffected, order[i:])
	}
	seen, ids, got := map[string]int{}, map[string]string{}, ""
	for range 2 {
		for _, m := range receive(t, s, u, 0) {
			seen[m.Body]++
			got += m.Body
			if id, ok := ids[m.Body]; ok && id != m.MessageId {
				t.Errorf("message %s has two ids", m.Body)
			}
			ids[m.Body] = m.MessageId
			remove(t, s, u, m) // must not delete the copy
		}
	}
	for i := range 10 {
		if seen[order[i:i+1]] != 2 {
			t.Errorf("%q was delivered %d times", order[i], seen[order[i:i+1]])
		}
	}
	if strings.HasPrefix(got, "aabb") {
		t.Errorf("messages are still in order: %s", got)
	}
	if b := strings.ReplaceAll(bodies(receive(t, s, unaffected, 0)), " ", ""); b != order {
		t.Errorf("a queue outside the patterns has faults: %s", b)
	}
	_, text := control(http.MethodGet, "")
	var state struct{ Counts sqs.FaultCounts }
	if err := json.Unmarshal([]byte(text), &state); err != nil || state.Counts.Duplicated != 10 || state.Counts.Reordered == 0 {
		t.Errorf("state %s, %v", text, err)
	}
	for _, bad := range []string{`{"duplicate":2}`, `{"duplicat":1}`, `{"dropReply":{"Send":1}}`, `{"maxDelayMillis":-1}`, `{"queues":["["]}`, `x`} {
		if code, _ := control(http.MethodPost, bad); code != http.StatusBadRequest {
			t.Errorf("%s was accepted: %d", bad, code)
		}
	}
	if f, _ := s.FaultState(); f.Duplicate != 1 {
		t.Error("a rejected request changed the faults")
	}
	if code, _ := control(http.MethodPost, `{}`); code != http.StatusOK {
		t.Error("the faults cannot be ended")
	}
	send(t, s, u, "once")
	if got := receive(t, s, u, 0); len(got) != 1 {
		t.Errorf("%d copies without faults, want 1", len(got))
	}
	if code, _ := control(http.MethodDelete, ""); code != http.StatusMethodNotAllowed {
		t.Error("DELETE was accepted")
	}
}

// N13, lost reply: the client sees a broken connection and the message is stored.
func TestServer_FaultsDropReplies(t *testing.T) {
	s := newServer(t, sqs.Options{})
	u := createQueue(t, s, "q", nil)
	web := httptest.NewServer(s)
	defer web.Close()
	if err := s.SetFaults(sqs.Faults{DropReply: map[string]float64{"SendMessage": 1}}); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, web.URL, strings.NewReader(`{"QueueUrl":"`+u+`","MessageBody":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	if reply, err := http.DefaultClient.Do(r); err == nil {
		t.Errorf("got a reply: %s", reply.Status)
		_ = reply.Body.Close()
	}
	if got := receive(t, s, u, 0); len(got) != 1 {
		t.Errorf("%d messages, want the one whose reply was lost", len(got))
	}
	if err := s.SetFaults(sqs.Faults{DropReply: map[string]float64{"*": 1, "GetQueueUrl": 0}}); err != nil {
		t.Fatal(err)
	}
	mustCall(t, s, "GetQueueUrl", request{"QueueName": "q"})
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("* does not drop other replies: %v", err)
			}
		}()
		call(t.Context(), s, "GetQueueAttributes", request{"QueueUrl": u})
	}()
	if _, counts := s.FaultState(); counts.Dropped != 2 {
		t.Errorf("%d dropped replies counted, want 2", counts.Dropped)
	}
}

func TestServer_UsageCountsIn64KB(t *testing.T) {
	s := newServer(t, sqs.Options{})
	u := createQueue(t, s, "q", nil)
	send(t, s, u, strings.Repeat("x", 64<<10))
	send(t, s, u, strings.Repeat("x", 64<<10+1))
	receive(t, s, u, 0) // 128 KB and one byte
	receive(t, s, u, 0) // an empty receive is billed too
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/_meter", nil))
	var usage sqs.Usage
	if err := json.Unmarshal(w.Body.Bytes(), &usage); err != nil {
		t.Fatal(err)
	}
	for operation, want := range map[string]sqs.OperationUsage{
		"SendMessage":    {Requests: 2, Billed: 3, Bytes: 128<<10 + 1},
		"ReceiveMessage": {Requests: 2, Billed: 4, Bytes: 128<<10 + 1},
		"CreateQueue":    {Requests: 1, Billed: 1},
	} {
		if got := usage["q"][operation]; got != want {
			t.Errorf("%s: %+v, want %+v", operation, got, want)
		}
	}
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/_meter", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// A server with a path is found by the SDK whose endpoint has it, hands out URLs of queues with it, and
// answers nobody else, whatever is asked.
func TestServer_AnswersBelowItsPathOnly(t *testing.T) {
	server := httptest.NewServer(newServer(t, sqs.Options{Path: "/secret"}))
	defer server.Close()
	connect := func(path string) *awssqs.Client {
		return awssqs.New(awssqs.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL + path), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: aws.NopRetryer{}})
	}
	client := connect("/secret")
	q, err := client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: aws.String("q")})
	if err != nil || *q.QueueUrl != server.URL+"/secret/000000000000/q" {
		t.Fatalf("%+v, %v", q, err)
	}
	if _, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("m")}); err != nil {
		t.Fatal(err)
	}
	if got, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: q.QueueUrl}); err != nil || len(got.Messages) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, path := range []string{"", "/guess"} {
		if _, err := connect(path).ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: q.QueueUrl}); err == nil || !strings.Contains(err.Error(), "StatusCode: 404") {
			t.Errorf("%q: %v", path, err)
		}
	}
	for path, want := range map[string]int{"/_meter": http.StatusNotFound, "/secret/_meter": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close() // only the status matters
		if reply.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, reply.StatusCode, want)
		}
	}
}
