// Package invariant has what must hold of every play, after every single write and
// every call of a device. Each law has a name, under which its breach is told.
//
// watch.go is who is told of everything and keeps what has been so far; run.go has
// the laws of state items and their histories, steps.go those of step runs, lock.go
// those of locks and of the inventory, pack.go those of packs, and device.go those
// of what devices see.
package invariant
