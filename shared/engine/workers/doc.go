// Package roster knows the polling workers: it registers them, hears their
// heartbeats, and counts those that have fallen silent as UNREACHABLE, then
// OFFLINE, until they are forgotten. The rows of statemachines' worker layer say
// what may happen; rules.go asks them, roster.go reads and writes, sweep.go judges
// who is due, for the sweeper.
//
// Nothing here decides who may work on a pack: leases do. A worker's state only
// decides whether it is given new ones, and is what people are shown.
package workers
