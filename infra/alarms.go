package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// monitoring creates alarms and the dashboard.
type monitoring struct {
	scope          constructs.Construct       // scope of the alarms
	topics         map[severity]awssns.ITopic // notified when an alarm is raised and when it ends; may be nil
	runbookURL     string                     // the page that alarms link to
	namePrefix     string                     // prefix of the names; if empty, they are generated
	deploymentName string                     // dimension of the engine's own metrics

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

// severity says how soon somebody must look.
type severity string

const (
	critical severity = "Critical" // executions stand still, or wait for somebody: look now
	warning  severity = "Warning"  // executions are late, or would stand still later: look in working hours
)

// alarm describes an alarm.
type alarm struct {
	id            string
	severity      severity
	runbookAnchor string // anchor in the runbook
	description   string
	metric        metric
	sum           []metric // instead of metric: the sum of these

	period, periods int // length in seconds, and number of periods in a row
	lessThan        bool
	threshold       int
}

// Anchors of docs/runbooks/README.md.
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
	anchorFailedRuns      = "failed-executions"
	anchorUnclaimed       = "unclaimed-jobs"
	anchorFailedMessages  = "failed-messages"
	anchorTableThrottles  = "table-throttles"
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
		id: q.name + "Old", severity: warning, runbookAnchor: anchorOldMessages,
		description: fmt.Sprintf("The oldest message on the queue %s has waited for more than %d seconds.", q.name, q.maxAge),
		metric:      oldestMessageAge(q.queue), period: 60, periods: 5, threshold: q.maxAge,
	})
}

// addDLQAlarm creates the alarm of a dead-letter queue.
func (w *monitoring) addDLQAlarm(name string, dlq awssqs.IQueue) {
	w.addAlarm(alarm{
		id: name + "DeadLetters", severity: critical, runbookAnchor: anchorDeadLetters,
		description: fmt.Sprintf("Messages wait on the dead-letter queue of %s.", name),
		metric:      visibleMessages(dlq), period: 60, periods: 1, threshold: 1,
	})
}

// addFunctionAlarms creates the alarms of a function, for failed and for throttled
// invocations in five minutes.
func (w *monitoring) addFunctionAlarms(f monitoredFunction, failed, throttled int) {
	w.addAlarm(alarm{
		id: f.name + "Errors", severity: critical, runbookAnchor: anchorErrors, description: fmt.Sprintf("Invocations of the function %s have failed.", f.label),
		metric: functionMetric(f.function, "Errors", "Sum"), period: 300, periods: 1, threshold: failed,
	})
	w.addAlarm(alarm{
		id: f.name + "Throttles", severity: warning, runbookAnchor: anchorThrottles, description: fmt.Sprintf("Invocations of the function %s have been throttled.", f.label),
		metric: functionMetric(f.function, "Throttles", "Sum"), period: 300, periods: 1, threshold: throttled,
	})
}

// addSweeperAlarm creates the alarm for a sweeper that does not run.
func (w *monitoring) addSweeperAlarm(f awslambda.IFunction) {
	w.addAlarm(alarm{
		id: "SweepNotRunning", severity: critical, runbookAnchor: anchorSweepNotRunning, description: "No sweep has taken place for five minutes: executions whose timer is due are not woken.",
		metric: functionMetric(f, "Invocations", "Sum"), period: 60, periods: 5, lessThan: true, threshold: 1,
	})
}

// addAPIAlarm creates the alarm of an HTTP API by its id.
func (w *monitoring) addAPIAlarm(id *string, failed int) {
	w.addAlarm(alarm{
		id: "HttpErrors", severity: critical, runbookAnchor: anchorAPIErrors, description: "The HTTP interface has answered requests with a status of 500 or more.",
		metric: apiMetric(id, "5xx"), period: 300, periods: 1, threshold: failed,
	})
}

