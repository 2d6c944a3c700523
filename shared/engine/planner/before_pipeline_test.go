package planner_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// beforePipeline is a step zero before a pipeline of the steps one and two.
type beforePipeline struct {
	zero       string             // what step zero says; it runs on devices if that is empty
	reads      [2]string          // what steps one and two read of it
	devices    int                // 40 if it is 0
	codes      []workflow.JobCode // of the jobs of zero, in turn, OK if there are none; "" for one without a record
	large      bool               // half of the results are stored outside their packs
	change     func(x *workflow.Execution, zero *workflow.StepRun)
	most       int    // bytes of results that may be read, many if it is 0
	unmeasured bool   // nobody has measured how many there are
	whole      bool   // a lane cannot be planned from its own entities
	problem    string // why a lane cannot be planned
}

func (c *beforePipeline) codeOf(i int) workflow.JobCode {
	if len(c.codes) == 0 {
		return workflow.JobCodeOK
	}
	return c.codes[i%len(c.codes)]
}

// check sends all lanes of the pipeline, in step one and, after that, in step two, and compares their jobs with those in
// the plans of all.
func (c *beforePipeline) check(t *testing.T) {
	zeroes := c.zero
	if zeroes == "" {
		zeroes = "runOn: device"
	}
	read := func(step int) string { return cmp.Or(c.reads[step], "nothing") }
	devices := max(40, c.devices)
	f := newFixture(t, `config: {failureTolerance: 100%, executionStrategy: {parallel: true}}
steps:
  - {label: zero, functionBlock: p/once:1, `+zeroes+`}
  - {label: all, functionBlock: p/once:1, runOn: global}
  - {label: one, functionBlock: p/once:1, runOn: device, condition: entity.wanted, parameters: {was: `+read(0)+`}}
  - {label: two, functionBlock: p/once:1, runOn: device, parameters: {one: '${has(one.result) ? one.result : null}', was: `+read(1)+`}}
`, devices, false)
	f.holdInChunks(devices, devices, nil)
	x, p := f.execution, f.planner
	if c.most > 0 {
		p.MaxResultBytes = c.most
	}
	one, two := x.StepRuns[2], x.StepRuns[3]
	x.StepRuns = x.StepRuns[:1]
	zero := &x.StepRuns[0]
	zero.Status, zero.PackSize = sm.StepCompleted, 4
	if c.change != nil {
		c.change(x, zero)
	}
	for i := range zero.Jobs {
		switch c.codeOf(i) {
		case workflow.JobCodeOK:
			zero.Counts.OK++
		case workflow.JobCodeFail:
			zero.Counts.Failed++
		case workflow.JobCodeUnknown:
			zero.Counts.Unknown++
		}
	}
	if zero.Pipeline > 0 {
		zero.Skipped = zero.Jobs - zero.Counts.Executed() - zero.Unmet
	}
	f.finish(zero, c.large, c.codeOf)
	one.Seq, two.Seq, one.Pipeline, two.Pipeline, one.Try, two.Try = 3, 4, 3, 3, x.Try, x.Try
	planned, err := p.Plan(f.Context(), x, &one)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range []workflow.StepRun{one, two} {
		if r.Jobs, r.PackSize = x.Scope.Counts["device"], 3; !c.unmeasured && i < len(planned.Plan.BytesBefore) {
			r.BytesBefore = planned.Plan.BytesBefore[i]
		}
		x.StepRuns = append(x.StepRuns, r)
	}
	p.ClearCache()
	first, sent, others := &x.StepRuns[1], &keepingSender{}, 0
	if p.Dispatcher.Sender, f.reads = sent, 0; p.LanesReadParts(x, first) == c.whole {
		t.Errorf("a lane is planned from its own entities: %t", c.whole)
	}
	f.Faults = func(call faults.Call) faults.Fault {
		if call.Name == "packs.shard_packs" || call.Name == "packs.done_set" {
			others++
		}
		return faults.None
	}
	problem := ""
	send := func() {
		for lane := range first.Lanes() {
			if _, err := p.SendLane(f.Context(), x, first, lane, f.Now(), &workflow.Cost{}); err != nil {
				problem = err.Error()
			}
		}
	}
	send()
	executed := map[int]workflow.JobCode{}
	for _, j := range sent.jobs[first.Seq] {
		executed[j.Index] = workflow.JobCodeOK
	}
	f.finish(first, false, func(i int) workflow.JobCode { return executed[i] })
	send()
	if problem != c.problem || !c.whole && f.reads+others > 0 {
		t.Errorf("%s; all entities were read %d times, and packs or done sets of others %d times", problem, f.reads, others)
	}
	p.ClearCache()
	for i := range x.StepRuns[1:] {
		r := &x.StepRuns[1+i]
		planned, err := p.Plan(f.Context(), x, r)
		if err != nil {
			t.Fatal(err)
		}
		got := sent.jobs[r.Seq]
		slices.SortFunc(got, func(a, b workflow.JobInput) int { return a.Index - b.Index })
		if diff := diff.Diff(planned.Jobs, got, cmpopts.EquateEmpty()); diff != "" || i == 0 && len(got) == 0 {
			t.Errorf("step %s of %d jobs: %s", r.Label, len(got), diff)
		}
	}
}

