// Package e2e runs the real binaries on the local stack and judges them from
// outside: over HTTP, by killing processes, and by what the simulated devices
// themselves have logged.
//
// A tour. stack_test.go starts bin/lockstep dev with thresholds shortened by
// configuration; blocks_test.go serves function blocks over HTTP, so that a test
// decides what each job does, and judge_test.go judges every call that was made.
// queues_test.go and tables_test.go put a queue service and a DynamoDB of the
// test's own behind the stack, where requests can be held, refused, doubled and reordered.
//
// deployed_test.go is the switch: with LOCKSTEP_E2E=localstack the tests run on a
// stack that is deployed, each as a tenant of its own, and those that need a stack of
// their own say so and are left out. tests/localstack brings that stack up.
//
// scenarios_test.go lists what runs side by side on one stack; its scenes are
// there, in endings_test.go, shown_test.go and seeds_test.go. lifecycle_test.go
// lists those of the whole lifecycle and of the definition language, on a stack of
// their own: values_test.go, nested_test.go, attempts_test.go, operators_test.go,
// inventory_test.go, limits_test.go, language_test.go and, where several of these
// meet, together_test.go. schedule_test.go has what goes by the clock.
// What kills, stops, breaks or holds something has a stack of its own:
// accidents_test.go, power_test.go, racing_test.go, broken_test.go, fence_test.go,
// workers_test.go. What is asked wrongly is in input_test.go, refusals_test.go,
// command_test.go and verbs_test.go. docs/scenarios.md says which of them proves
// which acceptance scenario.
package e2e
