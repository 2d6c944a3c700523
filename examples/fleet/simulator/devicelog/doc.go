// Package devicelog is the log a device keeps of every change it was asked to
// make, and the judge who reads it. It is apart from the devices, because
// whoever judges a run may have the logs only as JSON.
//
//   - entry.go: the operations, how they end, and one [Entry] of the log.
//   - judge.go: the rules that hold on every device for every correct run,
//     and [Judge], which finds what broke them.
package devicelog
