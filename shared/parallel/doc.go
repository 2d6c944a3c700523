// Package parallel runs a bounded number of calls at a time. It exists beside
// errgroup for one reason: with a limit of one everything happens in the
// caller's goroutine and in order, which the deterministic simulation needs.
package parallel
