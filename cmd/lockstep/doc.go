// Command lockstep is the command line of the service: it publishes definitions,
// starts and watches runs, shows what they wait for, and brings the whole system
// up on one machine.
//
// One file a verb. failure.go maps errors to exit codes (0 success, 1 the run
// failed, 2 usage, 3 the service refused, 4 unreachable, 128 + n for signal n),
// interrupt.go ends them at a signal, flags.go holds command lines to what their
// verb takes, connect.go finds the service, print.go writes lists for people and
// for programs. Below it package given reads what command lines give, and package
// show says things to people; package upkeep holds the operators' verbs, package
// doctor the examination of a deployment, package intake an inventory of any
// length, package transfer what is moved from one stage to another.
package main
