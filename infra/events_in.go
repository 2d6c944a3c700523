package infra

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// EventSource is a source of events for the triggers of workflows.
type EventSource struct {
	// Bus is the name or the ARN of an EventBridge bus in this account and region, such as default.
	Bus string
	// Sources are the event sources to receive: full names, or prefixes followed by a star. Events
	// that no trigger takes cost too: a message, and a share of an invocation and of a read.
	Sources []string
	// Tenant is the tenant whose triggers take the events. Default: default.
	Tenant string
}

// Limits of event sources: a rule has a pattern of at most 2,048 characters.
const (
	maxEventSources  = 20
	maxPatternLength = 2048
)

var (
	busRE         = regexp.MustCompile(`^(arn:[a-z-]+:events:[a-z0-9-]+:[0-9]{12}:event-bus/)?[A-Za-z0-9._/-]{1,256}$`)
	eventSourceRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}\*?$`)
	tenantRE      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`)
)

func (s EventSource) validate() error {
	switch {
	case !busRE.MatchString(s.Bus):
		return fmt.Errorf("the Bus %q is no name or ARN of a bus", s.Bus)
	case len(s.Sources) == 0:
		return fmt.Errorf("the bus %s has no Sources: say whose events come", s.Bus)
	case s.Tenant != "" && !tenantRE.MatchString(s.Tenant):
		return fmt.Errorf("the Tenant %q of the bus %s is no name of a tenant", s.Tenant, s.Bus)
	}
	length := 0
	for _, source := range s.Sources {
		if !eventSourceRE.MatchString(source) {
			return fmt.Errorf("the source %q of the bus %s is no source, or beginning of one and a star", source, s.Bus)
		}
		length += len(source) + len(`{"prefix":""},`)
	}
	if length > maxPatternLength-len(`{"source":[]}`) {
		return fmt.Errorf("the Sources of the bus %s take %d characters, and EventBridge accepts %d", s.Bus, length, maxPatternLength)
	}
	return nil
}

// pattern returns the event pattern of the rule.
func (s EventSource) pattern() map[string]any {
	var sources []any
	for _, source := range s.Sources {
		if prefix, ok := strings.CutSuffix(source, "*"); ok {
			sources = append(sources, map[string]any{"prefix": prefix})
		} else {
			sources = append(sources, source)
		}
	}
	return map[string]any{"source": sources}
}

func validateEventSources(all []EventSource, key awskms.IKey) error {
	if len(all) > 0 && key != nil {
		return fmt.Errorf("EventSources with a CustomerKey: EventBridge could not send to a queue with the key, and nobody would be told of what is lost")
	}
	if len(all) > maxEventSources {
		return fmt.Errorf("EventSources has %d entries: want at most %d", len(all), maxEventSources)
	}
	for _, s := range all {
		if err := s.validate(); err != nil {
			return fmt.Errorf("EventSources: %w", err)
		}
	}
	return nil
}

// addEventSources makes a rule for each source of events, which sends them to a queue of the
// observer function. Without sources there is no queue, because a queue costs money.
func (e *Engine) addEventSources() {
	if len(e.props.EventSources) == 0 {
		return
	}
	f := e.Functions[topology.FunctionObserver]
	e.HooksInQueue = e.newQueue("HooksIn", topology.QueueHooksIn, topology.FunctionTimeoutSeconds[topology.FunctionObserver], topology.MaxReceiveHooksIn)
	q := e.HooksInQueue
	e.addMapping(e.Construct, q, f, e.props.concurrency(topology.FunctionObserver))
	f.allow("DeferHooksIn", []string{*q.QueueArn()}, "sqs:ChangeMessageVisibility")
	api := e.Functions[topology.FunctionAPI]
	api.allowSend("SendHooksIn", q) // for redriven dead letters
	api.allowRedrive(q)
	for _, f := range []*Function{f, api} {
		f.setEnv(topology.EnvQueueHooksIn, *q.QueueUrl())
	}
	var rules []*string
	for i, s := range e.props.EventSources {
		tenant := s.Tenant
		if tenant == "" {
			tenant = topology.TenantDefault
		}
		rule := awsevents.NewCfnRule(e.Construct, jsii.String(fmt.Sprintf("EventSource%d", i)), &awsevents.CfnRuleProps{
			Description:  jsii.String("Lockstep: events for the triggers of the tenant " + tenant),
			EventBusName: jsii.String(s.Bus),
			EventPattern: s.pattern(),
			State:        jsii.String("ENABLED"),
			Targets: []any{&awsevents.CfnRule_TargetProperty{
				Id: jsii.String(topology.QueueHooksIn), Arn: q.QueueArn(),
				InputTransformer: &awsevents.CfnRule_InputTransformerProperty{InputTemplate: jsii.String(topology.EventTemplate(tenant))},
				DeadLetterConfig: &awsevents.CfnRule_DeadLetterConfigProperty{Arn: q.DLQ.QueueArn()},
			}},
		})
		rules = append(rules, rule.AttrArn())
	}
	for _, target := range []struct {
		sid   string
		queue interface {
			AddToResourcePolicy(awsiam.PolicyStatement) *awsiam.AddToResourcePolicyResult
			QueueArn() *string
		}
	}{{"EventsOfTheRules", q.Queue}, {"DeadLettersOfTheRules", q.DLQ}} {
		target.queue.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid:        jsii.String(target.sid),
			Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
			Actions:    jsii.Strings("sqs:SendMessage"),
			Resources:  &[]*string{target.queue.QueueArn()},
			Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": rules}},
		}))
	}
}

// ownQueues returns the queues that the engine has besides those of pools, with the alarm threshold
// for the age of the oldest message of each.
func (e *Engine) ownQueues() []monitoredQueue {
	all := []monitoredQueue{
		e.LifecycleQueue.monitored(e.props.Thresholds.WakeupAge), e.EventsQueue.monitored(e.props.Thresholds.WakeupAge), e.HooksOutQueue.monitored(deliveryAge),
	}
	if e.HooksInQueue != nil {
		all = append(all, e.HooksInQueue.monitored(deliveryAge))
	}
	return slices.Clip(all)
}
