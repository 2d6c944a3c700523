package infra

import "github.com/lockstep-run/lockstep/shared/topology"

// deliveryAge is the alarm threshold, in seconds, for the age of the oldest undelivered event: six
// hours. A delivery is tried for a day before it becomes a dead letter.
const deliveryAge = 21_600

// ObserverProps are the receivers of events that subscriptions may name. Webhooks must be among the
// AllowHosts.
type ObserverProps struct {
	// EventBuses and Topics are the ARNs of EventBridge buses and SNS topics.
	EventBuses, Topics []string
}

// addObserver connects the observer function with its queues and with the receivers of events.
func (e *Engine) addObserver() {
	f := e.Functions[topology.FunctionObserver]
	for _, q := range []*Queue{e.EventsQueue, e.HooksOutQueue} {
		e.addMapping(e.Construct, q, f, e.props.concurrency(topology.FunctionObserver))
		f.allow("Defer"+q.label, []string{*q.QueueArn()}, "sqs:ChangeMessageVisibility")
	}
	if buses := e.props.Observer.EventBuses; len(buses) > 0 {
		f.allow("PutEvents", buses, "events:PutEvents")
	}
	if topics := e.props.Observer.Topics; len(topics) > 0 {
		f.allow("PublishEvents", topics, "sns:Publish")
	}
}

// grantObserving grants a function its permissions on the observer's queues, and sets its
// environment.
func (e *Engine) grantObserving(f *Function) {
	switch f.role {
	case topology.FunctionAPI:
		f.allowSend("SendEvents", e.EventsQueue)
		f.allowSend("SendDeliveries", e.HooksOutQueue) // for redriven dead letters
		f.allowRedrive(e.EventsQueue)
		f.allowRedrive(e.HooksOutQueue)
	case topology.FunctionLifecycle:
		f.allowSend("SendEvents", e.EventsQueue)
	case topology.FunctionObserver:
		f.allowSend("SendDeliveries", e.HooksOutQueue)
	default:
		return
	}
	f.setEnv(topology.EnvQueueEvents, *e.EventsQueue.QueueUrl())
	if f.role != topology.FunctionLifecycle {
		f.setEnv(topology.EnvQueueHooksOut, *e.HooksOutQueue.QueueUrl())
	}
}
