package mutation

import "slices"

// borders are mistakes where values come in from outside and go out again: no play of the
// simulation has hostile answers, queues that refuse characters, or terminals. A test
// detects each.
var borders = []Mutation{
	{Name: "results that nobody can read are stored", Test: "shared/worker:TestJobResult_MustBeReadableJSON", Edits: []Edit{{"shared/worker/result.go", "\tif issue := checkJSON(a.Result, \"result\"); issue != nil {\n", "\tif issue := checkJSON(a.Result, \"result\"); false && issue != nil {\n"}}},
	{Name: "JSON is escaped for HTML", Test: "tests/httpapi:TestAnswers_DoNotEscapeHTML", Edits: []Edit{{"shared/workflow/json.go", "e.SetEscapeHTML(false)", "e.SetEscapeHTML(true)"}}},
	{Name: "a message has characters that SQS refuses", Test: "shared/sqs:TestEncodePack_WritesOnlyWhatSQSAccepts", Edits: []Edit{{"shared/sqs/body.go", "\tplain = escapeForbidden(plain)\n", ""}, {"shared/sqs/body.go", "func deflate(", "var _ = escapeForbidden\n\nfunc deflate("}}},
	{Name: "a poll answers with all jobs of a pack, however large", Test: "shared/worker:TestRemoteLease_BoundsOneAnswer", Edits: []Edit{{"shared/worker/remote_lease.go", "if i > 0 && total+size > maxAnswerBytes {", "if i > 0 && total+size > 1<<40 {"}}},
	{Name: "the command prints control characters of messages", Test: "cmd/lockstep:TestExecute_PrintsNoControlCharacters", Edits: []Edit{{"cmd/lockstep/main.go", "\tstdout, stderr = render.Escaped(stdout), render.Escaped(stderr)\n", ""}}},
	{Name: "content is logged by net/http", Test: "shared/observe:TestLibraryLog_OmitsContent", Edits: []Edit{{"shared/observe/library.go", "line = known + \" (\" + Redacted + \")\"", "_ = Redacted"}}},
	{Name: "a tenant sees how many messages of others a queue has", Test: "tests/httpapi:TestAPI_TenantsAreIsolated", Edits: []Edit{{"shared/workerapi/workers.go", "case !s.OwnsQueues(c.Tenant):", "case false && !s.OwnsQueues(c.Tenant):"}}},
	{Name: "the gateway hangs up on who sends too much", Test: "localstack/embedded/gateway:TestHandler_AnswersWhoeverSendsTooMuch", Edits: []Edit{{"localstack/embedded/gateway/gateway.go", "_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxDiscarded))", "_ = io.LimitReader(r.Body, maxDiscarded)"}}},
	{Name: "the gateway waits for a body for ever", Test: "localstack/embedded/gateway:TestHandler_WaitsForABodyOnlySoLong", Edits: []Edit{{"localstack/embedded/gateway/gateway.go", "_ = connection.SetReadDeadline(time.Now().Add(g.opts.BodyTimeout))", "_ = g.opts.BodyTimeout"}}},
	{Name: "a request that a crash interrupts is an internal error", Test: "localstack/embedded/gateway:TestHandler_AnswersUnavailableIfInterrupted", Edits: []Edit{{"localstack/embedded/gateway/gateway.go", "case err != nil && g.opts.Interrupted(err):", "case false && g.opts.Interrupted(err):"}}},
	{Name: "failures have the codes of problems", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{"shared/workflow/errors.go", "return strings.ToUpper(string(c))", "return strings.TrimSpace(string(c))"}}},
	{Name: "an embedded definition's maxInFlight is ignored", Test: "shared/engine:TestMaxInFlight_HoldsWhereItIsEmbedded", Edits: []Edit{{"shared/workflow/spec/program.go", "if n := p.Nodes[node].MaxInFlight; n > 0 {", "if n := p.Nodes[node].MaxInFlight; false && n > 0 {"}}},
	{Name: "an embedded definition's failureTolerance is lost", Test: "shared/engine/definitions:TestProgram_CarriesConfigOfEmbeddedDefinitions", Edits: []Edit{{"shared/engine/definitions/program.go", "b.tolerance = &c.FailureTolerance", "_ = &c.FailureTolerance"}}},
	{Name: "a misspelt parameter is published without a warning", Test: "shared/catalog:TestCatalog_PublishWarnings", Edits: []Edit{{"shared/catalog/warnings.go", "if name, near := unknownField(d.Parameters, m[1:2]); name != \"\" {", "if name, near := unknownField(d.Parameters, m[1:2]); false && name != \"\" {"}}},
	{Name: "the case of a flag's word matters", Test: "cmd/lockstep:TestExecute_ReadsFlagWordsInAnyCase", Edits: []Edit{{"cmd/lockstep/flags.go", "bad = f.Value.Set(words[i])", "_ = words[i]"}}},
	{Name: "the local queues keep a change that could not be stored", Test: "localstack/embedded/sqs:TestSetQueueAttributes_ChangesNothingWhenWALWriteFails", Edits: []Edit{{"localstack/embedded/sqs/attributes.go", "q.attributes, q.redrive, q.modified = attributes, redrive, modified", "_, _, _ = attributes, redrive, modified"}}},
	{Name: "a start reads every version of its definition", Test: "shared/engine:TestCost_StartReadsOneVersionOfEachName", Edits: []Edit{{"shared/catalog/versions.go", "if known && index.Revision > 0 {", "if known && index.Revision > 1<<40 {"}}},
	{Name: "a failure that decides nothing wakes the engine", Test: "shared/engine:TestCost_FailuresThatDecideNothingWakeNobody", Edits: []Edit{{"shared/worker/follow_up.go", "end.Unsuccessful && !s.decidesNothing(end) ||", "end.Unsuccessful && (true || s.decidesNothing(end)) ||"}}},
	{Name: "an UNKNOWN job wakes nobody where failures decide nothing", Test: "shared/worker:TestWorker_FailuresThatDecideNothingWakeNobody", Edits: []Edit{{"shared/worker/follow_up.go", "end.Failures.Failed > 0 && end.Failures.Unknown == 0", "end.Failures != (workflow.JobFailures{})"}}},
	{Name: "any tolerance counts as one of all entities", Test: "shared/engine:TestTolerance_EndsStepOnceItIsUsedUp", Edits: []Edit{{"shared/workflow/spec/program.go", "p.toleranceOf(node).Percent >= 100", "p.toleranceOf(node) != (Tolerance{})"}}},
	{Name: "a repetition is planned from all before it", Test: "shared/engine:TestRepeat_ReadsGrowLinearlyWithoutSomeEntities", Edits: []Edit{{"shared/engine/planner/outcome.go", "\t\tr = firstWithSameJobs(x, r)\n", "\t\t_ = firstWithSameJobs(x, r)\n"}}},
	{Name: "every repetition has the jobs of the first", Test: "shared/engine:TestRepeat_ReadsGrowLinearlyWithoutSomeEntities", Edits: []Edit{{"shared/engine/planner/outcome.go", "before.Jobs != r.Jobs ||", "before.Jobs < r.Jobs ||"}}},
	{Name: "every repetition is asked for the results of those without any", Test: "shared/engine:TestRepeat_ReadsGrowLinearlyWithoutSomeEntities", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "len(later.of) > 0 && len(later.of) >= o.Jobs+o.Unmet", "len(later.of) > o.Jobs+o.Unmet"}}},
	{Name: "every repetition is asked whether one that failed succeeded later", Test: "shared/engine:TestRepeat_ReadsGrowLinearlyWithoutSomeEntities", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "(o.Try != r.Try || o.OnlyFailed || o.Counts.NotExecuted > 0)", "(o.Try > 0 || r.Try >= 0)"}}},
	{Name: "who failed is left out after a retry too", Test: "shared/engine:TestRetry_ReadmitsEntitiesThatSucceed", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "(o.Try != r.Try || o.OnlyFailed || o.Counts.NotExecuted > 0)", "(o.Try < 0 || o.Counts.NotExecuted > 0)"}}},
	{Name: "a poll reads every version of its blocks", Test: "tests/httpapi:TestPoll_ReadsBlockVersionsOnce", Edits: []Edit{{"shared/workerapi/block_pools.go", "; len(pools) > 0 {", "; len(pools) > 1<<20 {"}}},
	{Name: "a poll believes the versions of a block that it knows", Test: "tests/httpapi:TestPoll_ReadsBlockVersionsOnce", Edits: []Edit{{"shared/workerapi/block_pools.go", "\t\tif !known {\n\t\t\treturn nil\n\t\t}\n", "\t\tif !known {\n\t\t\tcontinue\n\t\t}\n"}}},
	{Name: "a version index is believed to be right once another has written it", Test: "shared/catalog:TestCatalog_VersionIndexFollowsConcurrentChanges", Edits: []Edit{{"shared/catalog/versions.go", "if index.Revision >= first+2 ||", "if index.Revision >= first+1 ||"}}},
	{Name: "a version index is replaced whatever its revision", Test: "shared/sim:TestWorld_PortConformance", Edits: []Edit{{"shared/sim/registry.go", "if r.w.versionIndexes[at].Revision != index.Revision {", "if r.w.versionIndexes[at].Revision < index.Revision {"}}},
	{Name: "publishing again does not complete the version index", Test: "shared/catalog:TestCatalog_PublishingAgainCompletesTheIndex", Edits: []Edit{{"shared/catalog/versions.go", "added != \"\" && index.Has(added) {", "added != \"\" && index.Revision > 0 {"}}},
	{Name: "a version index without room for all versions answers for all", Test: "shared/catalog:TestNewestVersion_FindsVersionsThatTheIndexHasNoRoomFor", Edits: []Edit{{"shared/workflow/version_index.go", "return newest, !x.Older", "return newest, true"}}},
	{Name: "a schedule is not looked at again after it was written", Test: "shared/catalog:TestCatalog_ScheduleFollowsARestoreDuringAnArchive", Edits: []Edit{{"shared/catalog/schedules.go", "if _, err := ports.Schedules.PutSchedule(ctx, next); err != nil {", "if ok, err := ports.Schedules.PutSchedule(ctx, next); err != nil || ok {"}}},
	{Name: "misspelled variables are ignored", Test: "shared/config:TestParse_RefusesMisspelledVariables", Edits: []Edit{{"shared/config/load.go", "if !ours || slices.Contains(known, name) {", "if !ours || slices.Contains(known, name) || len(known) > 0 {"}}},
	{Name: "an import that has no more time does not say where to continue", Test: "shared/catalog:TestCatalog_ImportSaysWhereToContinue", Edits: []Edit{{"shared/catalog/entities.go", "left = min(left, time.Until(deadline)*4/5)", "left = min(left, time.Until(deadline)*5/4)"}}},
	{Name: "the client begins an import again that ran out of time", Test: "shared/client:TestImport_ContinuesWhereTheServiceStopped", Edits: []Edit{{"shared/client/import.go", "if done := storedLines(err, n); done > 0 {", "if done := storedLines(err, n); false && done > 0 {"}}},
	{Name: "the case of a field's name in an answer is ignored", Test: "shared/worker/httpblock:TestClient_InvalidResponsesHaveCodes", Edits: []Edit{{"shared/worker/httpblock/messages.go", "if !exact && strings.EqualFold(field, name) {", "if false && !exact && strings.EqualFold(field, name) {"}}},
	{Name: "a key is remembered as long as it is configured, whatever the start says", Test: "shared/engine:TestStart_IdempotencyKeyLivesAsLongAsItIsAsked", Edits: []Edit{{"shared/engine/start.go", "cmp.Or(life, w.e.IdempotencyKeyTTL)", "cmp.Or(w.e.IdempotencyKeyTTL, life)"}}},
}

// Borders are the mutations that the simulation has no part in.
func Borders() []Mutation {
	return slices.Concat(
		borders,
		answers,
		mailbox,
		keys,
		waits,
		callbacks,
		pipelines,
		flow,
		waysShown,
		loops,
		stepping,
		foreach,
		rollouts,
		retries,
		schedules,
		children, family, childSets, deadlocks,
		inventory,
		access,
		compensations,
		secrets,
		httpSteps,
		endpoints,
		observers,
		installing,
		workers,
		triggers,
		limits,
	)
}
