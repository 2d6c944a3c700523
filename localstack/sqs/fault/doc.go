// Package fault decides which misfortunes befall messages and replies, so that
// tests can have every message twice, late and out of order, and every reply
// lost, as often as they like and the same way again.
//
// fault.go is all of it. The package decides and counts; the queues do.
package fault