// addExecutionAlarms creates the alarms on the engine's own metrics: executions that do not
// advance, the longest wait for a lock in seconds, and executions that a limit stopped.
func (w *monitoring) addExecutionAlarms(stuck, lockAge int) {
	w.addAlarm(alarm{
		id: "StuckExecutions", severity: critical, runbookAnchor: anchorStuck,
		description: fmt.Sprintf("Executions do not advance, although their timer was due more than %d seconds ago.", topology.StuckAfterSeconds),
		metric:      w.engineMetric(topology.MetricStuckExecutions, "Maximum"), period: 60, periods: 5, threshold: stuck,
	})
	w.addAlarm(alarm{
		id: "LockAge", severity: warning, runbookAnchor: anchorLockAge, description: fmt.Sprintf("An execution has waited for a lock for more than %d seconds.", lockAge),
		metric: w.engineMetric(topology.MetricLockAge, "Maximum"), period: 300, periods: 1, threshold: lockAge,
	})
	w.addAlarm(alarm{
		id: "RecursionGuard", severity: warning, runbookAnchor: anchorRecursionGuard, description: "A limit has stopped an execution that would have continued without end.",
		metric: w.engineMetric(topology.MetricGuardStops, "Sum"), period: 300, periods: 1, threshold: 1,
	})
}

// addFailureAlarms creates the alarms on executions that end badly, and on messages that fail
// without an error of their function.
func (w *monitoring) addFailureAlarms(t Thresholds) {
	w.addAlarm(alarm{
		id: "FailedUnsafe", severity: critical, runbookAnchor: anchorFailedRuns,
		description: "An execution has ended FAILED_UNSAFE and keeps its locks until somebody has looked at its entities.",
		metric:      w.engineMetric(topology.MetricFailedUnsafe, "Sum"), period: 60, periods: 1, threshold: 1,
	})
	w.addAlarm(alarm{
		id: "FailedSafe", severity: warning, runbookAnchor: anchorFailedRuns,
		description: fmt.Sprintf("%d executions or more have ended FAILED_SAFE within a quarter of an hour.", t.FailedSafe),
		metric:      w.engineMetric(topology.MetricFailedSafe, "Sum"), period: 900, periods: 1, threshold: t.FailedSafe,
	})
	w.addAlarm(alarm{
		id: "Unclaimed", severity: critical, runbookAnchor: anchorUnclaimed,
		description: "An execution has ended because no worker had claimed its jobs.",
		metric:      w.engineMetric(topology.MetricUnclaimed, "Sum"), period: 60, periods: 1, threshold: 1,
	})
	w.addAlarm(alarm{
		id: "FailedWakeups", severity: warning, runbookAnchor: anchorFailedMessages,
		description: fmt.Sprintf("%d wake-ups or more could not be handled within a quarter of an hour.", t.FailedWakeups),
		metric:      w.engineMetric(topology.MetricFailedWakeups, "Sum"), period: 900, periods: 1, threshold: t.FailedWakeups,
	})
	w.addAlarm(alarm{
		id: "FailedPacks", severity: warning, runbookAnchor: anchorFailedMessages,
		description: "A worker function could not handle a pack, which comes again after the visibility timeout of its queue.",
		metric:      w.engineMetric(topology.MetricFailedPacks, "Sum"), period: 300, periods: 1, threshold: 1,
	})
}

// addTableAlarm creates the alarm for requests that a table or one of its indexes throttles. An
// index that throttles writes makes its table refuse them.
func (w *monitoring) addTableAlarm(role string, table awsdynamodb.ITable, throttled int) {
	var all []metric
	for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
		own := metric{namespace: "AWS/DynamoDB", name: name, stat: "Sum", dimension: "TableName", dimensionValue: table.TableName()}
		all = append(all, own)
		for _, index := range topology.Indexes[role] {
			own.index = index.Name
			all = append(all, own)
		}
	}
	w.addAlarm(alarm{
		id: "Table" + pascalCase(role) + "Throttles", severity: warning, runbookAnchor: anchorTableThrottles,
		description: fmt.Sprintf("The table %s or one of its indexes throttles requests.", role),
		sum:         all, period: 300, periods: 1, threshold: throttled,
	})
}

