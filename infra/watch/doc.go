// Package watch makes the alarms of an engine and its dashboard: what somebody
// should be woken for, and what that somebody should then look at.
//
//   - alarms.go: [Watch], which sets the alarms of each part that it is shown.
//   - dashboard.go: [Watch.Board], which shows the parts on one page.
//   - metric.go: what AWS and the engine's functions measure.
//
// Every alarm's description ends with the address of a section of the runbooks
// (docs/runbooks/README.md). Alarms take silence for health, but for the one on
// the sweeper: what does not run is not measured.
package watch
