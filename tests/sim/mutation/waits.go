package mutation

const (
	lifecycleWait = "shared/lifecycle/wait.go"
	answerFile    = "shared/lifecycle/answer.go"
	waitTest      = "shared/engine:TestWait_"
	answerTest    = "shared/engine:TestAnswer_"

	lifecycleToken = "shared/lifecycle/token.go"
	engineToken    = "shared/engine/token.go"
	tokenTest      = "shared/engine:TestToken_"
)

// waits are mistakes in steps that wait. A test detects most of them.
var waits = []Mutation{
	{Name: "a branch that ends with an answer gives nothing", Test: "shared/engine:TestParallelWait_GivesTheAnswer", Edits: []Edit{{"shared/engine/planner/join.go", "	if o.Wait != nil {\n", "	if o.Wait != nil && o.Child != nil {\n"}}},
	{Name: "a cancel takes all entities for changed", Test: "shared/engine:TestCancel_UnsafeStaysUnsafe", Edits: []Edit{{"shared/lifecycle/cancel.go", "		d.execution.Result = o.Result //", "		_ = o.Result //"}}},
	{Name: "an acknowledgement makes what a cancel left safe", Test: "shared/workflow:TestRestOutcome_AfterACancel", Edits: []Edit{{"shared/workflow/outcome.go", " || outcome == OutcomeCancelled && x.Acknowledged != nil", ""}}},
	{Name: "a request to go on ends any wait for a time", Test: "shared/engine:TestParallelWait_ResumeNamesTheStep", Edits: []Edit{{"shared/lifecycle/wait.go", "r.Wait.Kind == d.execution.Wait.Kind", "r.Wait.Kind == workflow.WaitTimer"}}},
	{Name: "the history has every signal that nobody wants", Test: "shared/engine:TestWaitSignal_UnfitAreCounted", Edits: []Edit{{"shared/lifecycle/mailbox.go", "counted.Unfit > workflow.MaxPassed", "counted.Unfit < 0"}}},
	{Name: "a branch takes the signal that another waits for", Test: "shared/engine:TestParallelWait_SignalsByWhen", Edits: []Edit{{"shared/lifecycle/mailbox.go", "			case !other: // else", "			case !other || s.ID != \"\": // else"}}},
	{Name: "a doubt that is handled is a success", Test: "shared/engine:TestFlow_HandledDoubtIsNoSuccess", Edits: []Edit{{"shared/workflow/outcome.go", "r.Handled > 0 && !r.InDoubt ||", "r.Handled > 0 ||"}}},
	{Name: "a branch whose job has not answered in time is tolerated", Test: "shared/engine:TestParallel_DoubtByTimeout", Edits: []Edit{{"shared/lifecycle/report.go", "return f.Counts.Unknown > 0 || f.Doubt != nil", "return f.Counts.Unknown > 0"}}},
	{Name: "a branch that waits goes on", Test: "shared/engine:TestParallelWait_EachGoesOn", Edits: []Edit{{"shared/lifecycle/thread.go", "len(d.openStepRuns())+len(d.waitingStepRuns()) > 0", "len(d.openStepRuns()) > 0"}}},
	{Name: "branches that are closed go on waiting", Test: "shared/engine:TestParallelWait_BranchFails", Edits: []Edit{{"shared/lifecycle/thread.go", "		if d.isIn(r, f) && !r.IsWorking() {\n			d.exitStepRun(r, sm.StepCancelled)", "		if d.isIn(r, f) && f == nil {\n			d.exitStepRun(r, sm.StepCancelled)"}}},
	{Name: "branches that all wait are not closed in time", Test: "shared/engine:TestParallelWait_BranchFails", Edits: []Edit{{lifecycleThread, "if late := d.lateBranches(); late != nil {", "if late := d.lateBranches(); late != nil && late.Try < 0 {"}}},
	{Name: "a wait of a branch that lasts too long fails the execution", Test: "shared/engine:TestParallelWait_BranchFails", Edits: []Edit{{"shared/lifecycle/wait.go", "d.thread == nil && d.execution.State", "d.execution.State"}}},
	{Name: "waits are not followed while a branch is at work", Test: "shared/engine:TestParallelWait_AnswerWhileItRuns", Edits: []Edit{{"shared/lifecycle/thread.go", "	if len(waiting) > 0 {\n		at,", "	if len(waiting) > 100 {\n		at,"}}},
	{Name: "the inbox has no questions of executions that run", Test: "shared/engine:TestParallelWait_AnswerWhileItRuns", Edits: []Edit{{"shared/engine/query/inputs.go", "sm.ExecutionWaiting, sm.ExecutionRunning}", "sm.ExecutionWaiting}"}}},
	{Name: "a condition is evaluated every minute for ever", Test: "shared/engine:TestWait_LongWaitForAConditionCostsLittle", Edits: []Edit{{"shared/lifecycle/readiness.go", "d.now.Sub(since)/10)", "d.now.Sub(since)/1000)"}}},
	{Name: "a deadline counts before the condition", Test: waitTest + "ConditionIsSeenLate", Edits: []Edit{{lifecycleWait, "\t\tif f.Ready {\n", "\t\tif f.Ready && d.now.Before(r.Wait.Until) {\n"}}},
	{Name: "a wait ends before its time", Edits: []Edit{{lifecycleWait, "\tif !d.now.Before(r.Wait.Until) {\n", "\tif !d.now.Add(time.Minute).Before(r.Wait.Until) {\n"}}},
	{Name: "a wait has no timer", Test: waitTest + "TimeComes", Edits: []Edit{{"shared/lifecycle/deadline.go", "\t\tif x.Wait != nil {\n\t\t\tadd(x.Wait.Until)\n\t\t}\n", ""}, {"shared/lifecycle/deadline.go", "\t\t\t\tadd(r.Wait.Until)\n", ""}, {lifecycleWait, "\tcheckAt = r.Wait.Until\n", "\tcheckAt = time.Time{}\n"}}},
	{Name: "the timer of the step before fires in vain during a wait", Test: "shared/engine:TestCost_OfAWait", Edits: []Edit{{"shared/lifecycle/decider.go", "d.paused && d.execution.State == sm.ExecutionWaiting", "d.paused && false"}}},
	{Name: "an execution that waits can be driven by a release without waits", Test: waitTest + "ResumeEndsAWaitForATime", Edits: []Edit{{"shared/workflow/step.go", " || r.Wait != nil\n", "\n"}}},
	{Name: "an execution that ends leaves its waits open", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{"shared/lifecycle/close.go", "\tfor _, r := range d.waitingStepRuns() {\n\t\td.exitStepRun(r, status)\n\t}\n", ""}}},
	{Name: "the condition of a wait watches no entity", Test: waitTest + "ConditionBecomesTrue", Edits: []Edit{{"shared/engine/fetch_readiness.go", "if ready || watched[key] {", "if ready || watched[key] || w.execution.State == \"WAITING\" || w.execution.State == \"RUNNING\" {"}}},

	{Name: "a deadline is told before it is stored", Test: answerTest + "AfterTheDeadlineIsRefused", Edits: []Edit{{answerFile, "\t\td.decision.CommandPending = true\n\t\treturn nil\n", "\t\treturn refusedAnswer(\"closed\", \"the deadline of step \\\"approve\\\" was just now\")\n"}}},
	{Name: "an answer counts after the deadline, before the alarm", Test: answerTest + "AfterTheDeadlineIsRefused", Edits: []Edit{{answerFile, "\tif d.somethingIsDue() {\n", "\tif false && d.somethingIsDue() {\n"}}},
	{Name: "an answer is given to the question that waits now", Test: answerTest + "StaysWithItsQuestion", Edits: []Edit{{answerFile, "\tr := d.execution.StepRunBySeq(a.StepRunSeq)\n", "\tr := d.execution.LastStepRun()\n"}}},
	{Name: "the key of an answer is looked for in the question that waits", Test: answerTest + "StaysWithItsQuestion", Edits: []Edit{{answerFile, "if a.Named && r.Seq != a.StepRunSeq {", "if r.Seq != a.StepRunSeq {"}}},
	{Name: "an answer that has counted is refused when it comes again", Test: answerTest + "CountsOnce", Edits: []Edit{{answerFile, "if known := d.knownAnswer(a); known != nil {", "if known := d.knownAnswer(a); known != nil && d.execution.TakesAnswers() {"}}},
	{Name: "the same key brings another answer", Test: answerTest + "CountsOnce", Edits: []Edit{{answerFile, "if known.Digest != a.Digest {", "if false && known.Digest != a.Digest {"}}},
	{Name: "one person counts twice", Test: "shared/engine:TestApproval_FirstRejectionDecides", Edits: []Edit{{answerFile, "case r.HasAnswered(actor):", "case r.HasAnswered(actor + \"?\"):"}, {answerFile, "case r.HasUsedRight(cmp.Or(a.TokenBy, actor)):", "case r.HasUsedRight(cmp.Or(a.TokenBy, actor)) && false:"}}},
	{Name: "a rejection is a vote like any other", Test: "shared/engine:TestApproval_FirstRejectionDecides", Edits: []Edit{{answerFile, "if !answer.Rejects && approvals < r.Wait.Need {", "if len(r.Answers) < r.Wait.Need {"}}},
	{Name: "an escalation is started before its level is stored", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{answerFile, "\tif escalated {\n\t\td.commitFirst()\n\t}\n", "\t_ = escalated\n"}}},
	{Name: "what an escalation starts is lost with a process", Test: "shared/engine:TestEscalation_StartsOnce", Edits: []Edit{{lifecycleWait, "if r.Wait.Level > r.Wait.Paged && !d.page(r) {", "if r.Wait.Level > r.Wait.Paged+9 && !d.page(r) {"}}},
	{Name: "a deadline passes before an escalation is started", Test: "shared/engine:TestEscalation_StartsBeforeTheDeadline", Edits: []Edit{{lifecycleWait, "if r.Wait.Level > r.Wait.Paged && !d.page(r) {", "if r.Wait.Level > r.Wait.Paged && d.now.Before(r.Wait.Until) && !d.page(r) {"}}},
	{Name: "roles that the client names are believed", Test: "shared/api/lambdahttp:TestIdentity_ReplacesClientHeaders", Edits: []Edit{{"shared/api/lambdahttp/handler.go", ", headerRoles: roles}", ", headerRoles + \"-Too\": roles}"}}},
	{Name: "whoever has started an execution may approve it", Test: answerTest + "OnlyWhoMay", Edits: []Edit{{"shared/workflow/wait.go", "if w.NotStarter && actor == starter {", "if w.NotStarter && actor == starter+\"?\" {"}}},

	{Name: "a signal that came in time is passed over at the deadline", Test: "shared/engine:TestWaitSignal_MailboxBeforeDeadline", Edits: []Edit{{lifecycleWait, "\tif r.Wait.Kind == workflow.WaitSignal {\n\t\tif ended", "\tif r.Wait.Kind == workflow.WaitSignal && d.now.Before(r.Wait.Until) {\n\t\tif ended"}}},
	{Name: "a signal that was sent after the deadline counts", Test: "shared/engine:TestWaitSignal_MailboxBeforeDeadline", Edits: []Edit{{lifecycleMailbox, " && s.At.Before(r.Wait.Until)\n", "\n"}}},
	{Name: "the end of a wait does not depend on signals", Test: "shared/engine:TestWaitSignal_LapseDependsOnSignals", Edits: []Edit{{lifecycleWait, "\t\td.decision.DependsOnSignals = true // a signal that has come in time since is seen first\n", ""}}},
	{Name: "a signal that does not fit stays", Test: "shared/engine:TestWaitSignal_TakesTheFirstThatFits", Edits: []Edit{{lifecycleMailbox, "			case !other: // else", "			case !other && s.ID == \"\": // else"}}},
	{Name: "a name that a step waits for is kept no place", Test: "shared/engine:TestWaitSignal_TakesTheFirstThatFits", Edits: []Edit{{"shared/lifecycle/decide.go", "\t\td.awaitSignals()\n", ""}}},
	{Name: "beginning to wait for a signal does not depend on signals", Test: "shared/engine:TestWaitSignal_EnteringDependsOnSignals", Edits: []Edit{{lifecycleWait, "r.Wait.Title, d.decision.DependsOnSignals = w.Signal.Name, true", "r.Wait.Title = w.Signal.Name"}}},

	{Name: "a token is valid after it was revoked", Test: tokenTest + "IsValidAsLongAsTheWait", Edits: []Edit{{answerFile, "a.ByToken && a.Generation != r.Wait.Generation", "a.ByToken && a.Generation > r.Wait.Generation"}}},
	{Name: "a token is valid after its time", Test: tokenTest + "IsValidAsLongAsTheWait", Edits: []Edit{{answerFile, "!d.now.Before(a.ExpiresAt)", "d.now.Before(d.execution.CreatedAt)"}}},
	{Name: "a token answers whichever step waits now", Test: tokenTest + "IsValidAsLongAsTheWait", Edits: []Edit{{engineToken, "StepRunSeq: claims.StepRunSeq, Named: true,", "StepRunSeq: w.execution.StepRunSeq, Named: true,"}}},
	{Name: "an answer by a token that is repeated is another one", Test: tokenTest + "LostReply", Edits: []Edit{{engineToken, "key = text + \" \" + digest", "key = e.NewID()"}}},
	{Name: "whoever may not answer makes tokens", Test: tokenTest + "OnlyWhoMayAnswerMakesOne", Edits: []Edit{{"shared/engine/answer.go", "case !w.answer.byToken && !q.At", "case !w.answer.byToken && w.answer.tokenFor == \"\" && !q.At"}}},
	{Name: "one person with tokens counts as many", Test: tokenTest + "OnePersonCountsOnce", Edits: []Edit{{lifecycleToken, "case to != \"\" && to != c.Tokens.For:", "case to == c.Tokens.For && to == \"\":"}}},
	{Name: "who has made a token answers as well", Test: tokenTest + "OnePersonCountsOnce", Edits: []Edit{{answerFile, "case !a.ByToken && r.BearerOf(c.Actor, d.now) != \"\":", "case a.ByToken && r.BearerOf(c.Actor, d.now) != \"\":"}}},
	{Name: "revoking gives a second voice", Test: tokenTest + "OnePersonCountsOnce", Edits: []Edit{{"shared/workflow/wait.go", "cmp.Or(a.TokenBy, a.By) == whose", "cmp.Or(a.By, a.TokenBy) == whose"}}},
	{Name: "a token that has expired unused takes the right of its maker", Test: tokenTest + "TakesTheRightOfItsMaker", Edits: []Edit{{"shared/workflow/wait.go", "r.StateOf(l, now) == TokenActive", "r.StateOf(l, now) != TokenRevoked"}}},
	{Name: "an answer does not say whose token it came with", Test: tokenTest + "TakesTheRightOfItsMaker", Edits: []Edit{{answerFile, "answer.Via, answer.TokenBy = workflow.AnswerByToken, a.TokenBy", "answer.Via = workflow.AnswerByToken"}}},
	{Name: "a right to answer is used up by a token and by its maker", Test: tokenTest + "ExpiredForOneHandlerOnly", Edits: []Edit{{answerFile, "case r.HasUsedRight(cmp.Or(a.TokenBy, actor)):", "case r.HasUsedRight(actor):"}}},
	{Name: "a token is listed as expired while one before it is valid", Test: tokenTest + "ListHasTheLastExpiry", Edits: []Edit{{lifecycleToken, "issued.ExpiresAt = l.ExpiresAt //", "_ = l.ExpiresAt //"}}},
	{Name: "a token that was revoked is shown as active", Test: tokenTest + "AreListed", Edits: []Edit{{"shared/workflow/wait.go", "case l.Generation != r.Wait.Generation:", "case l.Generation > r.Wait.Generation:"}}},
	{Name: "a forged token costs a read", Test: tokenTest + "ForgedIsRefusedUnread", Edits: []Edit{{engineToken, "\tclaims, err := e.verify(ctx, text)\n\tif err != nil {\n\t\treturn views.TokenReceipt{}, err\n\t}\n\tinput", "\tclaims, err := e.verify(ctx, text)\n\tif err != nil {\n\t\t_, _ = e.OpenPorts().Store.Load(ctx, \"default\", text)\n\t\treturn views.TokenReceipt{}, err\n\t}\n\tinput"}}},
	{Name: "who only asks is told of no deadline", Test: tokenTest + "AfterTheDeadline", Edits: []Edit{{answerFile, "what := d.closesAt(r); !now.Before(until) {", "what := d.closesAt(r); !now.Before(until) && r == nil {"}}},
	{Name: "who only asks is told that it is over for what is due in another branch", Test: "shared/engine:TestParallelWait_QuestionJudgesItsOwnWait", Edits: []Edit{{answerFile, "what := d.closesAt(r); !now.Before(until) {", "what := d.closesAt(r); !now.Before(until) || d.somethingIsDue() {"}}},
	{Name: "an answer that comes after the time of its branches is thrown away", Test: "shared/engine:TestParallelWait_AnswerAfterTheTimeOfItsBranches", Edits: []Edit{{answerFile, "!at.IsZero() && !d.now.Before(at) {", "!at.IsZero() && d.now.Before(at) && !d.now.Before(at) {"}}},
	{Name: "a wait is ended after the time of its branches", Test: "shared/engine:TestParallelWait_ResumeAfterTheTimeOfItsBranches", Edits: []Edit{{lifecycleWait, "if d.lateBranches() != nil { //", "if d.lateBranches() != nil && d.now.IsZero() { //"}}},
	{Name: "keys that cannot be read again are forgotten", Test: "shared/boot:TestTokenKeys_AreReadAgain", Edits: []Edit{{"shared/boot/tokenkeys.go", "if err != nil && keys.Set() {", "if err != nil && readAt.IsZero() {"}}},
	{Name: "the credentials of the client replace a token", Test: "shared/client/auth:TestTransport_ChoosesAuthorization", Edits: []Edit{{"shared/client/auth/auth.go", "case r.Header.Get(\"Authorization\") != \"\":", "case r.Header.Get(\"Authorization\") == \"?\":"}}},
	{Name: "a token is written to the log", Test: "shared/observe:TestNewLog_RedactsSecrets", Edits: []Edit{{"shared/observe/redact.go", "[]string{\"lst1.\"}, regexp", "[]string{\"lst9.\"}, regexp"}}},
}
