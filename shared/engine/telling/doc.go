// Package telling is what the engine says about a run while it moves it: a line of the
// log for the moves of one look, what goes wrong on the way, and the values of metrics
// on which alarms stand.
package telling
