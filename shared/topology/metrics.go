package topology

// MetricNamespace is where the functions' own metrics are found, and
// MetricDimension their one dimension: its value is what [EnvDeployment] says, so
// that two engines of one account are never added up.
const (
	MetricNamespace = "Lockstep"
	MetricDimension = "deployment"
	EnvDeployment   = "LOCKSTEP_DEPLOYMENT" // a name of this install that no other has in the account and region
)

// The metrics on which alarms stand. A metric that is not written is silence, and
// these alarms take silence for health: what is broken altogether is seen by the
// alarms on AWS's own metrics.
const (
	// MetricStuckExecutions is how many executions have an alarm that rang longer
	// ago than a sweep, a look and a redelivery take together: nothing moves them.
	// Every sweep writes it, zero included.
	MetricStuckExecutions = "StuckExecutions"

	// MetricLockAge is for how many seconds a run has waited for a lock that
	// another holds. Every look at a run that goes on waiting writes it.
	MetricLockAge = "LockAgeSeconds"

	// MetricGuardStops counts runs and messages that one of the engine's own bounds
	// has stopped (steps of a run, hops of a chain of messages). Lambda's
	// detection of recursive loops is off, and these bounds stand in its place.
	MetricGuardStops = "GuardStops"
)

// StuckAfter is for how many seconds an alarm has to have rung before its
// execution counts as stuck.
const StuckAfter = 900
