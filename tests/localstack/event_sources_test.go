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
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// A rule with the pattern and the template of the deployment puts the events of its sources, and no
// others, into the queue as messages that the observer function reads: the whole event, with its id, for
// the tenant of the rule, whatever the event says.
func TestEventSources_RuleMakesMessages(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	buses := eventbridge.NewFromConfig(aws.Config{Region: region, BaseEndpoint: aws.String(localStack.URL()), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	name := fmt.Sprintf("event-sources-%d", time.Now().UnixNano())
	queue, err := sqsClient().CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	arn := attribute(t, *queue.QueueUrl, types.QueueAttributeNameQueueArn)
	if _, err := buses.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &name}); err != nil {
		t.Fatal(err)
	}
	if _, err := buses.PutRule(ctx, &eventbridge.PutRuleInput{Name: &name, EventBusName: &name, EventPattern: aws.String(`{"source":["shop.orders",{"prefix":"stock."}]}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := buses.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: &name, EventBusName: &name, Targets: []ebtypes.Target{{
		Id: aws.String(topology.QueueHooksIn), Arn: &arn, InputTransformer: &ebtypes.InputTransformer{InputTemplate: aws.String(topology.EventTemplate("store"))},
	}}}); err != nil {
		t.Fatal(err)
	}
	put := &eventbridge.PutEventsInput{}
	for _, source := range []string{"shop.orders", "shop.other", "stock.eu"} {
		put.Entries = append(put.Entries, ebtypes.PutEventsRequestEntry{
			EventBusName: &name, Source: aws.String(source), DetailType: aws.String("placed"), Resources: []string{"arn:a"},
			// Without quotes in a text: LocalStack takes the escapes away, and drops what is no JSON then.
			Detail: aws.String(`{"order":"o-7 <b> ü","tenant":"other","total":12.5,"nested":{"v":2}}`),
		})
	}
	out, err := buses.PutEvents(ctx, put)
	if err != nil || out.FailedEntryCount > 0 {
		t.Fatal(out, err)
	}
	seen := map[string]bool{}
	for _, body := range receiveAll(t, *queue.QueueUrl, 2) {
		e, err := sqs.DecodeBusEvent(body)
		if err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		var event struct {
			ID, Source, Time string
			DetailType       string `json:"detail-type"`
			Resources        []string
			Detail           struct {
				Order string
				Total float64
			}
		}
		if err := json.Unmarshal(e.Event, &event); err != nil || e.Tenant != "store" || event.ID == "" || event.Time == "" || event.DetailType != "placed" || len(event.Resources) != 1 {
			t.Errorf("%v: %s", err, body)
		}
		if event.Detail.Order != "o-7 <b> ü" || event.Detail.Total != 12.5 {
			t.Errorf("%+v", event.Detail)
		}
		seen[event.Source] = true
	}
	if !seen["shop.orders"] || !seen["stock.eu"] {
		t.Errorf("%v", seen)
	}
}
