// Package worker is the example fleet's function blocks, written on the public
// worker SDK: what each step of upgrade_firmware.yaml does to one device.
//
// blocks.go declares them with their types, devices.go speaks to a device: every
// change carries the job's fence, which the device remembers, and the job's id
// as its Idempotency-Key.
package worker
