package mutation

// waves are mistakes about rollouts, foreach, and blocks that wait for an answer or ask to wait.
// The oracle detects them.
var waves = []Mutation{
	{Name: "a wave begins before its gate", Edits: []Edit{{lifecycleRollout, "n.Between > 0 && !d.pausedAfter(c):", "n.Between > 0 && !d.pausedAfter(c) && c.Seq < 0:"}}},
	{Name: "an entity is in two waves", Edits: []Edit{{plannerRollout, "at == wave || at < 0 {", "at == wave || at == wave-1 || at < 0 {"}}},
	{Name: "a wave may have one failure more", Edits: []Edit{{lifecycleReport, "tolerance, total = *ofWave, inWave", "tolerance, total = *ofWave, inWave\n\t\tfailed--"}}},
	{Name: "the last wave never begins", Edits: []Edit{{plannerRollout, "More: next < len(waves.List),", "More: next < max(1, len(waves.List)-1),"}}},
	{Name: "who never began is told as having succeeded", Edits: []Edit{{plannerRollout, "waveOf(key) >= s.rollout.StoppedAt-1", "waveOf(key) == s.rollout.StoppedAt-1"}}},
	{Name: "the last item of a foreach is lost", Edits: []Edit{{plannerForeach, "	all := make([]workflow.ScopeEntity, len(items))\n", "	items = items[:max(min(1, len(items)), len(items)-1)]\n	all := make([]workflow.ScopeEntity, len(items))\n"}}},
	{Name: "one item more may fail than a foreach says", Edits: []Edit{{lifecycleReport, "n.Foreach.FailureTolerance.Allows(failed, entities)", "n.Foreach.FailureTolerance.Allows(failed-1, entities)"}}},
	{Name: "who has failed in a wave takes part in it further", Edits: []Edit{{"shared/engine/planner/excluded.go", "if closed && got.notExecuted[key] {", "if closed && got.notExecuted[key] || o.In > 0 {"}}},
	{Name: "a wave that has failed is left as it is", Edits: []Edit{{entityOutcomes, "rules.Unfinished, rules.OnlyLocked = stopped.leaves(e.Key)", "rules.Unfinished, rules.OnlyLocked = false && stopped.leaves(e.Key)"}}},
	{Name: "steps behind a rollout are executed although it has stopped", Edits: []Edit{{lifecycleRollout, "&spec.Target{Node: len(d.facts.Resolution.Program.Nodes), In: -1}", "&spec.Target{Node: d.facts.Resolution.Program.Nodes[rollout].End, In: d.facts.Resolution.Program.Nodes[rollout].Parent}"}}},
	{Name: "a callback ends before its job has ended", Edits: []Edit{{lifecycleWait, "if d.changed = true; !r.HasJobs() || r.Wait.Asked {", "if d.changed = true; r.Seq > 0 {"}}},
	{Name: "a callback gives what its job has given", Edits: []Edit{{lifecycleReport, "f.Counts.NotExecuted == 0 && r.Waiting():", "f.Counts.NotExecuted == 0 && r.Waiting() && r.Jobs > 1:"}}},
	{Name: "a block that has asked to wait is not called again", Edits: []Edit{{lifecycleReport, "f.Counts.NotExecuted == 0 && f.Wait != nil:", "f.Counts.NotExecuted == 0 && f.Wait != nil && r.Seq < 0:"}}},
	{Name: "an execution begins although another one has its key", Edits: []Edit{{engineCheckIn, "w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyHeld, Owner: key.Execution}", "w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyMine}"}}},
	{Name: "a retry divides the entities anew", Edits: []Edit{{plannerRollout, "	scope := x.ScopeOf(c)\n	scope.Only = nil\n", "	scope := x.Scope\n"}}},
}
