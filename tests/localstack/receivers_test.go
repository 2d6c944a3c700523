package localstack

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/engine"
)

// receiveAll receives as many messages of a queue.
func receiveAll(t *testing.T, url string, want int) (bodies []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(bodies) < want && time.Now().Before(deadline); {
		out, err := sqsClient().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			bodies = append(bodies, aws.ToString(m.Body))
			if _, err := sqsClient().DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(bodies) != want {
		t.Fatalf("%d messages, want %d: %q", len(bodies), want, bodies)
	}
	return bodies
}

// What a subscription sends to a bus and to a topic arrives there: more events than one request
// takes, each once.
func TestReceivers_ReachBusesAndTopics(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	config := aws.Config{Region: region, BaseEndpoint: aws.String(localStack.URL()), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	buses, topics := eventbridge.NewFromConfig(config), sns.NewFromConfig(config)
	name := fmt.Sprintf("receivers-%d", time.Now().UnixNano())
	queue := func(suffix string) (url, arn string) {
		out, err := sqsClient().CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name + suffix)})
		if err != nil {
			t.Fatal(err)
		}
		return *out.QueueUrl, attribute(t, *out.QueueUrl, types.QueueAttributeNameQueueArn)
	}
	busQueue, busQueueARN := queue("-bus")
	topicQueue, topicQueueARN := queue("-topic")
	if _, err := buses.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &name}); err != nil {
		t.Fatal(err)
	}
	if _, err := buses.PutRule(ctx, &eventbridge.PutRuleInput{Name: &name, EventBusName: &name, EventPattern: aws.String(`{"source":["lockstep"],"detail-type":["execution.settled"]}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := buses.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: &name, EventBusName: &name, Targets: []ebtypes.Target{{Id: aws.String("queue"), Arn: &busQueueARN}}}); err != nil {
		t.Fatal(err)
	}
	topic, err := topics.CreateTopic(ctx, &sns.CreateTopicInput{Name: &name})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Subscribe(ctx, &sns.SubscribeInput{TopicArn: topic.TopicArn, Protocol: aws.String("sqs"), Endpoint: &topicQueueARN}); err != nil {
		t.Fatal(err)
	}

	r := enginehost.NewReceivers(&boot.Process{AWS: config})
	var entries []engine.BusEntry
	for i := range 12 {
		entries = append(entries, engine.BusEntry{At: time.Now(), Type: "execution.settled", Detail: fmt.Appendf(nil, `{"sequence":%d}`, i)})
	}
	entries = append(entries, engine.BusEntry{At: time.Now(), Type: "step.exited", Detail: []byte(`{"sequence":99}`)})
	if err := r.PutEvents(ctx, name, entries); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, body := range receiveAll(t, busQueue, 12) {
		var event struct {
			Source string `json:"source"`
			Detail struct{ Sequence int }
		}
		if err := json.Unmarshal([]byte(body), &event); err != nil || event.Source != "lockstep" || seen[event.Detail.Sequence] || event.Detail.Sequence > 11 {
			t.Errorf("%s, %v", body, err)
		}
		seen[event.Detail.Sequence] = true
	}
	if err := r.Publish(ctx, *topic.TopicArn, "lockstep: p/w:1.0.0 is FAILED_UNSAFE", "look at device/sw-007"); err != nil {
		t.Fatal(err)
	}
	var message struct{ Subject, Message string }
	if err := json.Unmarshal([]byte(receiveAll(t, topicQueue, 1)[0]), &message); err != nil || message.Subject != "lockstep: p/w:1.0.0 is FAILED_UNSAFE" || message.Message != "look at device/sw-007" {
		t.Errorf("%+v, %v", message, err)
	}
	if err := r.Publish(ctx, *topic.TopicArn+"-none", "s", "m"); err == nil {
		t.Error("a topic that does not exist has taken a message")
	}
}
