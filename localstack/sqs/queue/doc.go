// Package queue is one queue: what is in it, who may have it when, and who waits
// for it. It knows no protocol beyond the shapes of wire, keeps no journal and
// takes no lock: its owner calls it from one goroutine at a time and tells it
// the time.
//
//   - queue.go: the queue, and the moments at which messages become visible.
//   - message.go: the message, its states and its receipt handles.
//   - accept.go: what may be sent. take.go: what is delivered, and long polls. A
//     poll is served by whoever makes a message visible, so it wakes at once and
//     costs nothing while it waits.
//   - order.go: message groups and deduplication of FIFO queues.
//   - attributes.go: the attributes, what values they may have, redrive policies.
package queue
