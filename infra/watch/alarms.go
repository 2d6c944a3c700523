package watch

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Watch sets alarms.
type Watch struct {
	Scope      constructs.Construct // into which they go
	Topic      awssns.ITopic        // told when an alarm begins and ends; nil: nobody
	Runbooks   string               // the page that alarms refer to
	Prefix     string               // of their names and the dashboard's; empty: generated
	Deployment string               // by which the engine's own metrics are found

	set []awscloudwatch.CfnAlarm
}

// Queue is a queue that is worked on, and where its dead letters go.
type Queue struct {
	Name       string
	Queue, DLQ awssqs.IQueue
	Age        int // of its oldest message in seconds, from which on it is alarming
}

// Function is a function and what it is called on the dashboard.
type Function struct {
	Name     string // part of the alarms' ids
	Label    string
	Function awslambda.IFunction
}

// alarm is a condition for which somebody should be woken.
type alarm struct {
	id     string
	anchor string // of the runbook
	says   string
	metric metric

	period, periods int // in seconds, and how many in a row
	below           bool
	threshold       int
}

// The anchors of docs/runbooks/README.md.
const (
	anchorDeadLetters = "dead-letters"
	anchorOldMessages = "old-messages"
	anchorErrors      = "function-errors"
	anchorThrottles   = "function-throttles"
	anchorAPIErrors   = "api-errors"
	anchorNoSweep     = "sweep-not-running"
	anchorStuck       = "stuck-executions"
	anchorLockAge     = "lock-age"
	anchorGuard       = "recursion-guard"
)

// In is a watch that sets its alarms in another scope.
func (w *Watch) In(scope constructs.Construct) *Watch {
	other := *w
	other.Scope, other.set = scope, nil
	return &other
}

// Set are the alarms set so far.
func (w *Watch) Set() []awscloudwatch.CfnAlarm { return w.set }

// Queue sets the alarms of a queue.
func (w *Watch) Queue(q Queue) {
	w.DeadLetters(q.Name, q.DLQ)
	w.add(alarm{
		id: q.Name + "Old", anchor: anchorOldMessages,
		says:   fmt.Sprintf("The oldest message on the queue %s has waited for more than %d seconds.", q.Name, q.Age),
		metric: oldest(q.Queue), period: 60, periods: 5, threshold: q.Age,
	})
}

// DeadLetters sets the alarm of a dead-letter queue.
func (w *Watch) DeadLetters(name string, dlq awssqs.IQueue) {
	w.add(alarm{
		id: name + "DeadLetters", anchor: anchorDeadLetters,
		says:   fmt.Sprintf("Messages wait on the dead-letter queue of %s.", name),
		metric: waiting(dlq), period: 60, periods: 1, threshold: 1,
	})
}

// Function sets the alarms of a function: failed invocations and throttled ones in
// five minutes.
func (w *Watch) Function(f Function, failed, throttled int) {
	w.add(alarm{
		id: f.Name + "Errors", anchor: anchorErrors, says: fmt.Sprintf("Invocations of the function %s have failed.", f.Label),
		metric: functionMetric(f.Function, "Errors", "Sum"), period: 300, periods: 1, threshold: failed,
	})
	w.add(alarm{
		id: f.Name + "Throttles", anchor: anchorThrottles, says: fmt.Sprintf("Invocations of the function %s have been throttled.", f.Label),
		metric: functionMetric(f.Function, "Throttles", "Sum"), period: 300, periods: 1, threshold: throttled,
	})
}

// Sweeper sets the alarm of a sweeper that does not run.
func (w *Watch) Sweeper(f awslambda.IFunction) {
	w.add(alarm{
		id: "SweepNotRunning", anchor: anchorNoSweep, says: "No sweep has run for five minutes: runs whose alarm has rung are not woken.",
		metric: functionMetric(f, "Invocations", "Sum"), period: 60, periods: 5, below: true, threshold: 1,
	})
}

// API sets the alarm of an HTTP API by its id.
func (w *Watch) API(id *string, failed int) {
	w.add(alarm{
		id: "HttpErrors", anchor: anchorAPIErrors, says: "The HTTP interface has answered requests with a status of 500 or more.",
		metric: apiMetric(id, "5xx"), period: 300, periods: 1, threshold: failed,
	})
}

// Runs sets the alarms on what the engine itself says about its runs: how many
// nothing moves, for how many seconds one waits for a lock, and whether one of the
// bounds has stopped anything.
func (w *Watch) Runs(stuck, lockAge int) {
	w.add(alarm{
		id: "StuckExecutions", anchor: anchorStuck,
		says:   fmt.Sprintf("Executions are not moved, although their alarm rang more than %d seconds ago.", topology.StuckAfter),
		metric: w.own(topology.MetricStuckExecutions, "Maximum"), period: 60, periods: 5, threshold: stuck,
	})
	w.add(alarm{
		id: "LockAge", anchor: anchorLockAge, says: fmt.Sprintf("A run has waited for a lock for more than %d seconds.", lockAge),
		metric: w.own(topology.MetricLockAge, "Maximum"), period: 300, periods: 1, threshold: lockAge,
	})
	w.add(alarm{
		id: "RecursionGuard", anchor: anchorGuard, says: "A bound has stopped a run that would have gone on and on.",
		metric: w.own(topology.MetricGuardStops, "Sum"), period: 300, periods: 1, threshold: 1,
	})
}

func (w *Watch) add(a alarm) {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmName:          w.name(a.id),
		AlarmDescription:   jsii.String(fmt.Sprintf("%s Runbook: %s#%s", a.says, w.Runbooks, a.anchor)),
		Namespace:          jsii.String(a.metric.space),
		MetricName:         jsii.String(a.metric.name),
		Statistic:          jsii.String(a.metric.stat),
		Dimensions:         []any{&awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(a.metric.of), Value: a.metric.id}},
		Period:             jsii.Number(a.period),
		EvaluationPeriods:  jsii.Number(a.periods),
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: jsii.String("GreaterThanOrEqualToThreshold"),
		TreatMissingData:   jsii.String("notBreaching"),
	}
	if a.below {
		// What does not happen is not measured either.
		props.ComparisonOperator, props.TreatMissingData = jsii.String("LessThanThreshold"), jsii.String("breaching")
	}
	if w.Topic != nil {
		actions := []any{w.Topic.TopicArn()}
		props.AlarmActions, props.OkActions = &actions, &actions
	}
	w.set = append(w.set, awscloudwatch.NewCfnAlarm(w.Scope, jsii.String("Alarm"+a.id), props))
}

// name is nil, so that CloudFormation makes one, unless names have a prefix.
func (w *Watch) name(part string) *string {
	if w.Prefix == "" {
		return nil
	}
	return jsii.String(strings.Trim(w.Prefix+"-"+part, "-"))
}
