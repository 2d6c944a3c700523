package mutation

// The files of the pack protocol.
const (
	claim         = "shared/worker/claim.go"
	session       = "shared/worker/session.go"
	workerHandle  = "shared/worker/handle.go"
	finish        = "shared/worker/finish.go"
	followUp      = "shared/worker/follow_up.go"
	sessionLease  = "shared/worker/lease.go"
	workflowPack  = "shared/workflow/pack.go"
	workflowJob   = "shared/workflow/job.go"
	workflowStep  = "shared/workflow/step.go"
	simPacks      = "shared/sim/packs.go"
	claims        = "shared/sim/packs.go"
	dispatchClose = "shared/engine/dispatch/close.go"
	report        = "shared/engine/dispatch/report.go"
	redispatch    = "shared/engine/dispatch/redispatch.go"
	laneState     = "shared/engine/dispatch/lane_state.go"
	dispatcher    = "shared/engine/dispatch/dispatcher.go"
	outcome       = "shared/lifecycle/plan/outcome.go"
)

var packs = []Mutation{
	{Name: "whoever waits behind others is unclaimed", Test: "shared/engine:TestEngine_WaitsBehindAnotherExecution", Edits: []Edit{{redispatch, "passedOver = mark.SentAt.After(", "passedOver = mark.SentAt.Before("}}},
	{Name: "what was offered before the messages were renewed counts", Test: "shared/engine:TestEngine_WaitsBehindAnotherExecution", Edits: []Edit{{redispatch, " && r.Step.OfferedAt.After(r.Step.DispatchedAt)", ""}}},
	{Name: "a pool that is busy with the work of others counts as idle", Test: "shared/engine:TestEngine_WaitsBehindAnotherExecution", Edits: []Edit{{redispatch, "if own || now.After(mark.At.Add(d.Unclaimed)) {", "if own || !now.Before(mark.At) {"}}},
	{Name: "a busy pool keeps for ever what it passes over", Test: "shared/engine/dispatch:TestDispatcher_QueueOfOthersIsNotUnclaimed", Edits: []Edit{{redispatch, "passedOver = mark.SentAt.After(r.Step.OfferedAt)", "passedOver = false"}}},
	{Name: "jobs are unclaimed as soon as the queue has passed them", Test: "shared/engine:TestEngine_WorkerHasWhatTheQueueHasPassed", Edits: []Edit{{redispatch, "return passedOver && r.Step.PassedOver() && now.After(r.Step.PassedOverAt.Add(d.Unclaimed)),", "return passedOver,"}}},
	{Name: "each look begins the time anew in which passed jobs may be executed", Test: "shared/engine:TestEngine_WorkerHasWhatTheQueueHasPassed", Edits: []Edit{{"shared/lifecycle/report.go", "if f.PassedOver && !r.PassedOver() {", "if f.PassedOver {"}}},
	{Name: "a takeover compares only the token", Edits: []Edit{{simPacks, "return claimedWith(old, seen.Token) && sameMillis(old.Lease, seen.Lease)", "return claimedWith(old, seen.Token)"}}},
	{Name: "a takeover ignores the lease", Edits: []Edit{{workflowPack, "\tcase !p.Lease.Before(now.Add(-skew)):\n", "\tcase false:\n"}}},
	{Name: "a live claim is adopted by its worker's name", Edits: []Edit{{claim, `		case workflow.ClaimLeased:
`, `		case workflow.ClaimLeased:
			if old.Worker == s.w.opts.Name {
				s.adoptPack(old)
				return d, false, nil
			}
`}}},
	{Name: "STARTED is not written", Test: "shared/worker:TestWorker_WritesStartedBeforeJobStarts", Edits: []Edit{{session, "\treturn code == workflow.JobCodeStarted || (", "\treturn true || code == workflow.JobCodeStarted || ("}}},
	{Name: "a started job runs again", Edits: []Edit{
		{claim, "case p.Jobs[i].Code == workflow.JobCodeStarted && !s.m.Work.Repeatable():", "case false:"},
		{session, `		return s.m.Work.Repeatable() || s.firstClaim
`, "\t\treturn true\n"}}},
	{Name: "a pack is released as not executed after a takeover", Test: "shared/worker:TestWorker_CancelMarksNotExecutedOnlyWhenCertain", Edits: []Edit{{finish, "case s.m.Work.Repeatable() && s.firstClaim && !s.started", "case s.m.Work.Repeatable() && !s.started"}}},
	{Name: "a pack is finished without comparing the token", Edits: []Edit{{claims, `		if !claimedWith(old, pack.Token) {
			same :=`, "\t\tif old == nil || old.State != workflow.PackClaimed {\n\t\t\tsame :="}}},
	{Name: "a heartbeat does not compare the token", Edits: []Edit{{claims, "if !claimedWith(old, pack.Token) || old.CancelRequested ||", "if old == nil || old.State != workflow.PackClaimed || old.CancelRequested ||"}}},
	{Name: "a lane is added before its pack is finished", Edits: []Edit{{workerHandle, `	if err := s.runJobs(ctx); err != nil {
`, `	if _, err := s.ports.Packs.AddDone(ctx, m.Key, workflow.LaneResult{}); err != nil {
		return Disposition{}, err
	}
	if err := s.runJobs(ctx); err != nil {
`}}},
	{Name: "unknown counts as not executed", Edits: []Edit{{workflowStep, "return t.OK + t.Failed - t.Unsent + t.Unknown", "return t.OK + t.Failed - t.Unsent"}}},
	{Name: "absent packs get no cancelled marker", Edits: []Edit{{dispatchClose, "findLaneState(r, lane, read[lane]); l.done {", "findLaneState(r, lane, read[lane]); l.done || l.pack == nil {"}}},
	{Name: "cancelled markers for the window only", Edits: []Edit{{dispatchClose, "\t\tfor lane := range r.Step.Lanes() {\n", "\t\tfor lane := range r.Step.Lanes() {\n\t\t\tif r.Step.Window > 0 && lane >= r.Step.Window {\n\t\t\t\tcontinue\n\t\t\t}\n"}}},
	{Name: "cancelled markers for the first attempt only", Edits: []Edit{{dispatchClose, "findLaneState(r, lane, read[lane]); l.done {", "findLaneState(r, lane, read[lane]); l.done || l.attempt > 1 && l.pack == nil {"}}},
	{Name: "rollback of the last attempt only", Edits: []Edit{{outcome, "if seen && old.Code.Executed() && !rec.Executed() {", "if false && seen {"}}},
	{Name: "a seized claim keeps its token, and finishing compares only the token", Edits: []Edit{
		{laneState, "\tp.Token++\n", ""},
		{claims, `		if !claimedWith(old, pack.Token) {
			same :=`, "\t\tif old == nil || old.Token != pack.Token {\n\t\t\tsame :="}}},
	{Name: "a commit without a condition", Edits: []Edit{{simStore, "\t\tcase e.x.Version != seen:\n", "\t\tcase false:\n"}}},
	{Name: "jobs start under an expired lease", Edits: []Edit{
		{session, `	if s.leaseRemaining() <= minRemaining && s.renewLease(ctx, noJob) != nil {
		return false
	}
`, `	_ = minRemaining
`},
		{session, "!s.cancelled && !s.claimLost && left > s.w.opts.LeaseMargin", "!s.cancelled && !s.claimLost && left > -time.Hour"}}},
	{Name: "the fence is the pack's token", Edits: []Edit{{workflowJob, `return fmt.Sprintf("%010d-%06d-%02d-%02d", token, stepRunSeq, attempt, packToken)`, "return fmt.Sprintf(\"%02d\", packToken)"}}},
	{Name: "the timer does not repair done sets", Edits: []Edit{{report, `			finished = append(finished, l)
			lanes.include(l)
`, "\t\t\tcontinue\n"}}},
	{Name: "only absent packs are redispatched", Edits: []Edit{{redispatch, `		since, err := r.waitingSince(ctx, l, lanes)
`, `		if l.pack != nil {
			continue
		}
		since, err := r.waitingSince(ctx, l, lanes)
`}}},
	{Name: "packs are never redispatched", Edits: []Edit{{redispatch, "\t\tmessages = append(messages, m)\n", "\t\t_ = m\n"}}},
	{Name: "a counter in place of the done set", Edits: []Edit{{workflowPack, "\ts.Done[lane] = true\n", "\ts.Done[len(s.Done)] = true\n"}}},
	{Name: "pack keys do not distinguish step runs", Edits: []Edit{{dispatcher, `Ordinal: r.Step.Ordinal, Seq: r.Step.Seq}
`, `Ordinal: r.Step.Ordinal, Seq: 1}
`}}},
	{Name: "messages never expire", Test: "shared/worker:TestWorker_ChecksNotAfterBeforeClaim", Edits: []Edit{
		{claim, "\tif t0.After(s.m.NotAfter) {\n", "\tif false {\n"},
		{claim, "\t\tif now.After(s.m.NotAfter) {\n", "\t\tif false {\n"},
		{workerHandle, `	case now.After(m.NotAfter), w.predatesRestore(m):
`, `	case w.predatesRestore(m):
`}}},
	{Name: "the done set is overwritten", Edits: []Edit{{simPacks, "\tif set := p.w.doneSets[shardKey{stepRun, shard}]; set != nil {", "\tif set := p.w.doneSets[shardKey{stepRun, shard}]; set != nil && len(set.Done) > 1 {"}}},
	{Name: "the timer ignores the window", Edits: []Edit{{report, "return w == 0 || lane < w || lanes.done[lane-w] }", "return true || lanes.done[lane-w] }"}}},
	{Name: "the window does not advance", Edits: []Edit{{followUp, "\tif set.Added && p.State == workflow.PackFinished && !expired {\n", "\tif false {\n"}}},
	{Name: "a seizure ignores the lease", Edits: []Edit{{dispatchClose, "\t\tcase l.pack.Lease.Before(now.Add(-d.Skew - d.Grace)):\n", "\t\tcase l.pack.Lease.Before(now.Add(time.Hour)):\n"}}},
	{Name: "a seizure forgets started jobs", Edits: []Edit{{laneState, `		case rec.Code == workflow.JobCodeStarted:
			rec.Code, rec.EndedAt, rec.Failure = workflow.JobCodeUnknown, now, seen.WorkerLost()
`, `		case rec.Code == workflow.JobCodeStarted:
			rec = workflow.JobRecord{Index: i, Code: workflow.JobCodeNotExecuted}
`}}},
	{Name: "clock skew favours the worker that takes over", Edits: []Edit{{workflowPack, "\tcase !p.Lease.Before(now.Add(-skew)):\n", "\tcase !p.Lease.Before(now.Add(4 * skew)):\n"}}},
	{Name: "a worker that lost its claim continues", Test: "shared/worker:TestRemoteLease_IsTakenOverAfterExpiry", Edits: []Edit{{sessionLease, `	s.claimLost = true
	return errClaimLost
`, "\treturn nil\n"}}},
	{Name: "a worker that lost its claim reports a finished pack", Edits: []Edit{{finish, `	return nil, false, errClaimLost
`, "\treturn p, true, nil\n"}}},
	{Name: "a report omits the last lane", Edits: []Edit{{report, `	if len(lanes.done) == r.Step.Lanes() {
`, `	if len(lanes.done) >= r.Step.Lanes()-1 {
`}}},
	{Name: "the last finished lane does not wake the execution", Edits: []Edit{{"shared/workflow/message.go", "counts || done >= LanesOfShard(", "counts || done > LanesOfShard("}}},
	{Name: "a pack counts as closed while it is claimed", Edits: []Edit{{dispatchClose, "findLaneState(r, lane, read[lane]); l.done {", "findLaneState(r, lane, read[lane]); l.done || l.pack != nil {"}}},
	{Name: "the done set does not count failed jobs", Test: "shared/engine:TestCost_PacksOfFailedLanesAreReadOnce", Edits: []Edit{{followUp, " Failures: p.Failures(s.m.Failures, nil),", ""}}},
	{Name: "a report reads the packs of all lanes", Test: "shared/engine:TestCost_PacksOfFailedLanesAreReadOnce", Edits: []Edit{{report, "\tif r.Step.Pipeline > 0 {\n", "\tif true {\n"}}},
	{Name: "a timer reads lanes that are over", Test: "shared/engine/dispatch:TestDispatcher_TimerReadsOpenLanesOnly", Edits: []Edit{{report, "\t\tif !lanes.done[lane] && allowed(lane) {\n", "\t\tif true {\n"}}},
	{Name: "done lanes are no sign of a worker", Test: "shared/engine/dispatch:TestDispatcher_DoneLanesAreSignsOfWorkers", Edits: []Edit{{redispatch, "\t\tif now.After(deadline) && !exact {\n", "\t\tif false && !exact {\n"}}},
	{Name: "closing reads lanes that are over", Test: "shared/engine/dispatch:TestDispatcher_ClosingReadsOpenLanesOnly", Edits: []Edit{{dispatchClose, "\t\tif !lanes.done[lane] {\n\t\t\tmissing", "\t\tif true {\n\t\t\tmissing"}}},
	{Name: "what commits nothing is not counted", Test: "shared/engine:TestCost_CountsWakeupsThatCommitNothing", Edits: []Edit{{"shared/engine/uncounted.go", "\tw.e.uncounted.add(w.tenant+\"#\"+w.id, w.pendingCost)\n", ""}}},
	{Name: "every copy of a message sends the next lane", Test: "shared/engine:TestCost_CopiesOfMessagesDoNotMultiply", Edits: []Edit{{followUp, "\tif set.Added && p.State", "\tif p.State"}}},
	{Name: "every copy of a wake-up sends the next lane", Test: "shared/engine:TestCost_CopiesOfMessagesDoNotMultiply", Edits: []Edit{{"shared/engine/dispatch/advance_lane.go", "\t\t*cost = workflow.Cost{}\n\t\treturn Advanced{true, set.Added, r", "\t\t*cost = workflow.Cost{}\n\t\treturn Advanced{true, set.Added || true, r"}}},
	{Name: "jobs that were offered for another wait count as offered", Test: "shared/engine:TestPipeline_NextLaneIsOfferedAfterAnOutage", Edits: []Edit{{redispatch, "!r.Step.OfferedAt.Before(overdue)", "!r.DueAt.Before(overdue.Add(d.RedispatchInterval))"}}},
	{Name: "jobs count as unclaimed although they could not be sent", Test: "shared/engine:TestFailures_OutageIsWaitedOut", Edits: []Edit{
		{redispatch, "\tcase !d.offeredSince(r, overdue):\n", "\tcase false:\n"}}},
	{Name: "an outage counts as a failure of the execution", Test: "shared/engine:TestFailures_OutageIsWaitedOut", Edits: []Edit{
		{"shared/engine/failures.go", "failed(before, now, workflow.Is(cause, workflow.CodeUnavailable))", "failed(before, now, workflow.Is(cause, \"\"))"},
		{"shared/engine/advance.go", "if err = outOfTime(ctx, err); workflow.Is(err, workflow.CodeUnavailable) {", "if err = outOfTime(ctx, err); false {"}}},
	{Name: "wake-ups that die are not counted", Test: "shared/engine:TestFailures_WakeupsThatDieEndTheExecution", Edits: []Edit{
		{"shared/engine/advance.go", "\tif l.Redelivered {\n", "\tif false {\n"}}},
	{Name: "pure jobs begin although their step run is closed", Test: "shared/worker:TestWorker_PureJobsOfClosedStepRunDoNotBegin", Edits: []Edit{
		{session, "	if s.isUnclaimed() && !s.stillOpen(ctx) {", "	if false {"}}},
	{Name: "a repeated poll does not stop the request before it", Test: "tests/httpapi:TestPoll_OvertakenRequestClaimsNothing", Edits: []Edit{
		{"shared/workerapi/attempt.go", "switch err := a.put(ctx, ports.Packs, stored.Receipt); {", "switch err := error(nil); {"}}},
	{Name: "a pack is claimed before its receipt is stored", Test: "tests/httpapi:TestPoll_RepeatedAfterCrashAtEveryCall", Edits: []Edit{
		{"shared/workerapi/poll.go", "	if err := a.save(ctx, ports.Packs, rcpt, m); err != nil {", "	offer, err := s.claimReceipt(ctx, a, q, d, m, rcpt, p)\n	if err != nil {\n		return nil, err\n	}\n	if err := a.save(ctx, ports.Packs, rcpt, m); err != nil {"},
		{"shared/workerapi/poll.go", "	return s.claimReceipt(ctx, a, q, d, m, rcpt, p)\n}\n\n// claimReceipt", "	return offer, nil\n}\n\n// claimReceipt"}}},
	{Name: "a pack is handed out again after a report about it", Test: "tests/httpapi:TestPoll_LateRepetitionGetsNothing", Edits: []Edit{
		{"shared/worker/remote_lease.go", "!proceed || seen.Confirmed ||", "!proceed ||"}}},
	{Name: "two handlers end an execution one after the other", Test: "shared/engine:TestFailures_OneHandlerEndsAnExecution", Edits: []Edit{{"shared/engine/advance.go", "w.command.Kind == lifecycle.CommandBreak && x.FailureStreak == nil {", "w.command.Kind == lifecycle.CommandBreak && x.FailureStreak == nil && x.Version < 0 {"}}},
	{Name: "an execution that is broken twice leaves surrounding steps open", Test: "shared/engine:TestFailures_EndStalledExecution", Edits: []Edit{{"shared/lifecycle/command.go", "\t\t\td.exitStepRun(c, sm.StepCancelled)\n\t\t}\n\t\td.execution.Threads = nil\n", "\t\t\tbreak\n\t\t}\n"}}},
	{Name: "a closed job keeps its entity out although a retry passes it", Test: "tests/sim/simulator:TestSimulator_SeedsThatBrokeAnInvariant", Edits: []Edit{{"shared/engine/planner/excluded.go", "before.Try < o.Try && ", "before.Try < 0 && "}}},
	{Name: "a request with a sealed parameter is remembered by its plain digest where the key is held", Test: "shared/engine:TestSealed_DigestOfARequestThatAnotherExecutionAnswers", Edits: []Edit{{"shared/engine/start.go", "w.useKeyHolder(ctx, d.Ref(), req, toBind)", "w.useKeyHolder(ctx, d.Ref(), req, digest)"}}},
	{Name: "a schedule step changes the schedule again over another execution", Test: "shared/engine:TestScheduleStep_DoesNotChangeItAgainOverAnother", Edits: []Edit{{"shared/engine/schedule_step.go", "case s.Made(by), step.Remove && !on:", "case s.Made(by) && s.MadeBy.Execution == w.id, step.Remove && !on:"}}},
	{Name: "a success without a commit keeps the failure streak", Test: "shared/engine:TestFailures_SuccessWithoutCommitEndsStreak", Edits: []Edit{
		{"shared/engine/advance.go", "\tif err == nil {\n\t\tw.clearFailureStreak(ctx)\n", "\tif err == nil {\n"}}},
	{Name: "the start of the next child keeps the failure streak", Test: "shared/engine:TestFailures_StartOfTheNextChildEndsTheStreak", Edits: []Edit{
		{"shared/engine/advance.go", "\t\tw.clearFailureStreak(ctx)\n\t\treturn nil // nothing else has changed\n", "\t\treturn nil // nothing else has changed\n"}}},
}

