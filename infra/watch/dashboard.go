package watch

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Shown is what a dashboard shows of an engine.
type Shown struct {
	Queues    []Queue
	Sweeps    awssqs.IQueue // the dead letters of the schedule
	Functions []Function
	Tables    map[string]awsdynamodb.Table // by role
	API       *string                      // id; nil if there is no HTTP API
}

// chart is one graph: a title and its lines.
type chart struct {
	title string
	lines []awscloudwatch.IMetric
}

// Board makes the dashboard: first what is wrong, then the runs, what waits, who
// works on it, and what it costs the tables.
func (w *Watch) Board(s Shown) awscloudwatch.Dashboard {
	board := awscloudwatch.NewDashboard(w.Scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: w.name("")})
	board.AddWidgets(states("Alarms", w.set))
	addRow(board, w.runCharts())
	addRow(board, append(queueCharts(s.Queues), deadLetters(s)))
	addRow(board, functionCharts(s.Functions))
	addRow(board, apiAndTableCharts(s))
	return board
}

// Pool adds a worker pool to a dashboard. Its function is shown if it is there.
func (w *Watch) Pool(board awscloudwatch.Dashboard, q Queue, functions []Function) {
	row := append(queueCharts([]Queue{q}), chart{"Dead letters", []awscloudwatch.IMetric{waiting(q.DLQ).shown(q.Name)}})
	for i := range row {
		row[i].title = q.Name + ": " + row[i].title
	}
	board.AddWidgets(states(q.Name+": alarms", w.set))
	addRow(board, row)
	if len(functions) > 0 {
		addRow(board, functionCharts(functions))
	}
}

func states(title string, alarms []awscloudwatch.CfnAlarm) awscloudwatch.IWidget {
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

func (w *Watch) runCharts() []chart {
	return []chart{
		{"Executions that nothing moves", []awscloudwatch.IMetric{w.own(topology.MetricStuckExecutions, "Maximum").shown("stuck")}},
		{"Longest wait for a lock, seconds", []awscloudwatch.IMetric{w.own(topology.MetricLockAge, "Maximum").shown("lock age")}},
		{"Stopped by a bound", []awscloudwatch.IMetric{w.own(topology.MetricGuardStops, "Sum").shown("stopped")}},
	}
}

func queueCharts(queues []Queue) []chart {
	visible, age := chart{title: "Messages waiting"}, chart{title: "Oldest message, seconds"}
	for _, q := range queues {
		visible.lines = append(visible.lines, waiting(q.Queue).shown(q.Name))
		age.lines = append(age.lines, oldest(q.Queue).shown(q.Name))
	}
	return []chart{visible, age}
}

func deadLetters(s Shown) chart {
	dead := chart{title: "Dead letters", lines: []awscloudwatch.IMetric{waiting(s.Sweeps).shown("schedules")}}
	for _, q := range s.Queues {
		dead.lines = append(dead.lines, waiting(q.DLQ).shown(q.Name))
	}
	return dead
}

func functionCharts(functions []Function) []chart {
	var row []chart
	for _, kind := range []struct{ title, name, stat string }{
		{"Invocations", "Invocations", "Sum"},
		{"Errors", "Errors", "Sum"},
		{"Throttles", "Throttles", "Sum"},
		{"Duration p99, ms", "Duration", "p99"},
	} {
		c := chart{title: kind.title}
		for _, f := range functions {
			c.lines = append(c.lines, functionMetric(f.Function, kind.name, kind.stat).shown(f.Label))
		}
		row = append(row, c)
	}
	return row
}

func apiAndTableCharts(s Shown) []chart {
	reads, writes := chart{title: "Read units"}, chart{title: "Write units"}
	throttled := chart{title: "Table writes throttled"}
	for _, role := range topology.Tables {
		of := func(name string) awscloudwatch.IMetric {
			return metric{"AWS/DynamoDB", name, "Sum", "TableName", s.Tables[role].TableName()}.shown(role)
		}
		reads.lines = append(reads.lines, of("ConsumedReadCapacityUnits"))
		writes.lines = append(writes.lines, of("ConsumedWriteCapacityUnits"))
		throttled.lines = append(throttled.lines, of("WriteThrottleEvents"))
	}
	row := []chart{reads, writes, throttled}
	if s.API != nil {
		row = append([]chart{{"Requests", []awscloudwatch.IMetric{
			apiMetric(s.API, "Count").shown("all"), apiMetric(s.API, "4xx").shown("4xx"), apiMetric(s.API, "5xx").shown("5xx"),
		}}}, row...)
	}
	return row
}
