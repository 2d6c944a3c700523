// Package roster keeps the polling workers among the items of the jobs table, one
// item each, in one partition for a tenant. The index that the sweeper reads is
// written only when a worker's state changes: a heartbeat of a worker that is
// ONLINE is one write unit, and the alarm that it makes obsolete is moved when it
// rings.
package roster
