// Package planner learns, through the engine's ports, what a plan is made of, and
// makes it: the jobs of a visit, of a lane of a stretch, of a wave that undoes a
// visit, of a call of a block's acquire.
//
// planner.go makes the plans, from what view.go says a visit's expressions see and
// outcome.go reads of earlier visits. run.go shows a step run to the delivery
// protocol, report.go reports it, and stretch.go moves the lanes of a stretch.
// updates.go gathers what jobs ask to be changed, and refuses what never could be.
//
// A planner serves one look at one execution; what it has read of visits that have
// ended cannot change, and is kept as long.
package planner
