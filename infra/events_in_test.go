package infra

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Each source has a rule that sends its events to the queue, for its tenant, and nobody else may send
// to it or to its dead letters. Without sources there is neither.
func TestEventSources_RulesSendToTheQueue(t *testing.T) {
	x := stacks()["dev"]
	queue, dlq := x.byID(t, "HooksInQueue"), x.byID(t, "HooksInDlq")
	var got []string
	for _, r := range x.byType(t, "AWS::Events::Rule") {
		if r.property("EventPattern") == nil {
			continue
		}
		target := asList(r.property("Targets"))[0]
		template := propertyOf(target, "InputTransformer", "InputTemplate")
		got = append(got, fmt.Sprint(render(r.property("EventBusName")), r.property("EventPattern"), template))
		if x.referenced(t, propertyOf(target, "Arn")) != queue || x.referenced(t, propertyOf(target, "DeadLetterConfig", "Arn")) != dlq {
			t.Errorf("%s sends elsewhere: %v", r.ID, target)
		}
	}
	slices.Sort(got)
	want := []string{
		eventBusARN + `map[source:[stock]]{"v":1,"tenant":"store","event":<aws.events.event.json>}`,
		`defaultmap[source:[shop.orders map[prefix:aws.]]]{"v":1,"tenant":"default","event":<aws.events.event.json>}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	allowed := 0
	for _, p := range x.byType(t, "AWS::SQS::QueuePolicy") {
		of := x.referenced(t, asList(p.property("Queues"))[0])
		if of != queue && of != dlq {
			continue
		}
		for _, s := range statements(p.property("PolicyDocument")) {
			if s.effect != "Allow" {
				continue
			}
			allowed++
			rules := asList(propertyOf(s.condition, "ArnEquals", "aws:SourceArn"))
			if !slices.Equal(s.actions, []string{"sqs:SendMessage"}) || len(rules) != 2 || !strings.HasPrefix(render(rules[0]), "${") {
				t.Errorf("%s: %v %v", of.ID, s.actions, s.condition)
			}
		}
	}
	if allowed != 2 {
		t.Errorf("%d statements allow to send, want 2", allowed)
	}
	for _, function := range topology.Functions {
		url := x.byID(t, pascalCase(function)+"Function").environment()[topology.EnvQueueHooksIn]
		if reads := function == topology.FunctionObserver || function == topology.FunctionAPI; (url != "") != reads {
			t.Errorf("%s knows the queue as %q", function, url)
		}
	}
	observer, api := actionsByResource(t, x, topology.FunctionObserver, "sqs"), actionsByResource(t, x, topology.FunctionAPI, "sqs")
	if got := strings.Join(observer["HooksInQueue.Arn}"], " "); got != "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage" {
		t.Errorf("the observer may %s", got)
	}
	if got := strings.Join(append(api["HooksInQueue.Arn}"], api["HooksInDlq.Arn}"]...), " "); got != "SendMessage ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage" {
		t.Errorf("the API may %s", got)
	}
	if age := x.byID(t, "AlarmHooksInOld").property("Threshold").(float64); age >= 24*3600 {
		t.Errorf("nobody is told of an event that waits for %v s", age)
	}
	x.byID(t, "AlarmHooksInDeadLetters")
	for _, name := range []string{"prod", "options"} {
		for id := range stacks()[name].Resources {
			if strings.Contains(id, "HooksIn") {
				t.Errorf("%s has %s", name, id)
			}
		}
	}
}

// EventBridge could not send to a queue with a key of the customer.
func TestEventSources_NotWithCustomerKey(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	stack := awscdk.NewStack(nil, jsii.String("S"), nil)
	p := EngineProps{FunctionsDir: dir, EventSources: []EventSource{{Bus: "default", Sources: []string{"a"}}}, CustomerKey: awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(customerKey))}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "with a CustomerKey") {
		t.Error(err)
	}
}
