package query_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func newPlanHarness(t *testing.T, devices int) *harness.Harness {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(devices)...)
	return s
}

// planOf asks for a plan and fails the test if that writes anything or sends a message.
func planOf(t *testing.T, s *harness.Harness, req views.StartRequest) (views.PlanView, error) {
	t.Helper()
	s.Faults = func(c faults.Call) faults.Fault {
		switch c.Name {
		case "registry.versions_revision", "registry.version_index", "registry.definition_versions", "registry.definition", "registry.block", "registry.blocks", "registry.block_versions", "registry.entities", "registry.entities_weakly", "registry.entities_of", "locks.read", "store.heads":
		default:
			t.Errorf("a plan calls %s", c.Name)
		}
		return faults.None
	}
	defer func() { s.Faults = nil }()
	before := s.Consumed()
	p, err := s.Query.Plan(context.Background(), harness.Caller, req)
	after := s.Consumed()
	if diff := cmp.Diff(before.WriteUnits, after.WriteUnits); diff != "" || after.QueueRequests != before.QueueRequests {
		t.Errorf("a plan writes: %s", diff)
	}
	return p, err
}

func step(t *testing.T, p views.PlanView, label string) views.PlannedStep {
	t.Helper()
	for _, s := range p.Steps {
		if s.Label == label {
			return s
		}
	}
	t.Fatalf("no step %s in %+v", label, p.Steps)
	return views.PlannedStep{}
}

// TestPlan_TellsWhatAnExecutionDoes compares a plan with the execution that follows it.
func TestPlan_TellsWhatAnExecutionDoes(t *testing.T) {
	s := newPlanHarness(t, 30)
	s.Publish("w", `steps:
  - {label: look, functionBlock: p/pure:1, runOn: device}
  - {label: some, functionBlock: p/again:1, runOn: device, condition: 'entity.id > "d009"'}
  - {label: seen, functionBlock: p/again:1, runOn: device, condition: 'look.result != null'}
  - {label: never, condition: 'false', workflow: {steps: [{label: inner, functionBlock: p/forever:1, runOn: device}]}}
  - {label: report, functionBlock: p/forever:1, runOn: global}
`)
	req := harness.NewStartRequest("w", harness.DeviceIDs(30)...)
	p, err := planOf(t, s, req)
	if err != nil {
		t.Fatal(err)
	}
	if p.Fails || p.Problem != nil || p.Entities.Total != 30 || p.Entities.ByType["device"] != 30 || len(p.Entities.Named) != 20 || p.Entities.Named[0] != "device/d000" || p.Locked.Count != 0 {
		t.Errorf("%+v", p)
	}
	if got := step(t, p, "some"); got.Jobs != 20 || got.Skipped != 10 || got.AtMost || got.Messages != 10 || got.Effect != views.EffectReversible || *got.Block != "p/again:1.0.0" {
		t.Errorf("some: %+v", got)
	}
	if got := step(t, p, "seen"); got.Jobs != 30 || !got.AtMost || cmp.Diff(got.Unknown, []string{"condition"}) != "" {
		t.Errorf("seen: %+v", got)
	}
	if got := step(t, p, "inner"); got.Jobs != 0 || got.SkippedBy == nil || *got.SkippedBy != "never" || got.OnFailure != nil {
		t.Errorf("inner: %+v", got)
	}
	if got := step(t, p, "report"); got.Jobs != 1 || got.Effect != views.EffectIrreversible {
		t.Errorf("report: %+v", got)
	}

	s.Script = func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{Result: []byte(`{"a":1}`)} }
	id := s.StartWith(req)
	s.RunUntilIdle(time.Hour)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	for _, r := range x.StepRuns {
		if got := step(t, p, r.Label); got.Jobs != r.Jobs || got.Messages != r.Lanes() && r.Jobs > 0 {
			t.Errorf("%s: planned %d jobs in %d messages, had %d in %d", r.Label, got.Jobs, got.Messages, r.Jobs, r.Lanes())
		}
	}
	bill, err := s.Query.Cost(context.Background(), harness.Caller, id)
	if err != nil || bill.Dollars < p.Cost.Dollars/2 || bill.Dollars > p.Cost.Dollars*2 {
		t.Errorf("planned $%f, cost $%f, %v", p.Cost.Dollars, bill.Dollars, err)
	}
}

