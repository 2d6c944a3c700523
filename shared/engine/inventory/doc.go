// Package inventory is what a run does to the inventory, and asks of it, besides
// finding its entities: it writes the updates of a completed run, and evaluates a
// condition on entities so that no change of them is missed.
package inventory
