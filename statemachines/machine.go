package statemachines

// Layer names one of the six layers that have a state of their own.
type Layer string

// The layers, from the outside in, and the workers beside them.
const (
	LayerExecution Layer = "execution"
	LayerWorkflow  Layer = "workflow"
	LayerStep      Layer = "step"
	LayerJob       Layer = "job"
	LayerTool      Layer = "tool"
	LayerWorker    Layer = "worker"
)

// Event is a past fact of one layer. It makes a machine move, or does not.
type Event string