// TestPlan_TellsWhatAFailureMeans makes each step fail in turn and compares the end with
// what the plan said of that step.
func TestPlan_TellsWhatAFailureMeans(t *testing.T) {
	for _, c := range []struct {
		config, blocks string // blocks of the steps a, b and c
		want           []views.FailureEffect
	}{
		{"{}", "pure again forever", []views.FailureEffect{views.FailureNothingLeft, views.FailureRolledBack, views.FailureUnsafe}},
		{"{}", "again pure harmless", []views.FailureEffect{views.FailureRolledBack, views.FailureRolledBack, views.FailureRolledBack}},
		{"{rollback: {mode: never}}", "pure again pure", []views.FailureEffect{views.FailureNothingLeft, views.FailureUnsafe, views.FailureUnsafe}},
		{"{}", "forever again pure", []views.FailureEffect{views.FailureUnsafe, views.FailureUnsafe, views.FailureUnsafe}},
	} {
		blocks := strings.Fields(c.blocks)
		for i, label := range []string{"a", "b", "c"} {
			s := newPlanHarness(t, 3)
			s.Publish("w", "config: "+strings.Replace(c.config, "{mode: never}", "never", 1)+"\nsteps:\n  - {label: a, functionBlock: p/"+blocks[0]+":1, runOn: device}\n  - {label: b, functionBlock: p/"+blocks[1]+":1, runOn: device}\n  - {label: c, functionBlock: p/"+blocks[2]+":1, runOn: device}\n")
			p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(3)...))
			if err != nil {
				t.Fatal(err)
			}
			got := step(t, p, label)
			if got.OnFailure == nil || *got.OnFailure != c.want[i] || got.IfFails == "" {
				t.Fatalf("%s of %s: %+v", label, c.blocks, got)
			}
			s.Script = func(call harness.BlockCall) *harness.Outcome {
				if call.Step == label && call.Kind == workflow.JobExecute && call.Entity == "d001" {
					return &harness.Outcome{FailCode: "REFUSED"}
				}
				return nil
			}
			id := s.Start("w", harness.DeviceIDs(3)...)
			s.RunUntilIdle(time.Hour)
			x := s.Load(id)
			end := map[views.FailureEffect]sm.ExecutionState{
				views.FailureNothingLeft: sm.ExecutionFailedSafeAck, views.FailureRolledBack: sm.ExecutionFailedSafeAck, views.FailureUnsafe: sm.ExecutionFailedUnsafe,
			}[c.want[i]]
			if x.State != end || x.RolledBack != (c.want[i] == views.FailureRolledBack) {
				t.Errorf("%s of %s fails: planned %s, ended %s, rolled back %v", label, c.blocks, c.want[i], x.State, x.RolledBack)
			}
		}
	}
}

// TestPlan_TellsWhatBecomesOfToleratedFailures: in words, by the tolerance and what the
// definition does with entities that failed.
func TestPlan_TellsWhatBecomesOfToleratedFailures(t *testing.T) {
	for config, want := range map[string]string{
		"{failureTolerance: 2}":                         "up to 2 entities may fail: they are undone",
		"{failureTolerance: 50%}":                       "up to 2 entities may fail: they are undone",
		"{failureTolerance: 2, onEntityFailure: leave}": "up to 2 entities may fail: they are left as they are",
		"{failureTolerance: 2, rollback: never}":        "up to 2 entities may fail: they are FAILED_UNSAFE and stay locked",
	} {
		s := newPlanHarness(t, 5)
		s.Publish("w", "config: "+config+"\nsteps:\n  - {label: a, functionBlock: p/again:1, runOn: device}\n")
		p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(5)...))
		if got := step(t, p, "a"); err != nil || got.Tolerated != 2 || !strings.HasPrefix(got.IfFails, want) {
			t.Errorf("%s: %+v, %v", config, got, err)
		}
	}
}

