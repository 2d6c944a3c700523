// Package planner learns, through the engine's ports, what a plan is made of, and
// makes it: the jobs of a visit, of a lane of a stretch, of a wave that undoes a
// visit, of a call of a block's acquire.
//
// outcome.go reads what came of earlier visits, view.go puts together what the
// expressions of a visit see of it, planner.go makes the plans. A planner serves
// one look at one execution; what it has read of visits that have ended cannot
// change, and is kept as long.
package planner
