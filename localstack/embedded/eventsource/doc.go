// Package source holds what invokes a local function from outside: the SQS event
// source mapping and the EventBridge schedule, with AWS's rules.
//
// A tour:
//
//   - source.go: [Function] and [Ground], what a source needs of its host.
//   - queue.go: [Mapping], from receive to delete.
//   - batch.go: the event made of a batch, and what its reply says.
//   - schedule.go: [Every] and [ScheduledEvent].
//
// It is a room of its own behind lambdahost.Host, whose methods MapQueue and
// Every are its doors.
package eventsource
