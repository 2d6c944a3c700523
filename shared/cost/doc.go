// Package cost turns what a run has consumed into money.
//
//   - meter.go: the counter that the adapters count into, one for each piece of
//     work, so that what one run consumes is told apart from its neighbours.
//   - prices.go: the one table of prices, with its date and where it is from.
//   - bill.go: a bill of a count, line by line, and how money is printed.
//   - rest.go: the bill of an install of which nobody asks anything.
//
// Nothing here calls a service: the adapters count what the services reported.
package cost
