// Package draft is what every part of the decider works on: the facts that a
// decision is made of, what it can ask for, and the execution as far as it has been
// decided, with the few things that can be done to it: move, record, fail, wait.
package draft
