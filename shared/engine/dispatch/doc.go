// Package delivery is the engine's side of the delivery protocol: it offers the
// packs of a step run to the workers, reports how far the run has come, sends
// again what an alarm finds without a trace, and closes a run so that nothing of
// it starts later. The worker's side is shared/worker; the protocol is described
// in docs/protocols/packs.md.
//
// A tour: offer.go cuts lanes into messages, lane.go walks one lane along its
// attempts to the first that is not final, report.go and closing.go do so for
// all lanes of a run, waiting.go says what is offered again and when, and
// advance.go goes on where only the engine can say what follows.
//
// Everything that is read here is read strongly and fully paged, never from an
// index, and everything written is conditional on what was read.
package dispatch