// TestPlan_NamesWhoHoldsWhat: which entities are locked, by whom, and whether that needs a
// person.
func TestPlan_NamesWhoHoldsWhat(t *testing.T) {
	s := newPlanHarness(t, 3)
	s.Publish("w", "steps:\n  - {label: a, functionBlock: p/forever:1, runOn: device}\n")
	s.Publish("f", "config: {onLocked: fail}\nsteps:\n  - {label: a, functionBlock: p/pure:1, runOn: device}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
	unsafe := s.Start("w", "d001")
	s.RunUntilIdle(time.Minute)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	live := s.Start("w", "d002")
	p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(3)...))
	if err != nil || p.Locked.Count != 2 || p.Fails {
		t.Fatalf("%+v, %v", p.Locked, err)
	}
	first, second := p.Locked.Named[0], p.Locked.Named[1]
	if first.Entity != "device/d001" || *first.HeldBy != unsafe || !first.NeedsPerson || first.Since == nil || second.Entity != "device/d002" || *second.HeldBy != live || second.NeedsPerson {
		t.Errorf("%+v", p.Locked.Named)
	}
	if p, err := planOf(t, s, harness.NewStartRequest("f", "d001")); err != nil || !p.Fails || p.OnLocked != "fail" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestPlan_TellsWhatFailsAlready: parameters, assertions, selections, resolution.
