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
	outcome  = "shared/lifecycle/plan/outcome.go"
)

var packs = []Mutation{
	{"a take-over looks at the token alone", []Edit{{simPacks, "return mine(old, seen.Token) && same(old.Lease, seen.Lease)", "return mine(old, seen.Token)"}}},
	{"a take-over ignores the lease", []Edit{{packNoun, "\tcase !p.Lease.Before(now.Add(-skew)):\n", "\tcase false:\n"}}},
	{"a live claim is adopted by its worker's name", []Edit{{claim, "\t\tcase workflow.ClaimLive:\n", "\t\tcase workflow.ClaimLive:\n\t\t\tif old.Worker == s.w.Name {\n\t\t\t\ts.take(old)\n\t\t\t\treturn d, false, nil\n\t\t\t}\n"}}},
	{"STARTED is not written", []Edit{{session, "\treturn code == workflow.CodeStarted || (", "\treturn true || code == workflow.CodeStarted || ("}}},
	{"what was started runs again", []Edit{
		{claim, "case p.Jobs[i].Code == workflow.CodeStarted && !s.m.Work.Repeatable():", "case false:"},
		{session, "\t\treturn s.m.Work.Repeatable() || s.firstOwner\n", "\t\treturn true\n"}}},
	{"released as not executed after a take-over", []Edit{{finish, "case s.m.Work.Repeatable() && s.firstOwner && !s.started", "case s.m.Work.Repeatable() && !s.started"}}},
	{"an end is written without the token", []Edit{{claims, "\t\tif !mine(old, pack.Token) {\n\t\t\tsame :=", "\t\tif old == nil || old.State != workflow.PackClaimed {\n\t\t\tsame :="}}},
	{"a heartbeat is written without the token", []Edit{{claims, "if !mine(old, pack.Token) || old.Cancel ||", "if old == nil || old.State != workflow.PackClaimed || old.Cancel ||"}}},
	{"a lane is added before its pack is finished", []Edit{{rules, "\tif err := s.run(ctx); err != nil {\n", "\tif _, err := s.ports.Packs.AddDone(ctx, m.Key, workflow.LaneEnd{}); err != nil {\n\t\treturn Disposition{}, err\n\t}\n\tif err := s.run(ctx); err != nil {\n"}}},
	{"unknown counts as not executed", []Edit{{stepNoun, "return t.OK + t.Failed - t.Unsent + t.Unknown", "return t.OK + t.Failed - t.Unsent"}}},
	{"no tombstones", []Edit{{closing, "locate(r, lane, lanes[lane]); p.over {", "locate(r, lane, lanes[lane]); p.over || p.pack == nil {"}}},
	{"tombstones for the window only", []Edit{{closing, "\t\tfor lane := range r.Step.Lanes() {\n", "\t\tfor lane := range r.Step.Lanes() {\n\t\t\tif r.Step.Window > 0 && lane >= r.Step.Window {\n\t\t\t\tcontinue\n\t\t\t}\n"}}},
	{"tombstones for the first attempt only", []Edit{{closing, "locate(r, lane, lanes[lane]); p.over {", "locate(r, lane, lanes[lane]); p.over || p.attempt > 1 && p.pack == nil {"}}},
	{"rollback of the last attempt only", []Edit{{outcome, "if seen && old.Code.Executed() && !rec.Executed() {", "if false && seen {"}}},
	{"a seized claim keeps its token, and an end looks at nothing else", []Edit{
		{lane, "\tp.Token++\n", ""},
		{claims, "\t\tif !mine(old, pack.Token) {\n\t\t\tsame :=", "\t\tif old == nil || old.Token != pack.Token {\n\t\t\tsame :="}}},
	{"a commit without a condition", []Edit{{simStore, "\t\tcase e.x.Version != seen:\n", "\t\tcase false:\n"}}},
	{"jobs begin under a lease that is over", []Edit{
		{session, "\tif s.left() <= room && s.renew(ctx, none) != nil {\n\t\treturn false\n\t}\n", "\t_ = room\n"},
		{session, "!s.cancelled && !s.lost && left > s.w.Margin", "!s.cancelled && !s.lost && left > -time.Hour"}}},
	{"the fence is the pack's token", []Edit{{jobNoun, "return fmt.Sprintf(\"%010d-%04d-%02d-%02d\", token, runSeq, attempt, packToken)", "return fmt.Sprintf(\"%02d\", packToken)"}}},
	{"no healing on the alarm", []Edit{{report, "\t\t\theal = append(heal, p)\n\t\t\tover[p.lane] = true\n", "\t\t\tcontinue\n"}}},
	{"only what is absent is sent again", []Edit{{waiting, "\t\tsince, err := r.since(ctx, p, lanes)\n", "\t\tif p.pack != nil {\n\t\t\tcontinue\n\t\t}\n\t\tsince, err := r.since(ctx, p, lanes)\n"}}},
	{"nothing is sent again", []Edit{{waiting, "\t\tmessages = append(messages, m)\n", "\t\t_ = m\n"}}},
	{"a counter in place of the set", []Edit{{simPacks, "\t\tset.Done[lane] = true\n", "\t\tset.Done[len(set.Done)] = true\n"}}},
	{"the done set is put anew", []Edit{{simPacks, "\tif set := p.w.done[shardKey{run, shard}]; set != nil {", "\tif set := p.w.done[shardKey{run, shard}]; set != nil && len(set.Done) > 1 {"}}},
	{"the alarm ignores the window", []Edit{{report, "return w == 0 || lane < w || over[lane-w] }", "return true || over[lane-w] }"}}},
	{"the window is not moved on", []Edit{{after, "\tif p.State == workflow.PackFinished {\n", "\tif false {\n"}}},
	{"a seizure ignores the lease", []Edit{{closing, "\t\tcase p.pack.Lease.Before(now.Add(-d.Skew - d.Grace)):\n", "\t\tcase p.pack.Lease.Before(now.Add(time.Hour)):\n"}}},
	{"a seizure forgets what was started", []Edit{{lane, "\t\tcase rec.Code == workflow.CodeStarted:\n\t\t\trec.Code, rec.EndedAt = workflow.CodeUnknown, now\n", "\t\tcase rec.Code == workflow.CodeStarted:\n\t\t\trec = workflow.JobRecord{Index: i, Code: workflow.CodeNotExecuted}\n"}}},
	{"skew works for the one who takes over", []Edit{{packNoun, "\tcase !p.Lease.Before(now.Add(-skew)):\n", "\tcase !p.Lease.Before(now.Add(4 * skew)):\n"}}},
	{"who has lost its claim goes on", []Edit{{keeper, "\ts.lost = true\n\treturn errLost\n", "\treturn nil\n"}}},
	{"who has lost its claim tells of an end", []Edit{{finish, "\treturn nil, false, errLost\n", "\treturn p, true, nil\n"}}},
	{"a report forgets the last lane", []Edit{{report, "\tcase done == s.Lanes() && bad == 0 && s.Stretch == 0:\n", "\tcase done >= s.Lanes()-1 && bad == 0 && s.Stretch == 0:\n"}}},
	{"the end of a pack is not told", []Edit{{after, "\tif end.Bad || len(set.Done) >= size {\n", "\tif end.Bad || len(set.Done) > size {\n"}}},
	{"a pack counts as closed while it is claimed", []Edit{{closing, "locate(r, lane, lanes[lane]); p.over {", "locate(r, lane, lanes[lane]); p.over || p.pack != nil {"}}},
}
