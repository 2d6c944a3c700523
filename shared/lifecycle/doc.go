// Package lifecycle is the decider: a pure function from what an execution's
// state item says, what is known of the world, and the time, to what the state
// item must say next.
//
//	Decide(execution, facts, policy, now) -> Decision
//
// A Decision either names one fact that has to be fetched first ([Need]), or
// carries the next state to commit, or says that there is nothing to do until
// somebody calls again. Decide runs through as many transitions as it can in one
// go; each is still one event in the history, and each is checked against the
// rows in package statemachines.
//
// Here is the life around the steps, one file a stretch of it: start.go (NEW to
// SCHEDULED), locking.go (SCHEDULED, LOCKING, LOCKED), timing.go (the deadline of
// the run), failure.go (ERROR and its classification), cancel.go, ending.go, verbs.go
// (what operators ask for), loose.go (what has to be closed before locks go),
// restored.go (runs from before the tables were set back) and retention.go (how long
// the rest is kept). The steps are in the room visits, the scratchpad and the facts in
// draft, and the jobs of a step in plan.
//
// Nothing here reads a clock, draws a number, logs or performs I/O: a decision
// can be repeated from its inputs, and the golden scripts in testdata do so.
package lifecycle
