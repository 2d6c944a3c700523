package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// monitoring creates alarms and the dashboard.
type monitoring struct {
	scope          constructs.Construct // of the alarms
	topic          awssns.ITopic        // gets a message when an alarm is raised and ends; may be nil
	runbookURL     string               // the page that alarms link to
	namePrefix     string               // of the names; if empty, they are generated
	deploymentName string               // dimension of the engine's own metrics

	alarms []awscloudwatch.CfnAlarm
}

// monitoredQueue is a queue with its dead-letter queue.
type monitoredQueue struct {
	name       string
	queue, dlq awssqs.IQueue
	maxAge     int // alarm threshold for the age of the oldest message, in seconds
}

// monitoredFunction is a function and its label on the dashboard.
type monitoredFunction struct {
	name     string // part of the alarms' ids
	label    string
	function awslambda.IFunction
}

// alarm describes an alarm.
type alarm struct {
	id            string
	runbookAnchor string // of the runbook
	description   string
	metric        metric

	period, periods int // length in seconds, and number in a row
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

// inScope returns a copy that creates its alarms in another scope.
func (w *monitoring) inScope(scope constructs.Construct) *monitoring {
	other := *w
	other.scope, other.alarms = scope, nil
	return &other
}

// addQueueAlarms creates the alarms of a queue.
func (w *monitoring) addQueueAlarms(q monitoredQueue) {
	w.addDLQAlarm(q.name, q.dlq)
	w.addAlarm(alarm{
		id: q.name + "Old", runbookAnchor: anchorOldMessages,
		description: fmt.Sprintf("The oldest message on the queue %s has waited for more than %d seconds.", q.name, q.maxAge),
		metric:      oldestMessageAge(q.queue), period: 60, periods: 5, threshold: q.maxAge,
	})
}

// addDLQAlarm creates the alarm of a dead-letter queue.
func (w *monitoring) addDLQAlarm(name string, dlq awssqs.IQueue) {
	w.addAlarm(alarm{
		id: name + "DeadLetters", runbookAnchor: anchorDeadLetters,
		description: fmt.Sprintf("Messages wait on the dead-letter queue of %s.", name),
		metric:      visibleMessages(dlq), period: 60, periods: 1, threshold: 1,
	})
}

// addFunctionAlarms creates the alarms of a function, for failed and for throttled
// invocations in five minutes.
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

// addSweeperAlarm creates the alarm for a sweeper that does not run.
func (w *monitoring) addSweeperAlarm(f awslambda.IFunction) {
	w.addAlarm(alarm{
		id: "SweepNotRunning", runbookAnchor: anchorSweepNotRunning, description: "No sweep has taken place for five minutes: executions whose timer is due are not woken.",
		metric: functionMetric(f, "Invocations", "Sum"), period: 60, periods: 5, lessThan: true, threshold: 1,
	})
}

// addAPIAlarm creates the alarm of an HTTP API by its id.
func (w *monitoring) addAPIAlarm(id *string, failed int) {
	w.addAlarm(alarm{
		id: "HttpErrors", runbookAnchor: anchorAPIErrors, description: "The HTTP interface has answered requests with a status of 500 or more.",
		metric: apiMetric(id, "5xx"), period: 300, periods: 1, threshold: failed,
	})
}

// addExecutionAlarms creates the alarms on the engine's own metrics: executions that do
// not advance, the longest wait for a lock in seconds, and executions that a limit stopped.
func (w *monitoring) addExecutionAlarms(stuck, lockAge int) {
	w.addAlarm(alarm{
		id: "StuckExecutions", runbookAnchor: anchorStuck,
		description: fmt.Sprintf("Executions do not advance, although their timer was due more than %d seconds ago.", topology.StuckAfterSeconds),
		metric:      w.engineMetric(topology.MetricStuckExecutions, "Maximum"), period: 60, periods: 5, threshold: stuck,
	})
	w.addAlarm(alarm{
		id: "LockAge", runbookAnchor: anchorLockAge, description: fmt.Sprintf("An execution has waited for a lock for more than %d seconds.", lockAge),
		metric: w.engineMetric(topology.MetricLockAge, "Maximum"), period: 300, periods: 1, threshold: lockAge,
	})
	w.addAlarm(alarm{
		id: "RecursionGuard", runbookAnchor: anchorRecursionGuard, description: "A limit has stopped an execution that would have continued without end.",
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
		// A period without the event has no data.
		props.ComparisonOperator, props.TreatMissingData = jsii.String("LessThanThreshold"), jsii.String("breaching")
	}
	if w.topic != nil {
		actions := []any{w.topic.TopicArn()}
		props.AlarmActions, props.OkActions = &actions, &actions
	}
	w.alarms = append(w.alarms, awscloudwatch.NewCfnAlarm(w.scope, jsii.String("Alarm"+a.id), props))
}

// name returns the name of an alarm or the dashboard, nil to let CloudFormation generate
// one.
func (w *monitoring) name(part string) *string {
	if w.namePrefix == "" {
		return nil
	}
	return jsii.String(strings.Trim(w.namePrefix+"-"+part, "-"))
}

// metric is a CloudWatch metric of one resource.
type metric struct {
	namespace, name, stat string
	dimension             string
	dimensionValue        *string
}

func queueMetric(q awssqs.IQueue, name, stat string) metric {
	return metric{"AWS/SQS", name, stat, "QueueName", q.QueueName()}
}

func functionMetric(f awslambda.IFunction, name, stat string) metric {
	return metric{"AWS/Lambda", name, stat, "FunctionName", f.FunctionName()}
}

func apiMetric(api *string, name string) metric {
	return metric{"AWS/ApiGateway", name, "Sum", "ApiId", api}
}

// engineMetric returns a metric that the engine's functions write.
func (w *monitoring) engineMetric(name, stat string) metric {
	return metric{topology.MetricNamespace, name, stat, topology.MetricDimension, &w.deploymentName}
}

// visibleMessages returns the number of messages on a queue. For a dead-letter queue the
// number of messages sent would miss those that SQS itself moves there.
func visibleMessages(q awssqs.IQueue) metric {
	return queueMetric(q, "ApproximateNumberOfMessagesVisible", "Maximum")
}

func oldestMessageAge(q awssqs.IQueue) metric {
	return queueMetric(q, "ApproximateAgeOfOldestMessage", "Maximum")
}

// forDashboard returns the metric as a line of a chart.
func (m metric) forDashboard(label string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &m.namespace, MetricName: &m.name, Statistic: &m.stat, Label: &label,
		DimensionsMap: &map[string]*string{m.dimension: m.dimensionValue}, Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}
