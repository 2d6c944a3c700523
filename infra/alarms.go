package infra

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// metric is a number that AWS measures about one of the parts.
type metric struct {
	space, name, stat string
	of                string  // the dimension
	id                *string // its value
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
)

func queueMetric(q awssqs.Queue, name, stat string) metric {
	return metric{"AWS/SQS", name, stat, "QueueName", q.QueueName()}
}

func functionMetric(f *Function, name, stat string) metric {
	return metric{"AWS/Lambda", name, stat, "FunctionName", f.FunctionName()}
}

func apiMetric(api awsapigatewayv2.CfnApi, name, stat string) metric {
	return metric{"AWS/ApiGateway", name, stat, "ApiId", api.Ref()}
}

// waiting is the number of messages on a dead-letter queue. The number sent to it
// would miss messages that SQS itself has moved there.
func waiting(dlq awssqs.Queue) metric {
	return queueMetric(dlq, "ApproximateNumberOfMessagesVisible", "Maximum")
}

func oldest(q *Queue) metric {
	return queueMetric(q.Queue, "ApproximateAgeOfOldestMessage", "Maximum")
}

// alarms are those of the engine as it stands: its queues, its functions, its API.
func (e *Engine) alarms(api awsapigatewayv2.CfnApi, sweeps awssqs.Queue) []alarm {
	limits := e.props.Thresholds
	all := []alarm{
		deadLetters("Schedules", sweeps),
		{
			id: "SweepNotRunning", anchor: anchorNoSweep, says: "No sweep has run for five minutes: runs whose alarm has rung are not woken.",
			metric: functionMetric(e.Functions[topology.FunctionSweeper], "Invocations", "Sum"),
			period: 60, periods: 5, below: true, threshold: 1,
		},
		{
			id: "HttpErrors", anchor: anchorAPIErrors, says: "The HTTP interface has answered requests with a status of 500 or more.",
			metric: apiMetric(api, "5xx", "Sum"), period: 300, periods: 1, threshold: limits.Errors,
		},
	}
	for _, name := range topology.Functions {
		f := e.Functions[name]
		all = append(all,
			alarm{
				id: title(name) + "Errors", anchor: anchorErrors, says: fmt.Sprintf("Invocations of the function %s have failed.", name),
				metric: functionMetric(f, "Errors", "Sum"), period: 300, periods: 1, threshold: limits.Errors,
			},
			alarm{
				id: title(name) + "Throttles", anchor: anchorThrottles, says: fmt.Sprintf("Invocations of the function %s have been throttled.", name),
				metric: functionMetric(f, "Throttles", "Sum"), period: 300, periods: 1, threshold: limits.Throttles,
			},
		)
	}
	all = append(all, ofQueue(e.Lifecycle, limits.LookAge)...)
	for _, q := range e.pools() {
		all = append(all, ofQueue(q, limits.PackAge)...)
	}
	return all
}

func ofQueue(q *Queue, age int) []alarm {
	return []alarm{
		deadLetters(q.label, q.DLQ),
		{
			id: q.label + "Old", anchor: anchorOldMessages,
			says:   fmt.Sprintf("The oldest message on the queue %s has waited for more than %d seconds.", q.label, age),
			metric: oldest(q), period: 60, periods: 5, threshold: age,
		},
	}
}

func deadLetters(name string, dlq awssqs.Queue) alarm {
	return alarm{
		id: name + "DeadLetters", anchor: anchorDeadLetters,
		says:   fmt.Sprintf("Messages wait on the dead-letter queue of %s.", name),
		metric: waiting(dlq), period: 60, periods: 1, threshold: 1,
	}
}

// addAlarms makes the alarms and returns them for the dashboard.
func (e *Engine) addAlarms(api awsapigatewayv2.CfnApi, sweeps awssqs.Queue) []awscloudwatch.CfnAlarm {
	var made []awscloudwatch.CfnAlarm
	for _, a := range e.alarms(api, sweeps) {
		made = append(made, e.addAlarm(a))
	}
	return made
}

func (e *Engine) addAlarm(a alarm) awscloudwatch.CfnAlarm {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmDescription:   jsii.String(fmt.Sprintf("%s Runbook: %s#%s", a.says, e.props.RunbookURL, a.anchor)),
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
	if topic := e.props.AlarmTopic; topic != nil {
		actions := []any{topic.TopicArn()}
		props.AlarmActions, props.OkActions = &actions, &actions
	}
	return awscloudwatch.NewCfnAlarm(e.Construct, jsii.String("Alarm"+a.id), props)
}

// shown is a metric for the dashboard.
func (m metric) shown(label string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &m.space, MetricName: &m.name, Statistic: &m.stat, Label: &label,
		DimensionsMap: &map[string]*string{m.of: m.id}, Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}
