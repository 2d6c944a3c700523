// Package sweep is the scheduled side of the engine: it turns alarms that have
// rung into messages, and counts the polling workers that have fallen silent. It
// decides nothing about any run.
package sweep
