// Package sweep is the scheduled side of the engine: it turns alarms that have
// rung into messages, counts the polling workers that have fallen silent, and has
// the calendar fire the schedules that are due. It decides nothing about any run.
//
// due.go reads what is due, in bounded pages; sweep.go does it; plan.go says what
// would be done, from the same reading.
package scheduler