func (w *monitoring) addAlarm(a alarm) {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmName:          w.name(a.id),
		AlarmDescription:   jsii.String(fmt.Sprintf("%s: %s Runbook: %s#%s", a.severity, a.description, w.runbookURL, a.runbookAnchor)),
		EvaluationPeriods:  jsii.Number(a.periods),
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: jsii.String("GreaterThanOrEqualToThreshold"),
		TreatMissingData:   jsii.String("notBreaching"),
	}
	if a.lessThan {
		// A period without the event has no data.
		props.ComparisonOperator, props.TreatMissingData = jsii.String("LessThanThreshold"), jsii.String("breaching")
	}
	if a.sum != nil {
		props.Metrics = sumOf(a.sum, a.period)
	} else {
		props.Namespace, props.MetricName, props.Statistic = jsii.String(a.metric.namespace), jsii.String(a.metric.name), jsii.String(a.metric.stat)
		props.Dimensions, props.Period = a.metric.dimensions(), jsii.Number(a.period)
	}
	if topic := w.topics[a.severity]; topic != nil {
		actions := []any{topic.TopicArn()}
		props.AlarmActions, props.OkActions = &actions, &actions
	}
	w.alarms = append(w.alarms, awscloudwatch.NewCfnAlarm(w.scope, jsii.String("Alarm"+a.id), props))
}

// name returns the name of an alarm or the dashboard; nil to let CloudFormation generate one.
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
	index                 string // index of a table; "" for the table itself
}

// dimensions returns the dimensions of a metric, as an alarm names them.
func (m metric) dimensions() []any {
	all := []any{&awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(m.dimension), Value: m.dimensionValue}}
	if m.index != "" {
		all = append(all, &awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String("GlobalSecondaryIndexName"), Value: jsii.String(m.index)})
	}
	return all
}

// sumOf returns the metrics of an alarm on the sum of several. A metric without data counts as 0.
func sumOf(all []metric, period int) []any {
	var queries []any
	var terms []string
	for i, m := range all {
		id := fmt.Sprintf("m%d", i)
		terms = append(terms, "FILL("+id+",0)")
		queries = append(queries, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
			Id: &id, ReturnData: jsii.Bool(false),
			MetricStat: &awscloudwatch.CfnAlarm_MetricStatProperty{
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{Namespace: jsii.String(m.namespace), MetricName: jsii.String(m.name), Dimensions: m.dimensions()},
				Stat:   jsii.String(m.stat), Period: jsii.Number(period),
			},
		})
	}
	return append(queries, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
		Id: jsii.String("all"), Expression: jsii.String("SUM([" + strings.Join(terms, ",") + "])"), ReturnData: jsii.Bool(true),
	})
}

func queueMetric(q awssqs.IQueue, name, stat string) metric {
	return metric{namespace: "AWS/SQS", name: name, stat: stat, dimension: "QueueName", dimensionValue: q.QueueName()}
}

func functionMetric(f awslambda.IFunction, name, stat string) metric {
	return metric{namespace: "AWS/Lambda", name: name, stat: stat, dimension: "FunctionName", dimensionValue: f.FunctionName()}
}

func apiMetric(api *string, name string) metric {
	return metric{namespace: "AWS/ApiGateway", name: name, stat: "Sum", dimension: "ApiId", dimensionValue: api}
}

// engineMetric returns a metric that the engine's functions write.
func (w *monitoring) engineMetric(name, stat string) metric {
	return metric{namespace: topology.MetricNamespace, name: name, stat: stat, dimension: topology.MetricDimension, dimensionValue: &w.deploymentName}
}

// visibleMessages returns the number of messages in a queue. For a dead-letter queue, the number of
// messages sent would miss those that SQS itself moves there.
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
