// Package source receives a pool's packs for a polling worker. It is apart from
// the board because it speaks the worker's language, and functions that only
// send must not link the worker.
package source