func TestPlan_TellsWhatFailsAlready(t *testing.T) {
	s := newPlanHarness(t, 4)
	s.RegisterBlock(workflow.Block{Name: "strict", Pure: true, ParameterSchema: []byte(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)})
	s.Publish("w", `config: {failureTolerance: 1}
steps:
  - {label: a, functionBlock: p/pure:1, runOn: device, assert: 'entity.id != "d001"'}
  - {label: b, functionBlock: p/pure:1, runOn: device, assert: ['a.result != null', 'entity.id != "d002"']}
  - {label: c, functionBlock: p/strict:1, runOn: device, parameters: {n: text}}
`)
	p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(4)...))
	if err != nil || !p.Fails {
		t.Fatalf("%+v, %v", p, err)
	}
	if a := step(t, p, "a"); a.Unmet != 1 || a.Fails || a.Problem == nil || *a.Problem.Entity != "device/d001" {
		t.Errorf("a: %+v", a)
	}
	if b := step(t, p, "b"); b.Unmet != 1 || !b.Fails || b.Skipped != 1 || cmp.Diff(b.Unknown, []string{"assert"}) != "" {
		t.Errorf("b: %+v", b)
	}
	if c := step(t, p, "c"); !c.Fails || c.Jobs != 0 || c.Problem.Code != workflow.FailureParameters {
		t.Errorf("c: %+v", c)
	}
	if diff := cmp.Diff(map[string]string{"p/pure:1": "p/pure:1.0.0", "p/strict:1": "p/strict:1.0.0"}, p.Blocks); diff != "" || len(p.Warnings) != 3 || !strings.Contains(p.Warnings[0], `step "a": assertion is not true`) {
		t.Errorf("blocks %s, warnings %q", diff, p.Warnings)
	}
	if p, err := planOf(t, s, views.StartRequest{Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Groups: []string{"none"}}}); err != nil || !p.Fails || p.Problem == nil || p.Problem.Code != workflow.FailureNothingSelected || len(p.Steps) != 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "NOTHING_SELECTED") {
		t.Errorf("%+v, %v", p, err)
	}

	// What people are to be asked, and until when a step waits, is evaluated if it reads no results.
	s.Publish("asks", `steps:
  - {label: a, functionBlock: p/pure:1, runOn: device}
  - {label: told, wait: {approval: {title: "${parameters.note}", deadline: 1h}}}
  - {label: untold, wait: {approval: {title: "${parameters.note}", show: {a: "${a.results}"}, deadline: 1h}}}
  - {label: night, wait: {until: "${parameters.opens}"}}
`)
	for parameters, want := range map[string][]string{
		`{"note":"Now?","opens":"2030-01-31T08:00:00Z"}`: nil,
		`{"opens":"2030-01-31T08:00:00Z"}`:               {"told"},
		`{"note":"Now?","opens":"soon"}`:                 {"night"},
	} {
		req := harness.NewStartRequest("asks", "d000")
		req.Parameters = []byte(parameters)
		p, err := planOf(t, s, req)
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, step := range p.Steps {
			if step.Problem != nil && step.Fails {
				failed = append(failed, step.Label)
			}
		}
		if diff := cmp.Diff(want, failed); diff != "" || p.Fails != (len(want) > 0) || cmp.Diff(step(t, p, "untold").Unknown, []string{"wait"}) != "" {
			t.Errorf("%s: fails %v, %s, unknown %q", parameters, p.Fails, diff, step(t, p, "untold").Unknown)
		}
	}

	s.Publish("unresolved", "steps:\n  - {label: a, functionBlock: p/missing:1, runOn: device}\n")
	if p, err := planOf(t, s, harness.NewStartRequest("unresolved", "d000")); err != nil || p.Problem == nil || *p.Problem.Step != "a" {
		t.Errorf("%+v, %v", p, err)
	}
	s.Publish("shared", "config: {lockMode: shared}\nsteps:\n  - {label: a, functionBlock: p/again:1, runOn: device}\n")
	if p, err := planOf(t, s, harness.NewStartRequest("shared", "d000")); err != nil || p.Problem == nil {
		t.Errorf("%+v, %v", p, err)
	}
	// What a start refuses is refused with the same error.
	for _, req := range []views.StartRequest{
		{Workflow: "p/none"}, {Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Type: "device"}},
		{Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Query: "entity.("}}, {Workflow: "p/w", Parameters: []byte(`[]`)},
	} {
		_, planErr := s.Query.Plan(context.Background(), harness.Caller, req)
		_, _, startErr := s.Engine.Start(context.Background(), harness.Caller, req)
		if planErr == nil || startErr == nil || planErr.Error() != startErr.Error() {
			t.Errorf("%+v: plan %v, start %v", req, planErr, startErr)
		}
	}
}

// TestPlan_DoesNotCallAcquire: the entities that a block acquires are unknown, and the plan says
// so.
func TestPlan_DoesNotCallAcquire(t *testing.T) {
	s := newPlanHarness(t, 3)
	s.Publish("w", "assertNotEmpty: true\nsteps:\n  - {label: a, functionBlock: p/pure:1, runOn: device, assertNotEmpty: true, acquire: [{type: device, block: 'p/pure:1'}, {type: device, ids: [d002]}]}\n")
	p, err := planOf(t, s, harness.NewStartRequest("w"))
	if err != nil || p.Problem != nil || len(p.Entities.More) != 1 || p.Entities.More[0].Block != "p/pure:1" || *p.Entities.More[0].Step != "a" || cmp.Diff(p.Entities.Named, []string{"device/d002"}) != "" {
		t.Errorf("%+v, %v", p, err)
	}
	if len(s.BlockCalls) > 0 {
		t.Errorf("calls %v", s.BlockCalls)
	}
}

// TestPlan_IsBounded: expressions may cost as much as one step of an execution, and the rest is
// left unknown.
func TestPlan_IsBounded(t *testing.T) {
	o := harness.Options()
	o.MaxPlanCost = 40_000
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(4)...)
	slow := `'[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5,6,7,8,9,10].map(c, a + b + c))).size() == 10'`
	s.Publish("w", "steps:\n  - {label: a, functionBlock: p/pure:1, runOn: device, condition: "+slow+"}\n  - {label: b, functionBlock: p/pure:1, runOn: device, condition: "+slow+"}\n")
	p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(4)...))
	if err != nil || step(t, p, "a").Problem == nil || !step(t, p, "a").Fails {
		t.Fatalf("%+v, %v", p, err)
	}
	if b := step(t, p, "b"); b.Jobs != 4 || !b.AtMost || len(b.Unknown) != 3 || b.Fails {
		t.Errorf("b: %+v", b)
	}
}

