// Package sweep is the scheduled side of the engine: it turns alarms that have
// rung into messages. It decides nothing about any run.
package sweep
