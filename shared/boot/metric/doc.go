// Package metric writes the engine's own metrics in CloudWatch's embedded metric
// format: one line of JSON on the standard output, which Lambda's log turns into
// data points, so that no call is made and no right is needed.
//
// Which metrics there are, and what alarms make of them, is in topology.
package metric
