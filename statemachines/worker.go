package statemachines

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
	EventWorkerRegistered   Event = "worker.registered"
	EventWorkerHeard        Event = "worker.heard"
	EventWorkerMissed       Event = "worker.missed"
	EventWorkerLost         Event = "worker.lost"
	EventWorkerForgotten    Event = "worker.forgotten"
	EventWorkerUnregistered Event = "worker.unregistered"
)
