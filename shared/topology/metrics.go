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
	MetricFailedUnsafe    = "FailedUnsafe"
	MetricFailedSafe      = "FailedSafe"
	MetricUnclaimed       = "Unclaimed"
	MetricFailedWakeups   = "FailedWakeups"
	MetricFailedPacks     = "FailedPacks"
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
	{MetricFailedUnsafe, "Count",
		"Executions that ended FAILED_UNSAFE: they keep locks until somebody has looked at their entities",
		"When it happens", FunctionLifecycle},
	{MetricFailedSafe, "Count",
		"Executions that ended FAILED_SAFE: nothing of them is left, and what they were for is not done",
		"When it happens", FunctionLifecycle},
	{MetricUnclaimed, "Count",
		"Executions that ended because no worker had claimed their jobs for `job.unclaimed`: a pool has no worker",
		"When it happens", FunctionLifecycle},
	{MetricFailedWakeups, "Count",
		"Wake-ups that could not be handled and come again. Lambda counts no error: the other messages of the batch have ended well",
		"When it happens", FunctionLifecycle},
	{MetricFailedPacks, "Count",
		"Packs that a worker function could not handle and that come again after the visibility timeout of their queue. Lambda counts no error. A block that fails is a result, and no such failure; nor is a pack whose claim was lost (a cancel, a timeout) or that did not fit into the invocation",
		"When it happens", FunctionWorker},
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

// StuckAfterSeconds is how many seconds an execution's timer must be overdue before the execution
// counts as stuck.
const StuckAfterSeconds = 900
