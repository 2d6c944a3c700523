package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// metric is a number that is measured about one of the parts.
type metric struct {
	namespace, name, stat string
	dimension             string  // the dimension
	dimensionValue        *string // its value
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

// engineMetric is a metric that the engine's functions write.
func (w *monitoring) engineMetric(name, stat string) metric {
	return metric{topology.MetricNamespace, name, stat, topology.MetricDimension, &w.deploymentName}
}

// visibleMessages is the number of messages on a queue. Of a dead-letter queue, the number
// sent to it would miss messages that SQS itself has moved there.
func visibleMessages(q awssqs.IQueue) metric {
	return queueMetric(q, "ApproximateNumberOfMessagesVisible", "Maximum")
}

func oldestMessageAge(q awssqs.IQueue) metric {
	return queueMetric(q, "ApproximateAgeOfOldestMessage", "Maximum")
}

// forDashboard is a metric for the dashboard.
func (m metric) forDashboard(label string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &m.namespace, MetricName: &m.name, Statistic: &m.stat, Label: &label,
		DimensionsMap: &map[string]*string{m.dimension: m.dimensionValue}, Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}
