// Package sqs is Amazon SQS inside one process, for the local stack and for
// tests: an http.Handler that the AWS SDK talks to as it talks to the service.
// It speaks AWS JSON 1.0 and nothing older, checks no signature, and is meant
// for a loopback address only.
//
// A tour, in the order in which a request meets the files:
//
//   - server.go: options, the table of operations, one request from HTTP to
//     reply. One mutex guards everything; an operation holds it for microseconds.
//   - send.go: a message is checked, written to the journal and put into its
//     queue. receive.go: deliveries, and the long polls that wait for them.
//   - settle.go: delete, and change of visibility.
//   - redrive.go: dead-letter queues, and moving messages back out of them.
//   - admin.go: queues come, go, are listed, tagged and purged.
//     attributes.go: their attributes are read and set.
//   - record.go: what is kept in the journal, so that an acknowledged message
//     survives kill -9 of the process.
//   - meter.go: requests, counted as AWS bills them. local.go: the addresses
//     /_faults and /_meter, which only a local stack has.
//
// Rooms below: queue (one queue: visibility, order, long polls, limits), wire
// (the protocol's shapes, errors and sums), journal (the append-only file) and
// fault (duplicates, delays, disorder and lost replies, on request).
//
// Where the service leaves a choice, the harsher one is taken: a receipt handle
// other than the latest deletes nothing (and is not an error), and a message
// goes to its dead-letter queue at the very moment its last visibility time-out
// ends. Left out: permissions, encryption, the 60 seconds between deleting and
// creating a queue of the same name, RedriveAllowPolicy (stored, not applied).
package sqs
