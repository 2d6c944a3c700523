// Package burial writes into a run's history that a message of it has died: that
// its queue has given up on it, and why. It is told so by whoever received the
// message last, perhaps twice, and writes it once.
//
// Nothing else about the run changes. It does not drive the run: what the message
// died of may well be that the run cannot be driven.
package burial
