package mutation

// The files of the delivery protocol.
const (
	claim    = "shared/worker/internal/session/claim.go"
	session  = "shared/worker/internal/session/session.go"
	rules    = "shared/worker/internal/session/rules.go"
	finish   = "shared/worker/internal/session/finish.go"
	after    = "shared/worker/internal/session/after.go"
	keeper   = "shared/worker/internal/session/keeper.go"
	packNoun = "shared/workflow/pack.go"
	jobNoun  = "shared/workflow/job.go"
	stepNoun = "shared/workflow/step.go"
	simPacks = "shared/sim/packs.go"
	claims   = "shared/sim/claims.go"
	closing  = "shared/engine/delivery/closing.go"
	report   = "shared/engine/delivery/report.go"
	waiting  = "shared/engine/delivery/waiting.go"
	lane     = "shared/engine/delivery/lane.go"
	offer    = "shared/engine/delivery/offer.go"
	outcome  = "shared/lifecycle/plan/outcome.go"
)

var packs = []Mutation{
	{Name: "a take-over looks at the token alone", Edits: []Edit{{simPacks, "return mine(old, seen.Token) && same(old.Lease, seen.Lease)", "return mine(old, seen.Token)"}}},
	{Name: "a take-over ignores the lease", Edits: []Edit{{packNoun, "\tcase !p.Lease.Before(now.Add(-skew)):\n", "\tcase false:\n"}}},
	{Name: "a live claim is adopted by its worker's name", Edits: []Edit{{claim, "\t\tcase workflow.ClaimLive:\n", "\t\tcase workflow.ClaimLive:\n\t\t\tif old.Worker == s.w.Name {\n\t\t\t\ts.take(old)\n\t\t\t\treturn d, false, nil\n\t\t\t}\n"}}},
	{Name: "STARTED is not written", Judge: "shared/worker:TestStartedIsWrittenBeforeTheStart", Edits: []Edit{{session, "\treturn code == workflow.CodeStarted || (", "\treturn true || code == workflow.CodeStarted || ("}}},
	{Name: "what was started runs again", Edits: []Edit{
		{claim, "case p.Jobs[i].Code == workflow.CodeStarted && !s.m.Work.Repeatable():", "case false:"},
		{session, "\t\treturn s.m.Work.Repeatable() || s.firstOwner\n", "\t\treturn true\n"}}},
	{Name: "released as not executed after a take-over", Judge: "shared/worker:TestReleaseTellsOnlyWhatIsCertain", Edits: []Edit{{finish, "case s.m.Work.Repeatable() && s.firstOwner && !s.started", "case s.m.Work.Repeatable() && !s.started"}}},
	{Name: "an end is written without the token", Edits: []Edit{{claims, "\t\tif !mine(old, pack.Token) {\n\t\t\tsame :=", "\t\tif old == nil || old.State != workflow.PackClaimed {\n\t\t\tsame :="}}},
	{Name: "a heartbeat is written without the token", Edits: []Edit{{claims, "if !mine(old, pack.Token) || old.Cancel ||", "if old == nil || old.State != workflow.PackClaimed || old.Cancel ||"}}},
	{Name: "a lane is added before its pack is finished", Edits: []Edit{{rules, "\tif err := s.run(ctx); err != nil {\n", "\tif _, err := s.ports.Packs.AddDone(ctx, m.Key, workflow.LaneEnd{}); err != nil {\n\t\treturn Disposition{}, err\n\t}\n\tif err := s.run(ctx); err != nil {\n"}}},
	{Name: "unknown counts as not executed", Edits: []Edit{{stepNoun, "return t.OK + t.Failed - t.Unsent + t.Unknown", "return t.OK + t.Failed - t.Unsent"}}},
	{Name: "no tombstones", Edits: []Edit{{closing, "locate(r, lane, lanes[lane]); p.over {", "locate(r, lane, lanes[lane]); p.over || p.pack == nil {"}}},
	{Name: "tombstones for the window only", Edits: []Edit{{closing, "\t\tfor lane := range r.Step.Lanes() {\n", "\t\tfor lane := range r.Step.Lanes() {\n\t\t\tif r.Step.Window > 0 && lane >= r.Step.Window {\n\t\t\t\tcontinue\n\t\t\t}\n"}}},
	{Name: "tombstones for the first attempt only", Edits: []Edit{{closing, "locate(r, lane, lanes[lane]); p.over {", "locate(r, lane, lanes[lane]); p.over || p.attempt > 1 && p.pack == nil {"}}},
	{Name: "rollback of the last attempt only", Edits: []Edit{{outcome, "if seen && old.Code.Executed() && !rec.Executed() {", "if false && seen {"}}},
	{Name: "a seized claim keeps its token, and an end looks at nothing else", Edits: []Edit{
		{lane, "\tp.Token++\n", ""},
		{claims, "\t\tif !mine(old, pack.Token) {\n\t\t\tsame :=", "\t\tif old == nil || old.Token != pack.Token {\n\t\t\tsame :="}}},
	{Name: "a commit without a condition", Edits: []Edit{{simStore, "\t\tcase e.x.Version != seen:\n", "\t\tcase false:\n"}}},
	{Name: "jobs begin under a lease that is over", Edits: []Edit{
		{session, "\tif s.left() <= room && s.renew(ctx, none) != nil {\n\t\treturn false\n\t}\n", "\t_ = room\n"},
		{session, "!s.cancelled && !s.lost && left > s.w.Margin", "!s.cancelled && !s.lost && left > -time.Hour"}}},
	{Name: "the fence is the pack's token", Edits: []Edit{{jobNoun, "return fmt.Sprintf(\"%010d-%04d-%02d-%02d\", token, runSeq, attempt, packToken)", "return fmt.Sprintf(\"%02d\", packToken)"}}},
	{Name: "no healing on the alarm", Edits: []Edit{{report, "\t\t\theal = append(heal, p)\n\t\t\tover[p.lane] = true\n", "\t\t\tcontinue\n"}}},
	{Name: "only what is absent is sent again", Edits: []Edit{{waiting, "\t\tsince, err := r.since(ctx, p, lanes)\n", "\t\tif p.pack != nil {\n\t\t\tcontinue\n\t\t}\n\t\tsince, err := r.since(ctx, p, lanes)\n"}}},
	{Name: "nothing is sent again", Edits: []Edit{{waiting, "\t\tmessages = append(messages, m)\n", "\t\t_ = m\n"}}},
	{Name: "a counter in place of the set", Edits: []Edit{{simPacks, "\t\tset.Done[lane] = true\n", "\t\tset.Done[len(set.Done)] = true\n"}}},
	{Name: "keys that do not tell visits apart", Edits: []Edit{{offer, "Visit: r.Step.Visit, RunSeq: r.Step.RunSeq}\n", "Visit: r.Step.Visit, RunSeq: 1}\n"}}},
	{Name: "messages never grow too old", Judge: "shared/worker:TestNotAfter", Edits: []Edit{
		{claim, "\tif t0.After(s.m.NotAfter) {\n", "\tif false {\n"},
		{claim, "\t\tif now.After(s.m.NotAfter) {\n", "\t\tif false {\n"},
		{rules, "\tcase now.After(m.NotAfter), rules.forgotten(m):\n", "\tcase rules.forgotten(m):\n"}}},
	{Name: "the done set is put anew", Edits: []Edit{{simPacks, "\tif set := p.w.done[shardKey{run, shard}]; set != nil {", "\tif set := p.w.done[shardKey{run, shard}]; set != nil && len(set.Done) > 1 {"}}},
	{Name: "the alarm ignores the window", Edits: []Edit{{report, "return w == 0 || lane < w || over[lane-w] }", "return true || over[lane-w] }"}}},
	{Name: "the window is not moved on", Edits: []Edit{{after, "\tif p.State == workflow.PackFinished {\n", "\tif false {\n"}}},
	{Name: "a seizure ignores the lease", Edits: []Edit{{closing, "\t\tcase p.pack.Lease.Before(now.Add(-d.Skew - d.Grace)):\n", "\t\tcase p.pack.Lease.Before(now.Add(time.Hour)):\n"}}},
	{Name: "a seizure forgets what was started", Edits: []Edit{{lane, "\t\tcase rec.Code == workflow.CodeStarted:\n\t\t\trec.Code, rec.EndedAt = workflow.CodeUnknown, now\n", "\t\tcase rec.Code == workflow.CodeStarted:\n\t\t\trec = workflow.JobRecord{Index: i, Code: workflow.CodeNotExecuted}\n"}}},
	{Name: "skew works for the one who takes over", Edits: []Edit{{packNoun, "\tcase !p.Lease.Before(now.Add(-skew)):\n", "\tcase !p.Lease.Before(now.Add(4 * skew)):\n"}}},
	{Name: "who has lost its claim goes on", Judge: "shared/worker:TestLentPacksAreTakenOver", Edits: []Edit{{keeper, "\ts.lost = true\n\treturn errLost\n", "\treturn nil\n"}}},
	{Name: "who has lost its claim tells of an end", Edits: []Edit{{finish, "\treturn nil, false, errLost\n", "\treturn p, true, nil\n"}}},
	{Name: "a report forgets the last lane", Edits: []Edit{{report, "\tcase done == s.Lanes() && bad == 0 && s.Stretch == 0:\n", "\tcase done >= s.Lanes()-1 && bad == 0 && s.Stretch == 0:\n"}}},
	{Name: "the end of a pack is not told", Edits: []Edit{{after, "\tif end.Bad || len(set.Done) >= size {\n", "\tif end.Bad || len(set.Done) > size {\n"}}},
	{Name: "a pack counts as closed while it is claimed", Edits: []Edit{{closing, "locate(r, lane, lanes[lane]); p.over {", "locate(r, lane, lanes[lane]); p.over || p.pack != nil {"}}},
}
