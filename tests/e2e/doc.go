// Package e2e runs the real binaries on the local stack and judges them from
// outside: over HTTP, by killing processes, and by what the simulated devices
// themselves have logged.
//
// The harness (stack_test.go) starts bin/lockstep dev with thresholds shortened
// by configuration; queues_test.go puts a queue service of the test's own in
// front of it, where messages can be held, doubled and reordered; blocks_test.go
// serves function blocks over HTTP, so that a test decides what each job does.
package e2e
