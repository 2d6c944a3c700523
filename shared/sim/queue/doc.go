// Package queue is a standard queue in memory: what is received is hidden for a
// while and comes again unless it is deleted, and on request messages come twice,
// in any order, or never.
package queue
