// Package boot turns an environment into the parts that a process runs on: the
// configuration, the log, the tables and the queues. Below it, core makes the
// engine, web the HTTP interface and pool a pool's worker, so that a function
// links only what it runs.
//
// On a local stack a function keeps itself to the rights that its role has on AWS.
//
// Clocks, ids and chance enter the system here and nowhere else.
package boot
