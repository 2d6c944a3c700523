package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// F66: an event that EventBridge has put into the queue starts an execution, once, however often it comes,
// also if the function that takes it is killed; so does one that the command hands in.
func TestEvent_StartsExecutionsFromTheQueueAndTheCommand(t *testing.T) {
	t.Parallel()
	q := serveQueues(t)
	s := startStack(t, stackOptions{env: []string{q.env()}})
	s.publish(`package: test
name: ordered
version: 1.0.0
parameters: {type: object, required: [order], properties: {order: {type: string}}}
triggers:
  event:
    - {name: placed, pattern: {source: [shop], detail-type: [placed], detail: {total: [{numeric: [">=", 100]}]}}, parameters: {order: "${event.detail.order}"}}
    - {name: paid, pattern: {detail-type: [paid]}, parameters: {order: "${event.detail.order}"}, key: "${event.detail.order}", signal: paid}
output: {order: "${parameters.order}"}
steps:
  - {label: a, set: {seen: "${parameters.order}"}}
`)
	client := awssqs.New(awssqs.Options{
		Region: "us-east-1", BaseEndpoint: &q.http.URL, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	queue, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String("lockstep-" + topology.QueueHooksIn)})
	if err != nil {
		t.Fatal(err)
	}
	put := func(id, detailType, detail string) {
		t.Helper()
		body := fmt.Sprintf(`{"v":1,"tenant":"default","event":{"version":"0","id":%q,"detail-type":%q,"source":"shop","account":"123456789012","time":"2026-11-21T05:00:00Z","region":"eu-west-1","resources":[],"detail":%s}}`, id, detailType, detail)
		if _, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	calls := func(trigger string) []workflow.TriggerCall {
		t.Helper()
		list, err := s.TriggerCalls(t.Context(), trigger)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for range 3 {
		put("e1", "placed", `{"order":"o-1","total":250}`)
	}
	put("e2", "placed", `{"order":"o-2","total":99}`)
	put("e3", "paid", `{"order":"o-3"}`)
	put("e4", "placed", `{"order":4,"total":250}`)
	var first string
	eventually(t, "the events are taken", func() bool {
		statuses := map[int]int{}
		for _, c := range calls("placed") {
			if statuses[c.Status]++; c.Status == 202 {
				first = c.Execution
			}
		}
		return statuses[202] == 1 && statuses[400] == 1 && statuses[200] > 0 && len(calls("paid")) == 1
	})
	s.waitForState(first, sm.ExecutionCompletedAck)
	if r, err := s.Result(t.Context(), first); err != nil || string(r.Output) != `{"order":"o-1"}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	paid := s.waitForState(calls("paid")[0].Execution, sm.ExecutionCompletedAck)
	if paid.CreatedBy != "~trigger/paid" {
		t.Errorf("%+v", paid)
	}

	sendFor := func(want int, id, detail string) string {
		t.Helper()
		code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "send", "--source", "shop", "--type", "placed", "--id", id, "--detail", detail)
		if code != want {
			t.Fatalf("exit %d\n%s%s", code, out, errOut)
		}
		return strings.TrimSpace(out)
	}
	send := func(id, detail string) string { t.Helper(); return sendFor(0, id, detail) }
	if out := send("e1", `{"order":"o-1","total":250}`); out != "placed  "+first+"  again" {
		t.Errorf("%q", out)
	}
	out := send("e5", `{"order":"o-5","total":100}`)
	name, id, _ := strings.Cut(out, "  ")
	if name != "placed" {
		t.Fatalf("%q", out)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	if out := send("e6", `{"order":"o-6"}`); out != "" {
		t.Errorf("%q", out)
	}
	if code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "pause", "placed"); code != 0 || !strings.Contains(out, "events  start test/ordered:1.0.0") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	if out := sendFor(3, "e7", `{"order":"o-7","total":100}`); !strings.HasPrefix(out, "placed  refused: ") {
		t.Errorf("%q", out)
	}
	code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "fire", "placed", "--body", `{"detail":{"order":"by hand"}}`)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	s.waitForState(strings.TrimSpace(out), sm.ExecutionCompletedAck)

	// What cannot be read as an event becomes a dead letter of its tenant, and is redriven as any other.
	bad := `{"v":1,"tenant":"default","event":{"no":"id"}}`
	dlq, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String("lockstep-" + topology.QueueHooksIn + topology.DLQSuffix)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: dlq.QueueUrl, MessageBody: &bad}); err != nil {
		t.Fatal(err)
	}
	for letters, err := range s.DeadLetters(t.Context(), topology.QueueHooksIn, 0) {
		if err != nil || letters.Messages != 1 || letters.DeadLetters[0].Execution != "" {
			t.Errorf("%+v, %v", letters, err)
		}
	}
	moved, err := s.Redrive(t.Context(), views.RedriveRequest{Queue: topology.QueueHooksIn})
	if err != nil || moved.Moved != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
}