// Where one step cannot be undone, nothing is: the plan, what remains, and each entity name the steps before it, too.
func TestPlan_NamesAllThatRemains(t *testing.T) {
	s := newPlanHarness(t, 2)
	s.Publish("w", "steps:\n  - {label: install, functionBlock: p/again:1, runOn: device}\n  - {label: reboot, functionBlock: p/forever:1, runOn: device}\n  - {label: verify, functionBlock: p/pure:1, runOn: device}\n")
	p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(2)...))
	if err != nil {
		t.Fatal(err)
	}
	const want = `FAILED_UNSAFE: step "reboot" has no rollback; nothing is rolled back then, and what these steps have changed remains: reboot, install`
	for _, label := range []string{"reboot", "verify"} {
		if got := step(t, p, label).IfFails; got != want {
			t.Errorf("%s: %s", label, got)
		}
	}
	s.Script = func(call harness.BlockCall) *harness.Outcome {
		if call.Step == "verify" && call.Entity == "d001" {
			return &harness.Outcome{FailCode: "WRONG_OS"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	s.RunUntilIdle(time.Hour)
	v, err := s.Query.Execution(t.Context(), harness.Caller, id)
	if err != nil || v.Remains == nil || *v.Remains != `step "reboot" has no rollback; nothing was rolled back: what these steps have changed remains: reboot, install` {
		t.Fatalf("%v, %s", err, *v.Remains)
	}
	for _, f := range v.FailedEntities {
		code, at := "CHANGES_REMAIN", "reboot"
		if f.Entity == "device/d001" {
			code, at = "WRONG_OS", "verify"
		}
		if f.Code != code || f.Step != at || !strings.Contains(f.Message, `step "reboot" was executed and has no rollback`) || !strings.HasSuffix(f.Message, "changes of these steps remain, too: install") {
			t.Errorf("%+v", f)
		}
	}
	if len(v.FailedEntities) != 2 {
		t.Errorf("%d entities are named", len(v.FailedEntities))
	}
}

// A rejection between two waves undoes nothing of the waves before, and the next never begins.
func TestPlan_TellsOfARejectionBetweenWaves(t *testing.T) {
	for before, want := range map[string]string{
		"": `rollout "all" stops, the waves before stand and the next ones never begin: nothing is undone, PARTIAL`,
		"  - {label: prepare, functionBlock: p/again:1, runOn: device}\n":   `rollout "all" stops, the waves before stand and the next ones never begin: what was changed on their entities is undone, PARTIAL: prepare`,
		"  - {label: prepare, functionBlock: p/forever:1, runOn: device}\n": `rollout "all" stops, the waves before stand and the next ones never begin: FAILED_UNSAFE for the entities of the next ones: step "prepare" has no rollback`,
	} {
		s := newPlanHarness(t, 2)
		s.Publish("w", "steps:\n"+before+"  - {label: all, rollout: {batches: [1, 100%], approve: {title: go on, by: [ops], need: 1, deadline: 24h}}, workflow: {steps: [{label: install, functionBlock: p/again:1, runOn: device}]}}\n")
		p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(2)...))
		if err != nil {
			t.Fatal(err)
		}
		if got := step(t, p, "all_approval").IfFails; !strings.HasSuffix(got, "if it is rejected: "+want) {
			t.Errorf("%s: %s", before, got)
		}
		if got := step(t, p, "install").IfFails; !strings.Contains(got, "the waves before stand: ") || strings.Contains(got, "never begin") {
			t.Errorf("in a wave: %s", got)
		}
	}
}
