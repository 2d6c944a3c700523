// Package locking acquires all locks of a run at one epoch, or reports the first
// conflict that it has registered with, so that the run can release everything
// by one write to its own state item and sleep.
//
// The protocol is described in docs/protocols/locks.md. In short: takes in
// any order and in parallel, release on conflict, reserve from the second
// conflict on. judge.go says what a lock item means to one run, given the states
// of the runs it names; it is pure. acquire.go walks the steps ACQUIRE, CONFLICT,
// RESERVE and SELF, and take.go is TAKE, alone or shared. deadlock.go walks the
// chain of waits of a run that another waits for, which holds locks. ENTER,
// COMMIT, RELEASE and END are commits of the run's own state item and belong to
// the decider.
//
// Nothing is remembered between two calls: owners are read after the lock items
// that name them, every time.
package locking
