// Package fate decides what becomes of calls and of those who make them.
//
// A tour: fault.go names the faults and makes plans of them, hook.go is the one
// place that every call passes, and task.go runs a piece of work one call at a
// time, so that a test can hold a handler between two of its calls while others
// go on, or let it die there.
package faults
