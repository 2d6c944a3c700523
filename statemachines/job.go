package statemachines

import "slices"

// JobState is the state of one attempt of one job: one call of a block for one
// entity, or one global call.
type JobState string

// The states of a job. The API shows PENDING and ISSUED both as PENDING: whether an
// unclaimed job has been queued already concerns only the engine.
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

// Job is the transition table of one attempt of one job. The worker that has
// claimed the job and the engine own it. It says only whether the job is over: even
// when every job is over, nothing above closes. A retry is a new attempt.
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
		moves(EventJobIssued, JobIssued, "engine, worker", "its lane is within the window and the pack was sent", JobPending),
		moves(EventJobClaimed, JobClaimed, "worker", "the pack's claim succeeded", JobIssued),
		moves(EventJobStarted, JobRunning, "worker", "the block is about to be called", JobClaimed),
		moves(EventJobCompleted, JobCompleted, "worker", "the outcome is OK, BREAK or NOOP", JobRunning),
		moves(EventJobCompleted, JobCompleted, "worker", "the block is repeatable: its start is not recorded", JobClaimed),
		moves(EventJobCompleted, JobCompleted, "worker", "the block is pure: neither claim nor start is recorded", JobIssued),
		moves(EventJobFailed, JobFailed, "worker, sweeper", "the outcome is ERROR, or the timeout or `job.stuck` has passed", JobRunning),
		moves(EventJobFailed, JobFailed, "worker, sweeper", "as from RUNNING, of a repeatable block", JobClaimed),
		moves(EventJobFailed, JobFailed, "worker", "the outcome is ERROR, of a pure block", JobIssued),
		moves(EventJobLeaseExpired, JobIssued, "worker, engine", "it was not started, or is repeatable", JobClaimed, JobRunning),
		moves(EventJobLost, JobUnknown, "worker, engine", "it was started, its worker crashed or was stopped, and it must not be repeated", JobRunning),
		moves(EventJobLost, JobUnknown, "worker, engine", "the pack is being closed, and the job may have been started", JobClaimed),
		moves(EventJobCancelled, JobCancelled, byEngine, "a cancelled marker was written in place of its claim", JobPending, JobIssued),
		moves(EventJobCancelled, JobCancelled, "worker, engine", "the pack is being closed, and the job was certainly not started", JobClaimed),

		ignores(EventJobStarted, "the block is pure: its start is not recorded", JobIssued),
		ignores(EventJobLeaseExpired, "its lease has expired already", JobIssued),
		refuses(EventJobStarted, "an attempt is started once: a second start would be a bug", JobRunning),
		refuses(EventJobCancelled, "a started job never counts as not executed: it ends with its result, or UNKNOWN", JobRunning),
		refuses(EventJobLost, "nobody has claimed it", JobPending, JobIssued),
	),
	Defaults: []Default{
		{On: []Event{EventJobCreated}, Verdict: Ignore, Reason: "it exists: a repeated dispatch makes the same jobs"},
		{On: []Event{EventJobIssued}, Verdict: Ignore, Reason: "the message was sent twice, or arrived late"},
		{On: []Event{EventJobLeaseExpired, EventJobLost, EventJobCancelled}, From: stateNames(jobClosed...), Verdict: Ignore, Reason: "it is over: its result is kept"},
		{On: []Event{EventJobClaimed}, From: stateNames(JobClaimed, JobRunning), Verdict: Refuse, Reason: "another claim holds it"},
		{On: []Event{EventJobClaimed}, From: stateNames(jobClosed...), Verdict: Refuse, Reason: "it is over: delete the message"},
		{From: stateNames(jobClosed...), Verdict: Refuse, Reason: "it is over: the token of a late worker is refused"},
		{From: stateNames(JobPending), Verdict: Refuse, Reason: "it was not sent: nobody can have it"},
	},
})
