// Package calendar starts runs by the clock. A sweep asks for the schedules whose
// moment has come; fire.go gives each of them its run, once, however many sweeps
// do so at the same time and wherever they are interrupted; moment.go says which
// moment that is, and what the run is called.
//
// One fire is three writes, each conditional on what was read: the schedule names
// the moment it fires; the run is created under an id that follows from the
// moment; the schedule goes on to its next moment. Who finds a moment named takes
// over from there. No other moment is chosen before, so that what a workflow
// without concurrency asks of its last run is always asked of the right one.
package calendar
