// Package sqs is the blackboard on SQS: packs wait on the queue of their pool,
// looks on the lifecycle queue. All queues are standard ones; messages may come
// twice, late, or in any order, and nothing here minds.
//
//   - body.go: what a message looks like, and the strict reading of one.
//   - queues.go: where a pool's queue is. A pool that nobody serves has none.
//   - board.go: sending, in batches.
//   - meter.go: middleware that counts requests in units of 64 KB.
//
// Below it, source receives for a polling worker.
package sqs
