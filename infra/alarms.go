package infra

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

// monitoring sets alarms.
type monitoring struct {
	scope          constructs.Construct // into which they go
	topic          awssns.ITopic        // told when an alarm begins and ends; nil: nobody
	runbookURL     string               // the page that alarms refer to
	namePrefix     string               // of their names and the dashboard's; empty: generated
	deploymentName string               // by which the engine's own metrics are found

	alarms []awscloudwatch.CfnAlarm
}

// monitoredQueue is a queue that is worked on, and where its dead letters go.
type monitoredQueue struct {
	name       string
	queue, dlq awssqs.IQueue
	maxAge     int // of its oldest message in seconds, from which on it is alarming
}

// monitoredFunction is a function and what it is called on the dashboard.
type monitoredFunction struct {
	name     string // part of the alarms' ids
	label    string
	function awslambda.IFunction
}

// alarm is a condition for which somebody should be woken.
type alarm struct {
	id            string
	runbookAnchor string // of the runbook
	description   string
	metric        metric

	period, periods int // in seconds, and how many in a row
	lessThan        bool
	threshold       int
}

// The anchors of docs/runbooks/README.md.
const (
	anchorDeadLetters     = "dead-letters"
	anchorOldMessages     = "old-messages"
	anchorErrors          = "function-errors"
	anchorThrottles       = "function-throttles"
	anchorAPIErrors       = "api-errors"
	anchorSweepNotRunning = "sweep-not-running"
	anchorStuck           = "stuck-executions"
	anchorLockAge         = "lock-age"
	anchorRecursionGuard  = "recursion-guard"
)

// inScope is a watch that sets its alarms in another scope.
func (w *monitoring) inScope(scope constructs.Construct) *monitoring {
	other := *w
	other.scope, other.alarms = scope, nil
	return &other
}

// createdAlarms are the alarms set so far.
func (w *monitoring) createdAlarms() []awscloudwatch.CfnAlarm { return w.alarms }

// addQueueAlarms sets the alarms of a queue.
func (w *monitoring) addQueueAlarms(q monitoredQueue) {
	w.addDLQAlarm(q.name, q.dlq)
	w.addAlarm(alarm{
		id: q.name + "Old", runbookAnchor: anchorOldMessages,
		description: fmt.Sprintf("The oldest message on the queue %s has waited for more than %d seconds.", q.name, q.maxAge),
		metric:      oldestMessageAge(q.queue), period: 60, periods: 5, threshold: q.maxAge,
	})
}

// addDLQAlarm sets the alarm of a dead-letter queue.
func (w *monitoring) addDLQAlarm(name string, dlq awssqs.IQueue) {
	w.addAlarm(alarm{
		id: name + "DeadLetters", runbookAnchor: anchorDeadLetters,
		description: fmt.Sprintf("Messages wait on the dead-letter queue of %s.", name),
		metric:      visibleMessages(dlq), period: 60, periods: 1, threshold: 1,
	})
}

// addFunctionAlarms sets the alarms of a function: failed invocations and throttled ones in
// five minutes.
func (w *monitoring) addFunctionAlarms(f monitoredFunction, failed, throttled int) {
	w.addAlarm(alarm{
		id: f.name + "Errors", runbookAnchor: anchorErrors, description: fmt.Sprintf("Invocations of the function %s have failed.", f.label),
		metric: functionMetric(f.function, "Errors", "Sum"), period: 300, periods: 1, threshold: failed,
	})
	w.addAlarm(alarm{
		id: f.name + "Throttles", runbookAnchor: anchorThrottles, description: fmt.Sprintf("Invocations of the function %s have been throttled.", f.label),
		metric: functionMetric(f.function, "Throttles", "Sum"), period: 300, periods: 1, threshold: throttled,
	})
}

// addSweeperAlarm sets the alarm of a sweeper that does not run.
func (w *monitoring) addSweeperAlarm(f awslambda.IFunction) {
	w.addAlarm(alarm{
		id: "SweepNotRunning", runbookAnchor: anchorSweepNotRunning, description: "No sweep has run for five minutes: runs whose alarm has rung are not woken.",
		metric: functionMetric(f, "Invocations", "Sum"), period: 60, periods: 5, lessThan: true, threshold: 1,
	})
}

// addAPIAlarm sets the alarm of an HTTP API by its id.
func (w *monitoring) addAPIAlarm(id *string, failed int) {
	w.addAlarm(alarm{
		id: "HttpErrors", runbookAnchor: anchorAPIErrors, description: "The HTTP interface has answered requests with a status of 500 or more.",
		metric: apiMetric(id, "5xx"), period: 300, periods: 1, threshold: failed,
	})
}

// addExecutionAlarms sets the alarms on what the engine itself says about its runs: how many
// nothing moves, for how many seconds one waits for a lock, and whether one of the
// bounds has stopped anything.
func (w *monitoring) addExecutionAlarms(stuck, lockAge int) {
	w.addAlarm(alarm{
		id: "StuckExecutions", runbookAnchor: anchorStuck,
		description: fmt.Sprintf("Executions are not moved, although their alarm rang more than %d seconds ago.", topology.StuckAfterSeconds),
		metric:      w.engineMetric(topology.MetricStuckExecutions, "Maximum"), period: 60, periods: 5, threshold: stuck,
	})
	w.addAlarm(alarm{
		id: "LockAge", runbookAnchor: anchorLockAge, description: fmt.Sprintf("A run has waited for a lock for more than %d seconds.", lockAge),
		metric: w.engineMetric(topology.MetricLockAge, "Maximum"), period: 300, periods: 1, threshold: lockAge,
	})
	w.addAlarm(alarm{
		id: "RecursionGuard", runbookAnchor: anchorRecursionGuard, description: "A bound has stopped a run that would have gone on and on.",
		metric: w.engineMetric(topology.MetricGuardStops, "Sum"), period: 300, periods: 1, threshold: 1,
	})
}

func (w *monitoring) addAlarm(a alarm) {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmName:          w.name(a.id),
		AlarmDescription:   jsii.String(fmt.Sprintf("%s Runbook: %s#%s", a.description, w.runbookURL, a.runbookAnchor)),
		Namespace:          jsii.String(a.metric.namespace),
		MetricName:         jsii.String(a.metric.name),
		Statistic:          jsii.String(a.metric.stat),
		Dimensions:         []any{&awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(a.metric.dimension), Value: a.metric.dimensionValue}},
		Period:             jsii.Number(a.period),
		EvaluationPeriods:  jsii.Number(a.periods),
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: jsii.String("GreaterThanOrEqualToThreshold"),
		TreatMissingData:   jsii.String("notBreaching"),
	}
	if a.lessThan {
		// What does not happen is not measured either.
		props.ComparisonOperator, props.TreatMissingData = jsii.String("LessThanThreshold"), jsii.String("breaching")
	}
	if w.topic != nil {
		actions := []any{w.topic.TopicArn()}
		props.AlarmActions, props.OkActions = &actions, &actions
	}
	w.alarms = append(w.alarms, awscloudwatch.NewCfnAlarm(w.scope, jsii.String("Alarm"+a.id), props))
}

// name is nil, so that CloudFormation makes one, unless names have a prefix.
func (w *monitoring) name(part string) *string {
	if w.namePrefix == "" {
		return nil
	}
	return jsii.String(strings.Trim(w.namePrefix+"-"+part, "-"))
}
