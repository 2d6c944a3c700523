package statemachines

import "slices"

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

var jobClosed = []JobState{JobCompleted, JobFailed, JobUnknown, JobCancelled}

// Job is the law of one attempt of one job. Its owners are the worker that has
// claimed it and the engine. It says only whether the job is over: that every
// job is, closes nothing above. A retry is a job of its own.
var Job = newTransitionTable[JobState](Machine{
	Layer:    LayerJob,
	States:   stateNames(JobPending, JobIssued, JobClaimed, JobRunning, JobCompleted, JobFailed, JobUnknown, JobCancelled),
	Initial:  string(JobPending),
	Terminal: stateNames(jobClosed...),
	Closed:   stateNames(jobClosed...),
	Events: []Event{
		EventJobCreated, EventJobIssued, EventJobClaimed, EventJobStarted, EventJobCompleted, EventJobFailed,
		EventJobLeaseExpired, EventJobLost, EventJobCancelled,
	},
	Rows: slices.Concat(
		moves(EventJobCreated, JobPending, byEngine, "its step was entered", JobState("")),
		moves(EventJobIssued, JobIssued, "engine, worker", "its lane is within the window: the pack was sent", JobPending),
		moves(EventJobClaimed, JobClaimed, "worker", "the pack's claim succeeded", JobIssued),
		moves(EventJobStarted, JobRunning, "worker", "the block is about to be called", JobClaimed),
		moves(EventJobCompleted, JobCompleted, "worker", "the outcome is OK, BREAK or NOOP", JobRunning),
		moves(EventJobCompleted, JobCompleted, "worker", "the block may be repeated: its start is not written down", JobClaimed),
		moves(EventJobCompleted, JobCompleted, "worker", "the block is pure: neither claim nor start is written down", JobIssued),
		moves(EventJobFailed, JobFailed, "worker, sweeper", "the outcome is ERROR, or the time-out or `job.stuck` has passed", JobRunning),
		moves(EventJobFailed, JobFailed, "worker, sweeper", "as from RUNNING, of a block that may be repeated", JobClaimed),
		moves(EventJobFailed, JobFailed, "worker", "the outcome is ERROR, of a pure block", JobIssued),
		moves(EventJobLeaseExpired, JobIssued, "worker, engine", "it was not started, or may be repeated", JobClaimed, JobRunning),
		moves(EventJobLost, JobUnknown, "worker, engine", "it was started, its worker is gone or was stopped, and it must not be repeated", JobRunning),
		moves(EventJobLost, JobUnknown, "worker, engine", "the pack is being closed, and that it was started cannot be excluded", JobClaimed),
		moves(EventJobCancelled, JobCancelled, byEngine, "a tombstone stands where its claim would", JobPending, JobIssued),
		moves(EventJobCancelled, JobCancelled, "worker, engine", "the pack is being closed, and it was certainly not started", JobClaimed),

		ignores(EventJobStarted, "the block is pure: its start is not written down", JobIssued),
		ignores(EventJobLeaseExpired, "it was given back already", JobIssued),
		refuses(EventJobStarted, "an attempt is started once: a second start would be an accident", JobRunning),
		refuses(EventJobCancelled, "what was started is never called not executed: it ends with its result, or UNKNOWN", JobRunning),
		refuses(EventJobLost, "nobody had it", JobPending, JobIssued),
	),
	Defaults: []Default{
		{On: []Event{EventJobCreated}, Verdict: Ignore, Reason: "it exists: dispatch is repeatable and makes the same jobs"},
		{On: []Event{EventJobIssued}, Verdict: Ignore, Reason: "the message was sent twice, or came late"},
		{On: []Event{EventJobLeaseExpired, EventJobLost, EventJobCancelled}, From: stateNames(jobClosed...), Verdict: Ignore, Reason: "it is over: what is known of it stays"},
		{On: []Event{EventJobClaimed}, From: stateNames(JobClaimed, JobRunning), Verdict: Refuse, Reason: "another claim is alive"},
		{On: []Event{EventJobClaimed}, From: stateNames(jobClosed...), Verdict: Refuse, Reason: "it is over: delete the message"},
		{From: stateNames(jobClosed...), Verdict: Refuse, Reason: "it is over: a late worker is refused by its token"},
		{From: stateNames(JobPending), Verdict: Refuse, Reason: "nobody can have what was not sent"},
	},
})
