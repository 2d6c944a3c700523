// Package workload draws what happens in a play besides what goes wrong: which
// definitions there are, who starts what on which devices, and what operators do
// meanwhile.
//
// company.go has the definitions that a block of seeds has in common, act.go what
// people do, play.go draws a play, and script.go says what comes of the calls of
// blocks.
package workload
