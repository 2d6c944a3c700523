package mutation

// The files of business keys.
const (
	dynamoKeys       = "shared/dynamo/business_key.go"
	engineCheckIn    = "shared/engine/fetch_check_in.go"
	lifecycleCheckIn = "shared/lifecycle/check_in.go"
)

// keys are mistakes about business keys, most of them from docs/models/keys.pml. A test in the
// simulated world detects each.
var keys = []Mutation{
	{Name: "a retry does not check in", Test: "shared/engine:TestKey_ARetryWritesItsKey", Edits: []Edit{{lifecycleCheckIn, " || (x.State == sm.ExecutionValid || x.State == sm.ExecutionReady) && x.Try > 1", ""}}},
	{Name: "a retry that has not begun waits for its start without its key", Test: "shared/engine:TestKey_ARetryThatHasNotBegun", Edits: []Edit{{lifecycleCheckIn, "(x.State == sm.ExecutionValid || x.State == sm.ExecutionReady) && x.Try > 1", "x.State == sm.ExecutionReady && x.Try > 1"}}},
	{Name: "a retry under locks does not take its key", Test: "shared/engine:TestKey_NoRetryUnderLocks", Edits: []Edit{{"shared/lifecycle/retry.go", "if to == sm.ExecutionRunning && d.execution.Key != \"\" {", "if to == sm.ExecutionRunning && d.execution.Key == \"-\" {"}}},
	{Name: "a retry does not write its key", Test: "shared/engine:TestKey_ARetryWritesItsKey", Edits: []Edit{{engineCheckIn, "if key.Execution == x.ID && x.State == statemachines.ExecutionNew {", "if key.Execution == x.ID {"}}},
	{Name: "the key is taken before the execution exists", Test: "shared/engine:TestKey_OfTwoThatFindItFreeOneGivesWay", Edits: []Edit{{lifecycleCheckIn, "d.changed || d.execution.Version == 0", "d.changed"}}},
	{Name: "the key is taken before the retry is committed", Test: "shared/engine:TestKey_ARetryIsThereBeforeItTakesItsKey", Edits: []Edit{{lifecycleCheckIn, "d.changed || d.execution.Version == 0", "d.execution.Version == 0"}}},
	{Name: "only the starter looks at the key", Test: "shared/engine:TestKey_OfTwoThatFindItFreeOneGivesWay", Edits: []Edit{{engineCheckIn, "if owner == \"\" {", "if owner == \"\" || x.State == statemachines.ExecutionNew {"}}},
	{Name: "dynamo: a business key is written whatever its revision", Test: "tests/conformance/ports:TestDynamo_Registry", Edits: []Edit{{dynamoKeys, "\"#version = :seen\"", "\"#version >= :seen\""}}},
	{Name: "an execution gives way to one that has still to check in", Test: "shared/engine:TestKey_NobodyGivesWayToOneThatHasStillToCheckIn", Edits: []Edit{{engineCheckIn, "if statemachines.ChecksIn(owner) || ", "if "}}},
	{Name: "an execution that is tried again gives way", Test: "shared/engine:TestKey_ARetryThatLosesTheKeyWaits", Edits: []Edit{{engineCheckIn, "if statemachines.ChecksIn(owner) || x.State != statemachines.ExecutionNew {", "if statemachines.ChecksIn(owner) {"}}},
	{Name: "an execution does not show that it waits for its key", Test: "shared/engine:TestKey_ARetryThatLosesTheKeyWaits", Edits: []Edit{{"shared/engine/query/waiting.go", "key.Execution == \"\" || key.Execution == x.ID {", "key.Execution != \"\" || key.Execution == x.ID {"}}},
	{Name: "a retry does not look who has its key", Test: "shared/engine:TestKey_NoRetryWhileAnotherHasTheKey", Edits: []Edit{{"shared/engine/command.go", "owner != \"\" && owner != x.ID {", "owner != \"\" && owner == x.ID {"}}},
	{Name: "signals are handed to one that has still to check in", Test: "shared/engine:TestKey_NothingIsHandedToOneThatHasStillToCheckIn", Edits: []Edit{{engineCheckIn, "signal.Forwarded = true", "signal.Forwarded = false"}}},
	{Name: "only the signal of its start is handed over", Test: "shared/engine:TestKey_TheWholeMailboxIsHandedOver", Edits: []Edit{{engineCheckIn, "for _, signal := range w.execution.Signals {", "for _, signal := range w.execution.Signals[:1] {"}}},
	{Name: "a signal whose id the owner knows with other data is lost", Test: "shared/engine:TestKey_TheWholeMailboxIsHandedOver", Edits: []Edit{{engineCheckIn, "signal.ID = workflow.NewSignalID(signal.ID + \"@\" + w.id)", "signal.Digest = workflow.SignalDigest(signal.Name, []byte(`{\"n\":2}`))"}}},
	{Name: "an execution that gives way does not depend on signals", Test: "shared/engine:TestKey_ASignalThatComesWhileItGivesWay", Edits: []Edit{{lifecycleMailbox, "d.decision.DependsOnSignals = true\n\tleft", "d.decision.DependsOnSignals = !d.handedOver\n\tleft"}}},
	{Name: "signals that were handed over count as unconsumed", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleMailbox, "if len(left) == 0 || d.handedOver {", "if len(left) == 0 {"}}},
	{Name: "a run again has no key", Test: "shared/engine:TestKey_OfRunsAgainAndPlans", Edits: []Edit{{"shared/engine/rerun.go", "Key: old.execution.Key,", "Key: \"\","}}},
	{Name: "a plan allows a start that is refused because of its key", Test: "shared/engine:TestKey_OfRunsAgainAndPlans", Edits: []Edit{{"shared/engine/preview.go", "if req.Signal == nil {", "if req.Signal == nil && req.Key == \"\" {"}}},
	{Name: "a request is refused because of the execution that it has started", Test: "shared/engine:TestKey_ARequestIsNotRefusedBecauseOfItself", Edits: []Edit{{"shared/engine/signal_with_start.go", "if held == nil || idempotencyKey == \"\" ||", "if held != nil || idempotencyKey == \"\" ||"}}},
	{Name: "an owner of a key that is ending counts as one that has ended", Test: "shared/engine:TestKey_SignalsWhileTheOwnerIsEnding", Edits: []Edit{{"shared/engine/signal_with_start.go", "workflow.CodeIllegalTransition) && statemachines.Terminal(state) ||", "workflow.CodeIllegalTransition) ||"}}},
	{Name: "signals are handed to an owner that is ending again and again", Test: "shared/engine:TestKey_SignalsWhileTheOwnerIsEnding", Edits: []Edit{{engineCheckIn, "!statemachines.Terminal(state) && !statemachines.ChecksIn(state):", "state == \"\":"}}},
	{Name: "a start with a signal does not remember where it sent that", Test: "shared/engine:TestSignalWithStart_RepeatedRequests", Edits: []Edit{{"shared/engine/signal_with_start.go", "if key == \"\" || from == to {", "if key == \"\" || from == to || from == \"\" && to != s.id {"}}},
	{Name: "a start with a signal stays with an owner that has ended", Test: "shared/engine:TestSignalWithStart_RepeatedRequests", Edits: []Edit{{"shared/engine/signal_with_start.go", "ok, err := s.ports.Registry.MoveIdempotencyKey(ctx, s.tenant, key, from, to, now); ok || err != nil {", "ok, err := false, error(nil); ok || err != nil {"}}},
}
