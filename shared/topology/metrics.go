package topology

// MetricNamespace is the CloudWatch namespace of the metrics that functions write, and
// MetricDimension their only dimension. Its value is that of [EnvDeployment], so that the
// metrics of two engines in one account are not added up.
const (
	MetricNamespace = "Lockstep"
	MetricDimension = "deployment"
	EnvDeployment   = "LOCKSTEP_DEPLOYMENT" // name of the installation, unique in the account and region
)

// Metric describes a metric that the engine writes.
type Metric struct {
	Name        string
	Unit        string // as CloudWatch calls it
	Description string
	WrittenWhen string
	WrittenBy   string // function
}

// The metrics. Each has an alarm, and there are no others, because each costs money every
// month. The alarms treat missing data as not breaching: a function that does not work at
// all is detected by the alarms on AWS's own metrics.
const (
	MetricStuckExecutions = "StuckExecutions"
	MetricLockAge         = "LockAgeSeconds"
	MetricGuardStops      = "GuardStops"
)

// Metrics lists all metrics, in the order of docs/observability.md.
var Metrics = []Metric{
	{MetricStuckExecutions, "Count",
		"Executions whose timer has been due for longer than a sweep, a wake-up and a redelivery take together: nothing advances them",
		"With every sweep, zero included", FunctionSweeper},
	{MetricLockAge, "Seconds",
		"How long an execution has waited for a lock that another one holds",
		"With every wake-up of an execution that has waited for more than a minute and still waits", FunctionLifecycle},
	{MetricGuardStops, "Count",
		"Executions stopped by a limit: `run.maxSteps` step runs, 20,000 events, or executions that start executions ten levels deep. Lambda's own detection of recursive loops is off, and these limits replace it",
		"When it happens", FunctionLifecycle},
}

// LookupMetric finds a metric by name.
func LookupMetric(name string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// StuckAfterSeconds is how many seconds the timer of an execution has to be overdue before
// the execution counts as stuck.
const StuckAfterSeconds = 900
