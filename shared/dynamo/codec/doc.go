// Package form is the stored form of executions, events and packs: short enough
// that the state item of a short run, and a pack of ten jobs, cost one write
// unit each.
//
//   - document.go: what of an execution needs no attribute of its own.
//   - eventlines.go: events, each a line of an array.
//   - jobrecords.go: job records, in the same way.
//   - dictionary.go: what the compression starts from.
//
// Reading is strict: a form, a field or a code that is not known was written by
// a newer version and is refused.
package codec
