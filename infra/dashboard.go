package infra

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// chart is one graph: a title and its lines.
type chart struct {
	title string
	lines []awscloudwatch.IMetric
}

// addDashboard shows the engine on one page: first what is wrong, then what waits,
// then who works on it, then what it costs the tables.
func (e *Engine) addDashboard(api awsapigatewayv2.CfnApi, sweeps awssqs.Queue, alarms []awscloudwatch.CfnAlarm) awscloudwatch.Dashboard {
	board := awscloudwatch.NewDashboard(e.Construct, jsii.String("Dashboard"), nil)
	var states []interfacesawscloudwatch.IAlarmRef
	for _, a := range alarms {
		states = append(states, a)
	}
	board.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
		Alarms: &states, Title: jsii.String("Alarms"), Width: jsii.Number(24),
	}))
	for _, row := range [][]chart{e.queueCharts(sweeps), e.functionCharts(), e.apiAndTableCharts(api)} {
		var graphs []awscloudwatch.IWidget
		for _, c := range row {
			graphs = append(graphs, awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
				Title: jsii.String(c.title), Left: &c.lines,
				Width: jsii.Number(24 / len(row)), Height: jsii.Number(6),
			}))
		}
		board.AddWidgets(graphs...)
	}
	return board
}

// pools are the queues of the worker pools in order of their name.
func (e *Engine) pools() []*Queue {
	var all []*Queue
	for _, pool := range slices.Sorted(maps.Keys(e.Pools)) {
		all = append(all, e.Pools[pool])
	}
	return all
}

func (e *Engine) queueCharts(sweeps awssqs.Queue) []chart {
	visible, age := chart{title: "Messages waiting"}, chart{title: "Oldest message, seconds"}
	dead := chart{title: "Dead letters", lines: []awscloudwatch.IMetric{waiting(sweeps).shown("schedules")}}
	for _, q := range append([]*Queue{e.Lifecycle}, e.pools()...) {
		visible.lines = append(visible.lines, waiting(q.Queue).shown(q.label))
		age.lines = append(age.lines, oldest(q).shown(q.label))
		dead.lines = append(dead.lines, waiting(q.DLQ).shown(q.label))
	}
	return []chart{visible, age, dead}
}

func (e *Engine) functionCharts() []chart {
	var row []chart
	for _, kind := range []struct{ title, name, stat string }{
		{"Invocations", "Invocations", "Sum"},
		{"Errors", "Errors", "Sum"},
		{"Throttles", "Throttles", "Sum"},
		{"Duration p99, ms", "Duration", "p99"},
	} {
		c := chart{title: kind.title}
		for _, name := range topology.Functions {
			c.lines = append(c.lines, functionMetric(e.Functions[name], kind.name, kind.stat).shown(name))
		}
		row = append(row, c)
	}
	return row
}

func (e *Engine) apiAndTableCharts(api awsapigatewayv2.CfnApi) []chart {
	reads, writes := chart{title: "Read units"}, chart{title: "Write units"}
	throttled := chart{title: "Table writes throttled"}
	for _, role := range topology.Tables {
		of := func(name string) awscloudwatch.IMetric {
			return metric{"AWS/DynamoDB", name, "Sum", "TableName", e.Tables[role].TableName()}.shown(role)
		}
		reads.lines = append(reads.lines, of("ConsumedReadCapacityUnits"))
		writes.lines = append(writes.lines, of("ConsumedWriteCapacityUnits"))
		throttled.lines = append(throttled.lines, of("WriteThrottleEvents"))
	}
	answers := chart{title: "Requests", lines: []awscloudwatch.IMetric{
		apiMetric(api, "Count", "Sum").shown("all"), apiMetric(api, "4xx", "Sum").shown("4xx"), apiMetric(api, "5xx", "Sum").shown("5xx"),
	}}
	return []chart{answers, reads, writes, throttled}
}
