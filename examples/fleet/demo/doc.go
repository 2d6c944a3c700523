// Package demo runs the example from end to end: it starts the devices and the
// local stack with the fleet's worker, runs an upgrade that must succeed and one
// that must fail and roll back, and judges both by what every device itself says.
//
// A tour: demo.go is the story, stage.go brings up what it needs, programs.go
// starts and stops programs, devices.go asks the devices and compares, print.go
// lays out what was counted.
package demo
