// Package simulator is a fleet of network devices in one process, each an
// HTTP endpoint with its own state. It exists so that a run of a workflow can
// be judged by what the devices themselves say, and not by what the system
// that changed them believes.
//
// The tour:
//
//   - inventory.go: the devices by name, group and attributes, as JSON lines
//     or numbered by the machine.
//   - fleet.go: all devices together, [New], the Go accessors and the reset.
//   - device.go: one device and the life of one change on it: arrival, the
//     fence, the turn, the application, the end.
//   - behaviour.go: the switches of misbehaviour: slow, refusing, dropping the
//     connection, coming back with the old version.
//   - handler.go: the HTTP routes.
//   - journal.go: the file in which a fleet outlives its process.
//   - devicelog: the append-only log of every change a device was asked to
//     make, and the judge who reads it.
//
// # The fence
//
// A change carries a fence, a text that compares lexicographically. The device
// remembers the highest fence it ever saw and refuses a lower one with status
// 409 and code stale_fence, before anything else is looked at. An equal or a
// higher fence is accepted. This is the whole of the device's part in
// exclusive access: it need not know who holds a lock, only that somebody later
// has already been here.
//
// # One change at a time
//
// A device makes one change at a time, in order of arrival. A change that
// arrives while another one is being made waits for its turn, and is logged
// with overlap true, because a system that holds its locks rightly does not
// let that happen; [devicelog.Judge] says which overlaps are excused. A change that
// has begun goes on when its caller hangs up, as a real device's would; one
// that still waits is dropped.
//
// # Idempotent or not
//
// Upgrade, rollback and configuration are idempotent by nature: a device that
// already runs the version does not boot again. Touch is deliberately not: it
// counts every call, remembers no key, and so proves "never twice".
package simulator
