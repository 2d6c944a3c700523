// Package transfer moves what operators have made from one stage to another:
// blocks, definitions and the inventory. Runs, locks and workers stay where they
// are.
//
// format.go is the file, which reads and writes the same byte for byte, and
// secret.go what it leaves out; export.go and gather.go fill one, read.go checks one
// whole before anything is sent, plan.go finds out what a stage has of it already,
// compare.go words what differs, and import.go sends the rest.
package transfer
