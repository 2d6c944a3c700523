package statemachines

import "slices"

// WorkerState is the state of one polling worker.
type WorkerState string

// The states of a worker. They serve display and the admission of workers. Who may
// take over a job depends only on the job's lease.
const (
	WorkerRegistered  WorkerState = "REGISTERED"
	WorkerOnline      WorkerState = "ONLINE"
	WorkerDraining    WorkerState = "DRAINING"
	WorkerUnreachable WorkerState = "UNREACHABLE"
	WorkerOffline     WorkerState = "OFFLINE"
	WorkerRemoved     WorkerState = "REMOVED"
)

// The events of a worker.
const (
	EventWorkerRegistered      Event = "worker.registered"
	EventWorkerHeartbeat       Event = "worker.heard"
	EventWorkerDrained         Event = "worker.drained"
	EventWorkerHeartbeatMissed Event = "worker.missed"
	EventWorkerLost            Event = "worker.lost"
	EventWorkerForgotten       Event = "worker.forgotten"
	EventWorkerUnregistered    Event = "worker.unregistered"
)

const bySweeper = "sweeper"

// Worker is the transition table of a polling worker. The sweeper owns it, apart
// from the registration, heartbeats and unregistration that the worker sends.
var Worker = newTransitionTable[WorkerState](Machine{
	Layer:    LayerWorker,
	States:   stateNames(WorkerRegistered, WorkerOnline, WorkerDraining, WorkerUnreachable, WorkerOffline, WorkerRemoved),
	Initial:  string(WorkerRegistered),
	Terminal: stateNames(WorkerRemoved),
	Closed:   stateNames(WorkerRemoved),
	Events: []Event{
		EventWorkerRegistered, EventWorkerHeartbeat, EventWorkerDrained, EventWorkerHeartbeatMissed, EventWorkerLost, EventWorkerForgotten, EventWorkerUnregistered,
	},
	Rows: slices.Concat(
		moves(EventWorkerRegistered, WorkerRegistered, "worker", "it registers with its pool and its blocks", WorkerState("")),
		moves(EventWorkerRegistered, WorkerRegistered, "worker", "it was started again", WorkerDraining, WorkerUnreachable, WorkerOffline),
		moves(EventWorkerHeartbeat, WorkerOnline, "worker", "any heartbeat", WorkerRegistered, WorkerUnreachable, WorkerOffline),
		moves(EventWorkerDrained, WorkerDraining, "operator", "it gets no new packs, and ends those that it has", WorkerRegistered, WorkerOnline, WorkerUnreachable, WorkerOffline),
		moves(EventWorkerHeartbeatMissed, WorkerUnreachable, bySweeper, "no heartbeat for `worker.unreachable` (2 min): it gets no new packs", WorkerRegistered, WorkerOnline),
		moves(EventWorkerLost, WorkerOffline, bySweeper, "no heartbeat for `worker.offline` (6 min)", WorkerDraining, WorkerUnreachable),
		moves(EventWorkerForgotten, WorkerRemoved, bySweeper, "no heartbeat for `worker.forget` (24 h)", WorkerOffline),
		moves(EventWorkerUnregistered, WorkerRemoved, "worker", "it shuts down cleanly", WorkerRegistered, WorkerOnline, WorkerDraining, WorkerUnreachable, WorkerOffline),

		ignores(EventWorkerRegistered, "it is registered: the worker registers again", WorkerRegistered, WorkerOnline),
		ignores(EventWorkerHeartbeat, "it is online: only the time of its last heartbeat changes", WorkerOnline),
		ignores(EventWorkerHeartbeat, "it drains: only the time of its last heartbeat changes", WorkerDraining),
		ignores(EventWorkerDrained, "it drains already", WorkerDraining),
		ignores(EventWorkerHeartbeatMissed, "it drains, and gets no packs anyway", WorkerDraining),
		ignores(EventWorkerHeartbeatMissed, "the sweeper has handled that already", WorkerUnreachable, WorkerOffline),
		ignores(EventWorkerLost, "it has sent a heartbeat since, or has to be UNREACHABLE first", WorkerRegistered, WorkerOnline),
		ignores(EventWorkerLost, "the sweeper has handled that already", WorkerOffline),
		ignores(EventWorkerForgotten, "it has sent a heartbeat since, or has to be OFFLINE first", WorkerRegistered, WorkerOnline, WorkerDraining, WorkerUnreachable),
		refuses(EventWorkerRegistered, "a removed worker has no item: its registration creates a new one", WorkerRemoved),
		refuses(EventWorkerHeartbeat, "it is not registered (any more): it has to register", WorkerRemoved),
	),
	Defaults: []Default{
		{From: stateNames(WorkerRemoved), Verdict: Ignore, Reason: "it is removed already"},
	},
})