// dispatches are mistakes in when packs are sent, sent again and read.
var dispatches = []Mutation{
	{Name: "renewed messages are not sent", Test: "shared/engine:TestEngine_QueueOutlastsItsMessages", Edits: []Edit{{redispatch, "d.redispatchDue(r, l, later(since, r.Step.DispatchedAt), now)", "d.redispatchDue(r, l, since, now)"}}},
	{Name: "a pool that works on another step of the pipeline counts as idle", Test: "shared/engine/dispatch:TestDispatcher_QueueOfOthersIsNotUnclaimed", Edits: []Edit{{redispatch, "\tif r.PoolLastSeen != nil {\n", "\tif false {\n"}}},
	{Name: "deadlines wait for the sweep", Test: "shared/engine:TestDeadline_StartsNothingLater", Edits: []Edit{{engineAdvance, "\tw.sendDeadlineWakeup(ctx, from, next, d.DelayedWakeup)\n", ""}}},
	{Name: "messages outlive the deadline", Test: "shared/engine:TestDeadline_HoldsWithoutEngine", Edits: []Edit{{dispatcher, "\tif !r.Deadline.IsZero() && r.Deadline.Before(at) {\n", "\tif false {\n"}}},
	{Name: "a pack that ends after the deadline wakes nobody", Test: "shared/worker:TestWorker_PackThatEndsAfterItsDeadlineWakesTheEngine", Edits: []Edit{{followUp, "len(set.Done)) || expired {", "len(set.Done)) {"}}},
	{Name: "a wake-up out of time has no time to end the execution", Test: "shared/engine:TestFailures_WakeupsOutOfTimeEndTheExecution", Edits: []Edit{
		{"shared/engine/advance.go", "context.WithTimeout(context.WithoutCancel(ctx), breakTimeout)", "context.WithTimeout(ctx, breakTimeout)"},
		{"shared/engine/advance.go", "unfinished && c != nil", "unfinished && c == nil && l.Redelivered == (c != nil)"}}},
	{Name: "an outage ends the failure streak", Test: "shared/engine:TestFailures_OutagesPauseTheStreak", Edits: []Edit{
		{"shared/engine/failures.go", "\t\tstreak.UnavailableSince = now\n", "\t\tstreak = workflow.FailureStreak{Since: now, UnavailableSince: now}\n"}}},
}
