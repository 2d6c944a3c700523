package statemachines

// JobState is the state of one attempt of one job: one call of a block for one
// entity, or one global call.
type JobState string

// The states of a job. Outside the engine, PENDING and ISSUED are both shown as
// PENDING: whether a job that nobody has claimed is queued already, is nobody
// else's business.
const (
	JobPending   JobState = "PENDING"
	JobIssued    JobState = "ISSUED"
	JobClaimed   JobState = "CLAIMED"
	JobRunning   JobState = "RUNNING"
	JobCompleted JobState = "COMPLETED"
	JobFailed    JobState = "FAILED"
	JobUnknown   JobState = "UNKNOWN"
	JobCancelled JobState = "CANCELLED"
)

// The events of a job.
const (
	EventJobCreated      Event = "job.created"
	EventJobIssued       Event = "job.issued"
	EventJobClaimed      Event = "job.claimed"
	EventJobStarted      Event = "job.started"
	EventJobCompleted    Event = "job.completed"
	EventJobFailed       Event = "job.failed"
	EventJobLeaseExpired Event = "job.lease_expired"
	EventJobLost         Event = "job.lost"
	EventJobCancelled    Event = "job.cancelled"
)
