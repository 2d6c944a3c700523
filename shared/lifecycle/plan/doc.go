// Package plan says which jobs a visit of a step has, and what came of them. It is
// as pure as the decider, for which it answers: plan.go makes the jobs of a visit
// from conditions, assertions and parameters; outcome.go merges the packs of a run
// into one record a job, counts them, and makes the jobs that undo them.
//
// A plan is never stored: everything it is made of is immutable once the step is
// entered, so whoever needs it makes it again.
package plan
