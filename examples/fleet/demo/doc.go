// Package demo runs the example from end to end: it starts the devices and the
// local stack with the fleet's worker, runs an upgrade that must succeed and one
// that must fail and roll back, and judges both by asking every device itself.
//
// demo.go is the story, programs.go starts and stops what it needs, devices.go
// asks the devices, print.go lays out what was counted.
package demo