// finish writes the packs of those lanes of a step run in which some job has a code.
func (f *fixture) finish(r *workflow.StepRun, large bool, codeOf func(i int) workflow.JobCode) {
	f.Helper()
	packs := f.Open().Packs
	for lane := range r.Lanes() {
		key := workflow.StepRunKey{Tenant: f.execution.Tenant, Execution: f.execution.ID, Ordinal: r.Ordinal, Seq: r.Seq}.Pack(lane, 1)
		pack := &workflow.Pack{Key: key, State: workflow.PackClaimed, Token: 1, Nonce: f.Nonce(), Worker: "w", ClaimedAt: f.Now()}
		from, to := r.LaneRange(lane)
		for i := from; i < to; i++ {
			rec := workflow.JobRecord{Index: i, Code: codeOf(i)}
			result := json.RawMessage(fmt.Sprintf(`"%s %04d"`, r.Label, i))
			switch {
			case rec.Code == "":
				continue
			case rec.Code != workflow.JobCodeOK:
				rec.Failure = &workflow.Failure{Code: "REFUSED"}
			case large && i%2 == 0:
				ref, err := packs.SavePayload(f.Context(), key, result)
				if err != nil {
					f.Fatal(err)
				}
				rec.ResultRef = &ref
			default:
				rec.Result = result
			}
			pack.Jobs = append(pack.Jobs, rec)
		}
		if len(pack.Jobs) == 0 {
			continue
		}
		claimed, _, err := packs.Claim(f.Context(), pack)
		if pack.State, pack.FinishedAt = workflow.PackFinished, f.Now(); err == nil && claimed {
			claimed, _, err = packs.Finish(f.Context(), pack)
		}
		if err != nil || !claimed {
			f.Fatal(claimed, err)
		}
	}
}

// A lane of a pipeline sees of a step run before the pipeline what it sees if that is read for all entities, whether its
// own entities' packs are enough to know that or not.
func TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll(t *testing.T) {
	const result = "'${has(zero.result) ? zero.result : null}'"
	one, two := [2]string{result}, [2]string{"", result}
	const ok, failed, unknown, none = workflow.JobCodeOK, workflow.JobCodeFail, workflow.JobCodeUnknown, workflow.JobCode("")
	inPipeline := func(_ *workflow.Execution, zero *workflow.StepRun) { zero.Pipeline = zero.Seq }
	some := func(_ *workflow.Execution, zero *workflow.StepRun) {
		var wanted []int
		for i := 40; i < 80; i++ {
			if i%7 > 0 {
				wanted = append(wanted, i+1)
			}
		}
		zero.Jobs, zero.Skipped, zero.Part = len(wanted), 40-len(wanted), workflow.PartOf(wanted...)
	}
	for name, c := range map[string]beforePipeline{
		"results":                        {reads: one},
		"results in two shards":          {reads: one, devices: workflow.LanesPerShard + 10, change: func(_ *workflow.Execution, zero *workflow.StepRun) { zero.PackSize = 1 }},
		"results outside their packs":    {reads: one, large: true},
		"failures":                       {codes: []workflow.JobCode{ok, ok, failed, ok, unknown}},
		"failures and results":           {reads: one, codes: []workflow.JobCode{ok, ok, failed, ok, unknown}},
		"results of a pipeline":          {reads: one, codes: []workflow.JobCode{ok, none, ok, ok, none}, change: inPipeline},
		"failures in a pipeline":         {codes: []workflow.JobCode{ok, none, failed, ok, none}, change: inPipeline},
		"failures and lost packs":        {codes: []workflow.JobCode{ok, none, failed, ok, ok}},
		"all results":                    {reads: [2]string{"'${size(zero.results)}'"}, whole: true},
		"results, how many is not known": {reads: one, unmeasured: true, whole: true},
		"too many results":               {reads: two, most: 300, whole: true, problem: `the results of step "zero" that the expressions refer to exceed 300 bytes`},
		"almost too many results":        {reads: two, most: 445, problem: `the results of step "one" that the expressions refer to exceed 445 bytes`},
		"results of some":                {zero: "runOn: device, condition: entity.wanted", reads: [2]string{result, result}, change: some},
		"failures of some":               {zero: "runOn: device, condition: entity.wanted", codes: []workflow.JobCode{ok, ok, failed}, change: some},
		"results of some, who is not known": {zero: "runOn: device, condition: entity.wanted", reads: one, whole: true, change: func(x *workflow.Execution, zero *workflow.StepRun) {
			some(x, zero)
			zero.Part = nil
		}},
		"a false assertion": {zero: "runOn: device, assert: entity.wanted", codes: []workflow.JobCode{ok, ok, none, ok, ok, ok, ok}, whole: true, change: func(_ *workflow.Execution, zero *workflow.StepRun) {
			zero.Pipeline, zero.Unmet = zero.Seq, 6
		}},
		"failures of others": {zero: "runOn: box", codes: []workflow.JobCode{ok, failed}, whole: true},
		"failures in another try": {codes: []workflow.JobCode{ok, failed}, whole: true, change: func(x *workflow.Execution, zero *workflow.StepRun) {
			half := func(from int) workflow.Scope {
				scope, places := x.Scope, []int(nil)
				for place := from; place <= 2*zero.Jobs; place += 2 {
					places = append(places, place)
				}
				only := workflow.NewPlaces(places...)
				scope.Only, scope.Counts = &only, map[string]int{"box": zero.Jobs / 2, "device": zero.Jobs / 2}
				return scope
			}
			x.PastScopes, x.Scope = map[int]workflow.Scope{2: half(1)}, half(2)
			x.Try, zero.Try, zero.Jobs = 3, 2, zero.Jobs/2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.check(t)
		})
	}
}
