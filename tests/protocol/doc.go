// Package protocol plays the lock and the delivery protocol as sequences that a
// generator draws and, where one breaks a promise, shortens: the locking room, the
// engine's delivery and the workers' SDK over the real adapters on a local
// DynamoDB, and over the simulated ones, by the same actions and before the same
// judge. What must hold is what docs/models holds of the models.
//
// A tour: adapters_test.go opens both implementations; gate_test.go stands between
// them and whoever calls, so that a handler can be held before any of its calls,
// die there, lose a reply or have a write repeated as the SDK repeats it.
// locks_test.go has runs that lock, give way, reserve, wake, end and come back, and
// locks_judge_test.go what is asked after each action. packs_test.go has the engine
// and the workers of one step run, lent_test.go the programs that speak HTTP only,
// and packs_judge_test.go their judge. sweeps_test.go lets sweepers overlap over the
// real tables, and counts what a sweep costs.
//
// A program begins no job while it does not know what came of its last report: its
// pack may have been ended by it.
//
// A failure prints the shortest sequence found. `make mutations JUDGE=protocol`
// makes the deliberate mistakes of tests/sim/mutation one by one and lets
// these tests look for them; those of the simulated stores are seen by one half.
package protocol
