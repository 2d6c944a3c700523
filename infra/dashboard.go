package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// dashboardContent lists the resources on an engine's dashboard.
type dashboardContent struct {
	queues      []monitoredQueue
	scheduleDLQ awssqs.IQueue
	functions   []monitoredFunction
	tables      map[string]awsdynamodb.ITable // by role
	apiID       *string                       // nil without an HTTP API
}

// chart is a graph: a title and its lines.
type chart struct {
	title string
	lines []awscloudwatch.IMetric
}

// newDashboard creates the dashboard: first alarms, then executions, queues, functions,
// the HTTP API and tables.
func (w *monitoring) newDashboard(s dashboardContent) awscloudwatch.Dashboard {
	board := awscloudwatch.NewDashboard(w.scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: w.name("")})
	board.AddWidgets(alarmStatusWidget("Alarms", w.alarms))
	addRow(board, w.executionCharts())
	addRow(board, append(queueCharts(s.queues), dlqChart(s)))
	addRow(board, functionCharts(s.functions))
	addRow(board, apiAndTableCharts(s))
	return board
}

// addPoolToDashboard adds a worker pool to a dashboard, with its function if the
// dashboard's stack may refer to it.
func (w *monitoring) addPoolToDashboard(board awscloudwatch.Dashboard, q monitoredQueue, functions []monitoredFunction) {
	row := append(queueCharts([]monitoredQueue{q}), chart{"Dead letters", []awscloudwatch.IMetric{visibleMessages(q.dlq).forDashboard(q.name)}})
	for i := range row {
		row[i].title = q.name + ": " + row[i].title
	}
	board.AddWidgets(alarmStatusWidget(q.name+": alarms", w.alarms))
	addRow(board, row)
	if len(functions) > 0 {
		addRow(board, functionCharts(functions))
	}
}

func alarmStatusWidget(title string, alarms []awscloudwatch.CfnAlarm) awscloudwatch.IWidget {
	var all []interfacesawscloudwatch.IAlarmRef
	for _, a := range alarms {
		all = append(all, a)
	}
	return awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
		Alarms: &all, Title: &title, Width: jsii.Number(24),
	})
}

func addRow(board awscloudwatch.Dashboard, row []chart) {
	var graphs []awscloudwatch.IWidget
	for _, c := range row {
		graphs = append(graphs, awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String(c.title), Left: &c.lines, Width: jsii.Number(24 / len(row)), Height: jsii.Number(6),
		}))
	}
	board.AddWidgets(graphs...)
}

func (w *monitoring) executionCharts() []chart {
	return []chart{
		{"Executions that nothing moves", []awscloudwatch.IMetric{w.engineMetric(topology.MetricStuckExecutions, "Maximum").forDashboard("stuck")}},
		{"Longest wait for a lock, seconds", []awscloudwatch.IMetric{w.engineMetric(topology.MetricLockAge, "Maximum").forDashboard("lock age")}},
		{"Executions that failed", []awscloudwatch.IMetric{
			w.engineMetric(topology.MetricFailedUnsafe, "Sum").forDashboard("unsafe"), w.engineMetric(topology.MetricFailedSafe, "Sum").forDashboard("safe"), w.engineMetric(topology.MetricUnclaimed, "Sum").forDashboard("unclaimed"),
		}},
		{"Messages that failed", []awscloudwatch.IMetric{
			w.engineMetric(topology.MetricFailedWakeups, "Sum").forDashboard("wake-ups"), w.engineMetric(topology.MetricFailedPacks, "Sum").forDashboard("packs"),
		}},
		{"Stopped by a bound", []awscloudwatch.IMetric{w.engineMetric(topology.MetricGuardStops, "Sum").forDashboard("stopped")}},
	}
}

func queueCharts(queues []monitoredQueue) []chart {
	visible, age := chart{title: "Messages waiting"}, chart{title: "Oldest message, seconds"}
	for _, q := range queues {
		visible.lines = append(visible.lines, visibleMessages(q.queue).forDashboard(q.name))
		age.lines = append(age.lines, oldestMessageAge(q.queue).forDashboard(q.name))
	}
	return []chart{visible, age}
}

func dlqChart(s dashboardContent) chart {
	dead := chart{title: "Dead letters", lines: []awscloudwatch.IMetric{visibleMessages(s.scheduleDLQ).forDashboard("schedules")}}
	for _, q := range s.queues {
		dead.lines = append(dead.lines, visibleMessages(q.dlq).forDashboard(q.name))
	}
	return dead
}

func functionCharts(functions []monitoredFunction) []chart {
	var row []chart
	for _, kind := range []struct{ title, name, stat string }{
		{"Invocations", "Invocations", "Sum"},
		{"Errors", "Errors", "Sum"},
		{"Throttles", "Throttles", "Sum"},
		{"Duration p99, ms", "Duration", "p99"},
	} {
		c := chart{title: kind.title}
		for _, f := range functions {
			c.lines = append(c.lines, functionMetric(f.function, kind.name, kind.stat).forDashboard(f.label))
		}
		row = append(row, c)
	}
	return row
}

func apiAndTableCharts(s dashboardContent) []chart {
	reads, writes := chart{title: "Read units"}, chart{title: "Write units"}
	throttled := chart{title: "Table writes throttled"}
	for _, role := range topology.Tables {
		tableMetric := func(name string) awscloudwatch.IMetric {
			return metric{namespace: "AWS/DynamoDB", name: name, stat: "Sum", dimension: "TableName", dimensionValue: s.tables[role].TableName()}.forDashboard(role)
		}
		reads.lines = append(reads.lines, tableMetric("ConsumedReadCapacityUnits"))
		writes.lines = append(writes.lines, tableMetric("ConsumedWriteCapacityUnits"))
		throttled.lines = append(throttled.lines, tableMetric("WriteThrottleEvents"))
	}
	row := []chart{reads, writes, throttled}
	if s.apiID != nil {
		row = append([]chart{{"Requests", []awscloudwatch.IMetric{
			apiMetric(s.apiID, "Count").forDashboard("all"), apiMetric(s.apiID, "4xx").forDashboard("4xx"), apiMetric(s.apiID, "5xx").forDashboard("5xx"),
		}}}, row...)
	}
	return row
}
