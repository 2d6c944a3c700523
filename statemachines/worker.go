package statemachines

import "slices"

// WorkerState is the state of one polling worker.
type WorkerState string

// The states of a worker. They are for display and for admitting workers; who
// may take over a job is decided by its lease alone.
const (
	WorkerRegistered  WorkerState = "REGISTERED"
	WorkerOnline      WorkerState = "ONLINE"
	WorkerUnreachable WorkerState = "UNREACHABLE"
	WorkerOffline     WorkerState = "OFFLINE"
	WorkerRemoved     WorkerState = "REMOVED"
)

// The events of a worker.
const (
	EventWorkerRegistered      Event = "worker.registered"
	EventWorkerHeartbeat       Event = "worker.heard"
	EventWorkerHeartbeatMissed Event = "worker.missed"
	EventWorkerLost            Event = "worker.lost"
	EventWorkerForgotten       Event = "worker.forgotten"
	EventWorkerUnregistered    Event = "worker.unregistered"
)

const bySweeper = "sweeper"

// Worker is the law of a polling worker. Its owner is the sweeper, but for the
// worker's own word that it lives or leaves.
var Worker = newTransitionTable[WorkerState](Machine{
	Layer:    LayerWorker,
	States:   stateNames(WorkerRegistered, WorkerOnline, WorkerUnreachable, WorkerOffline, WorkerRemoved),
	Initial:  string(WorkerRegistered),
	Terminal: stateNames(WorkerRemoved),
	Closed:   stateNames(WorkerRemoved),
	Events: []Event{
		EventWorkerRegistered, EventWorkerHeartbeat, EventWorkerHeartbeatMissed, EventWorkerLost, EventWorkerForgotten, EventWorkerUnregistered,
	},
	Rows: slices.Concat(
		moves(EventWorkerRegistered, WorkerRegistered, "worker", "it names its pool and its blocks", WorkerState("")),
		moves(EventWorkerRegistered, WorkerRegistered, "worker", "it was started again", WorkerUnreachable, WorkerOffline),
		moves(EventWorkerHeartbeat, WorkerOnline, "worker", "any heartbeat", WorkerRegistered, WorkerUnreachable, WorkerOffline),
		moves(EventWorkerHeartbeatMissed, WorkerUnreachable, bySweeper, "no heartbeat for `worker.unreachable` (2 min): it gets no new packs", WorkerRegistered, WorkerOnline),
		moves(EventWorkerLost, WorkerOffline, bySweeper, "no heartbeat for `worker.offline` (6 min)", WorkerUnreachable),
		moves(EventWorkerForgotten, WorkerRemoved, bySweeper, "no heartbeat for `worker.forget` (24 h)", WorkerOffline),
		moves(EventWorkerUnregistered, WorkerRemoved, "worker", "it leaves in good order", WorkerRegistered, WorkerOnline, WorkerUnreachable, WorkerOffline),

		ignores(EventWorkerRegistered, "it is registered: the same worker says so again", WorkerRegistered, WorkerOnline),
		ignores(EventWorkerHeartbeat, "it is known to be online: only the time of its last heartbeat changes", WorkerOnline),
		ignores(EventWorkerHeartbeatMissed, "the sweeper has seen that already", WorkerUnreachable, WorkerOffline),
		ignores(EventWorkerLost, "it was heard of since, or has to be UNREACHABLE first", WorkerRegistered, WorkerOnline),
		ignores(EventWorkerLost, "the sweeper has seen that already", WorkerOffline),
		ignores(EventWorkerForgotten, "it was heard of since, or has to be OFFLINE first", WorkerRegistered, WorkerOnline, WorkerUnreachable),
		refuses(EventWorkerRegistered, "a removed worker has no item: its registration begins a new life", WorkerRemoved),
		refuses(EventWorkerHeartbeat, "it is not known (any more): it has to register", WorkerRemoved),
	),
	Defaults: []Default{
		{From: stateNames(WorkerRemoved), Verdict: Ignore, Reason: "it is gone already"},
	},
})
