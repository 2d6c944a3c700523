// Package bench measures the product on the local stack: the real binaries, with
// blocks that answer at once, so that what is measured is the engine.
//
// cmd/bench prints one line `name value unit` a figure. Units and requests are
// counted by the services and hold on AWS as they are; times are those of this
// machine, whose local DynamoDB writes to memory. Prices come from shared/cost.
//
//   - fleet: one run of one step over 1,000 devices, by default in packs of 10.
//   - single: 1,000 runs over one device each, a few at a time.
package main
