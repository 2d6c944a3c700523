// Package retention gives up what a run of long ago has left behind. When that is
// due, the decider says (package lifecycle).
package retention
