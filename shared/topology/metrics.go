package topology

// MetricNamespace is where the functions' own metrics are found, and
// MetricDimension their one dimension: its value is what [EnvDeployment] says, so
// that two engines of one account are never added up.
const (
	MetricNamespace = "Lockstep"
	MetricDimension = "deployment"
	EnvDeployment   = "LOCKSTEP_DEPLOYMENT" // a name of this install that no other has in the account and region
)

// Metric is a number that the engine writes about itself.
type Metric struct {
	Name        string
	Unit        string // as CloudWatch calls it
	Description string
	WrittenWhen string // it is written
	WrittenBy   string // the function that writes it
}

// The metrics. On each of them stands an alarm, and there is none besides: one more is
// paid for by the month. A metric that is not written is silence, and these alarms take
// silence for health: what is broken altogether is seen by the alarms on AWS's own
// metrics.
const (
	MetricStuckExecutions = "StuckExecutions"
	MetricLockAge         = "LockAgeSeconds"
	MetricGuardStops      = "GuardStops"
)

// Metrics are all of them, as docs/observability.md lists them.
var Metrics = []Metric{
	{MetricStuckExecutions, "Count",
		"Runs whose alarm clock rang longer ago than a sweep, a look and a redelivery take together: nothing moves them",
		"With every sweep, zero included", FunctionSweeper},
	{MetricLockAge, "Seconds",
		"For how long a run has waited for a lock that another holds",
		"With every look at a run that goes on waiting after a minute", FunctionLifecycle},
	{MetricGuardStops, "Count",
		"Runs that would go on and on and were stopped: after `run.maxSteps` visits of steps or 20,000 events, or runs that start runs ten deep. Lambda's own detection of recursive loops is off, and these bounds stand in its place",
		"When it happens", FunctionLifecycle},
}

// LookupMetric is a metric by its name.
func LookupMetric(name string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// StuckAfterSeconds is for how many seconds an alarm has to have rung before its
// execution counts as stuck.
const StuckAfterSeconds = 900
