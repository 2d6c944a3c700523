package mutation

// The files of signals and tokens.
const (
	dynamoMailbox    = "shared/dynamo/mailbox.go"
	engineSignal     = "shared/engine/signal.go"
	lifecycleMailbox = "shared/lifecycle/mailbox.go"
	resumeToken      = "shared/token/token.go"
)

// mailbox are mistakes about signals, most of them from docs/models/mailbox.pml, and about resume
// tokens.
var mailbox = []Mutation{
	{Name: "a resume token is accepted whoever made it", Test: "shared/token:TestKeys_RefuseOthers", Edits: []Edit{{resumeToken, "if hmac.Equal(sum, mac(key, token[:at])) {", "if len(sum) == len(mac(key, token[:at])) {"}}},
	{Name: "a resume token may name another key", Test: "shared/token:TestKeys_RefuseOthers", Edits: []Edit{{resumeToken, "case id != maker:", "case id == \"\":"}}},
	{Name: "a resume token has several texts", Test: "shared/token:TestKeys_RefuseOthers", Edits: []Edit{{resumeToken, "err == nil && encoding.EncodeToString(raw) == text", "err == nil"}}},
	{Name: "a signal is refused by the state before it is known as a duplicate", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "known != \"\" {", "known != \"\" && statemachines.AcceptsSignals(x.State) {"}}},
	{Name: "consumed signals are forgotten when there are many", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "_, _, err := s.t.Put(ctx, heardKey(next.Tenant, next.ID, left[i]).Attributes(), \"\", nil)\n\t\treturn err", "return nil"}}},
	{Name: "one bound for signals of all names", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "#sigN < :unawaited OR (", "#sigN < :max OR #sigN < :unawaited OR ("}}},
	{Name: "a name that a wait wants is kept no place", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "contains(#sigW, :name)", "contains(#sigW, :key) AND :name <> :key"}}},
	{Name: "dynamo: an end does not depend on signals", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "if o.SignalsSeen {", "if false && o.SignalsSeen {"}}},
	{Name: "an end does not depend on signals", Test: "shared/engine:TestSignal_AcceptedBeforeTheEndIsNoticed", Edits: []Edit{{lifecycleMailbox, "d.decision.DependsOnSignals = true", "d.decision.DependsOnSignals = false"}}},
	{Name: "signals that nobody took are not noticed", Test: "shared/engine:TestSignal_AcceptedBeforeTheEndIsNoticed", Edits: []Edit{{lifecycleMailbox, "if len(left) == 0 || d.handedOver {", "if len(left) >= 0 || d.handedOver {"}}},
	{Name: "a commit that loses to signals counts as a conflict", Test: "shared/engine:TestSignal_AcceptedBeforeTheEndIsNoticed", Edits: []Edit{{"shared/engine/advance.go", "x.SignalOrder > w.execution.SignalOrder {", "x.SignalOrder > w.execution.SignalOrder+1<<40 {"}}},
	{Name: "the number of signals is written as it was read", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "\"#sigN = #sigN - :consumed\"", "\"#sigN = :consumed\""}, {dynamoMailbox, "c.Values[\"consumed\"] = table.N(int64(len(o.Consumed)))", "c.Values[\"consumed\"] = table.N(int64(max(0, len(next.Signals)-len(o.Consumed))))"}}},
	{Name: "signals are not read in the order in which they came", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoMailbox, "cmp.Compare(a.Order, b.Order)", "cmp.Compare(a.ID, b.ID)"}}},
	{Name: "a signal does not depend on which consumed ones were looked at", Test: "tests/conformance/ports:TestDynamo_SignalWhileItsTwinIsForgotten", Edits: []Edit{{dynamoMailbox, "\"#heardOut = :heardOut\"", "\"#heardOut >= :heardOut\""}}},
	{Name: "a commit hides signals that came since from the release before", Test: "tests/conformance/ports:TestDynamo_Signals", Edits: []Edit{{dynamoCommit, "if next.Schema < workflow.SchemaVersion {", "if next.Schema < 1 {"}}},
	{Name: "a signal is sent before its data are stored", Test: "shared/engine:TestSignal_LargeData", Edits: []Edit{{engineSignal, "\tref, err := w.ports.Store.SaveValue(", "\tif result, state, err := w.ports.Store.SendSignal(ctx, w.tenant, w.id, signal); result != workflow.SignalAccepted {\n\t\treturn result, state, err\n\t}\n\tref, err := w.ports.Store.SaveValue("}}},
	{Name: "a duplicate signal wakes nobody", Test: "shared/engine:TestSignal_IsStoredAndWakesTheExecution", Edits: []Edit{{engineSignal, "\tif err := w.ports.Sender.SendWakeups(", "\tif result == workflow.SignalDuplicate {\n\t\treturn SignalReceipt{ID: signal.ID, Duplicate: true}, state, nil\n\t}\n\tif err := w.ports.Sender.SendWakeups("}}},
	{Name: "a signal that could not wake its execution is not reported", Test: "shared/engine:TestSignal_ReportsAWakeupThatWasNotSent", Edits: []Edit{{engineSignal, "Reason: \"signal\"}); err != nil {", "Reason: \"signal\"}); false && err != nil {"}}},
}
