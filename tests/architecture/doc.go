// Package architecture holds the law of the repository as tests: which room may
// import which, what every package must have, how large a room may grow, and what
// must not stand in any tracked file.
package architecture
