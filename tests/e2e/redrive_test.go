package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A dead-lettered message is listed with its execution, only for its tenant. A redrive
// puts it back, and the execution continues.
func TestRedrive_RestartsExecution(t *testing.T) {
	t.Parallel()
	q := serveQueues(t)
	s := startStack(t, stackOptions{env: []string{q.env()}})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("once", workflow.Block{})
	id := s.startExecution("test/once", `{}`, "e-0001")

	client := awssqs.New(awssqs.Options{
		Region: "us-east-1", BaseEndpoint: &q.http.URL, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	url := func(name string) *string {
		out, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String("lockstep-" + name)})
		if err != nil {
			t.Fatal(err)
		}
		return out.QueueUrl
	}
	name := topology.JobsQueue("edge-once")
	queue, dlq := url(name), url(name+topology.DLQSuffix)
	attributes := func(queue *string, name types.QueueAttributeName) string {
		out, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: []types.QueueAttributeName{name}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes[string(name)]
	}
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"3"}`, attributes(dlq, types.QueueAttributeNameQueueArn))
	if _, err := client.SetQueueAttributes(t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: queue, Attributes: map[string]string{"RedrivePolicy": policy}}); err != nil {
		t.Fatal(err)
	}
	// Receive the message without deleting it until it is dead-lettered.
	eventually(t, "the message is a dead letter", func() bool {
		got, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: queue})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			makeVisible := &awssqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0}
			if _, err := client.ChangeMessageVisibility(t.Context(), makeVisible); err != nil {
				t.Fatal(err)
			}
		}
		return attributes(dlq, types.QueueAttributeNameApproximateNumberOfMessages) == "1"
	})

	service := "--url=" + s.url
	code, out, err := runLockstep(t, "", service, "redrive", "--list", "-o", "json")
	var listed []views.DeadLetterQueue
	if failure := json.Unmarshal([]byte(out), &listed); code != 0 || failure != nil {
		t.Fatalf("exit %d, %v\n%s%s", code, failure, out, err)
	}
	deadLetters := ""
	for _, q := range listed {
		for _, l := range q.DeadLetters {
			deadLetters += q.Queue + " " + l.Execution + " "
		}
	}
	if deadLetters != name+" "+id+" " {
		t.Errorf("listed %s", out)
	}
	if code, out, err := runLockstep(t, "", service, "--tenant=other", "redrive", "-o", "json"); code != 0 || strings.Contains(out+err, id) || !strings.Contains(out, `"moved": 0`) {
		t.Errorf("another tenant: exit %d\n%s%s", code, out, err)
	}
	if code, out, err := runLockstep(t, "", service, "redrive", "--queue", name); code != 0 || !strings.Contains(out+err, "1") {
		t.Errorf("exit %d\n%s%s", code, out, err)
	}
	if err := s.finishPack(s.pollUntilPack("w1", "once"), "OK", `{}`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	if code, out, err := runLockstep(t, "", service, "sweep"); code != 0 {
		t.Errorf("sweep: exit %d\n%s%s", code, out, err)
	}
	if code, _, err := runLockstep(t, "", service, "redrive", "--queue", "nonsense"); code != 2 && code != 3 || !strings.Contains(err, "queue") {
		t.Errorf("invalid queue: exit %d\n%s", code, err)
	}
}
