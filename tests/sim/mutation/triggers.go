package mutation

// triggers are mistakes in what starts executions from outside.
var triggers = []Mutation{
	{Name: "a call may be as old as it likes", Test: "shared/workflow:TestVerification_AcceptsOnlyWhatTheSecretHasSigned", Edits: []Edit{{"shared/workflow/trigger.go", "ok && away <= v.Window()", "ok && away >= 0"}}},
	{Name: "the time of a call is not signed", Test: "shared/workflow:TestVerification_AcceptsOnlyWhatTheSecretHasSigned", Edits: []Edit{{"shared/workflow/trigger.go", "mac := MAC(secret, []byte(at+\".\"), body)", "mac := MAC(secret, body)"}}},
	{Name: "a secret may be empty", Test: "shared/workflow:TestVerification_AcceptsOnlyWhatTheSecretHasSigned", Edits: []Edit{{"shared/workflow/trigger.go", "if len(secret) < MinSecretBytes {", "if len(secret) < 0 {"}}},
	{Name: "a rate counts only what came in a row", Test: "shared/workflow:TestRate_LetsSoManyPass", Edits: []Edit{{"shared/workflow/trigger.go", "wait = max(0, free.Sub(now.Add(r.Per)))", "wait = max(0, free.Sub(now.Add(2*r.Per)))"}}},
	{Name: "a call without a proof is accepted", Test: "shared/engine:TestTrigger_RefusalsChangeNothing", Edits: []Edit{{"shared/engine/trigger.go", "\tif !ok {\n\t\treturn unproved()\n\t}\n", ""}}},
	{Name: "a trigger that does not exist is not found", Test: "shared/engine:TestTrigger_RefusalsChangeNothing", Edits: []Edit{{"shared/engine/trigger.go", "// as long as for one that exists\n\t\treturn none, unproved()", "\n\t\treturn none, workflow.Errorf(workflow.CodeNotFound, \"there is no trigger\")"}}},
	{Name: "a call may be made again under another key", Test: "shared/engine:TestTrigger_RefusesReplays", Edits: []Edit{{"shared/engine/trigger.go", "if err == nil && bound.Execution != key {", "if err == nil && bound.Execution == \"\" {"}}},
	{Name: "a call without a time is forgotten after a day", Test: "shared/engine:TestTrigger_RefusesReplays", Edits: []Edit{{"shared/engine/trigger.go", "\treturn views.MaxIdempotencyLife\n", "\treturn c.e.IdempotencyKeyTTL\n"}}},
	{Name: "each delivery of a call starts an execution", Test: "shared/engine:TestTrigger_StartsOnce", Edits: []Edit{{"shared/engine/trigger.go", "\tkey = prefix + \"key/\" + hex.EncodeToString(sum[:])\n", "\tkey = prefix + \"key/\" + c.signed + hex.EncodeToString(sum[:])\n"}}},
	{Name: "a replay takes of the rate", Test: "shared/engine:TestTrigger_ReplaysTakeNothingOfTheRate", Edits: []Edit{{"shared/engine/trigger.go", "\tif !known {\n\t\trate", "\tif !known || c.signed != \"\" {\n\t\trate"}}},
	{Name: "a body that is no object starts an execution without parameters", Test: "shared/engine:TestTrigger_BodyOfAnotherTypeIsRefused", Edits: []Edit{{"shared/definition/program/trigger.go", "} else if len(body) > 0 && string(body) != \"null\" {", "} else if len(body) < 0 {"}}},
	{Name: "nobody is told that another workflow has taken the name", Test: "shared/catalog:TestTriggers_NameHasOneWorkflow", Edits: []Edit{{"shared/catalog/triggers.go", "\t\t\treturn lostTrigger(all, newest, published)\n", "\t\t\t_ = lostTrigger\n\t\t\treturn nil\n"}}},
	{Name: "a paused trigger takes calls", Test: "shared/engine:TestTrigger_PausedAndFired", Edits: []Edit{{"shared/engine/trigger.go", "c.trigger.Paused != nil {", "c.trigger.Paused != nil && c.byHand {"}}},
	{Name: "archiving lets an older trigger take calls", Test: "shared/catalog:TestTriggers_FollowTheNewestVersion", Edits: []Edit{{"shared/catalog/triggers.go", "\t\t\tnext.Paused = pausedByArchiving(", "\t\t\t_ = pausedByArchiving("}}},
	{Name: "a trigger is taken from another workflow", Test: "shared/catalog:TestTriggers_FollowTheNewestVersion", Edits: []Edit{{"shared/catalog/definitions.go", "\tissues, err := c.takenTriggers(ctx, caller.Tenant, d)\n", "\tissues, err := c.takenTriggers(ctx, caller.Tenant, &spec.Definition{})\n"}}},
}
