package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// sites divides ten devices into three sites: d001 and d006 are in the lab, those with an even
// number in bsl, the others in zrh.
const sites = `by: "entity.id in ['d001', 'd006'] ? 'lab' : int(entity.id.substring(3)) % 2 == 0 ? 'bsl' : 'zrh'"`

// rolledOut starts a rollout over devices, and runs it as far as it goes without waiting.
func rolledOut(t *testing.T, devices int, definition string, script func(harness.BlockCall) *harness.Outcome) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, devices)
	s.Publish("w", definition)
	s.Script = script
	id := s.Start("w", harness.DeviceIDs(devices)...)
	s.Drain()
	return s, id
}

// callsByStep lists the calls as "STEP ENTITY,ENTITY ...", those of one step together; "~STEP" for
// those that undo it.
func callsByStep(s *harness.Harness, id string) string {
	var all []string
	last := ""
	for _, c := range s.BlockCalls {
		if c.Execution != id {
			continue
		}
		step := c.Step
		if c.Kind == workflow.JobRollback {
			step = "~" + step
		}
		entity := strings.TrimPrefix(c.Entity, "d00")
		if step == last && entity != "" {
			all[len(all)-1] += "," + entity
			continue
		}
		all, last = append(all, strings.TrimSpace(step+" "+entity)), step
	}
	return strings.Join(all, " | ")
}

func expectSteps(t *testing.T, s *harness.Harness, id, want string) {
	t.Helper()
	if got := callsByStep(s, id); got != want {
		t.Errorf("calls:\n%s\nwant:\n%s", got, want)
	}
}

func expectCount(t *testing.T, x *workflow.Execution, want map[workflow.EntityOutcome]int) {
	t.Helper()
	got := map[workflow.EntityOutcome]int{}
	if x.Result != nil {
		got = x.Result.Count
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

func executionView(t *testing.T, s *harness.Harness, id string) views.ExecutionView {
	t.Helper()
	v, err := s.Query.Execution(t.Context(), harness.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A rollout executes its steps wave by wave: by shares of the entities, by an attribute in the
// order given, and all that is left at the end. No wave is empty.
func TestRollout_Waves(t *testing.T) {
	for by, want := range map[string]string{
		`batches: [1, 40%, 8]`:           "[1 3 4 2] one 0 | two 0 | one 1,2,3 | two 1,2,3 | one 4,5,6,7 | two 4,5,6,7 | one 8,9 | two 8,9",
		`batches: [5%, 100%]`:            "[1 9] one 0 | two 0 | one 1,2,3,4,5,6,7,8,9 | two 1,2,3,4,5,6,7,8,9",
		`batches: [20, 50%]`:             "[10] one 0,1,2,3,4,5,6,7,8,9 | two 0,1,2,3,4,5,6,7,8,9",
		sites + `, order: [lab]`:         "[2 4 4] one 1,6 | two 1,6 | one 0,2,4,8 | two 0,2,4,8 | one 3,5,7,9 | two 3,5,7,9",
		sites + `, order: [x, zrh, lab]`: "[4 2 4] one 3,5,7,9 | two 3,5,7,9 | one 1,6 | two 1,6 | one 0,2,4,8 | two 0,2,4,8",
		`by: "entity.id < 'd002'"`:       "[8 2] one 2,3,4,5,6,7,8,9 | two 2,3,4,5,6,7,8,9 | one 0,1 | two 0,1",
	} {
		for _, config := range []string{"", "config: {executionStrategy: {parallel: true}}\n"} {
			s, id := rolledOut(t, 10, config+"steps: [{label: all, rollout: {"+by+`}, workflow: {steps: [
  {label: one, functionBlock: p/pure:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device, parameters: {r: "${one.result}"}}]}}]`, func(c harness.BlockCall) *harness.Outcome {
				return &harness.Outcome{Result: json.RawMessage(`"` + c.Entity + `"`)}
			})
			settle(s)
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			got := fmt.Sprint(x.StepRuns[0].Waves, " ", callsByStep(s, id))
			if config != "" { // lane by lane: only which entities are in which wave is fixed
				got, want = fmt.Sprint(x.StepRuns[0].Waves), want[:strings.Index(want, "]")+1]
			}
			if got != want || x.Outcome() != workflow.OutcomeSucceeded || x.Schema != workflow.SchemaVersion {
				t.Errorf("%s%s: %s\nwant %s; %s, schema %d", config, by, got, want, x.Outcome(), x.Schema)
			}
			for _, c := range s.BlockCalls {
				if c.Step == "two" && string(c.Parameters) != `{"r":"`+c.Entity+`"}` {
					t.Errorf("%s: %s reads %s", by, c.Entity, c.Parameters)
				}
			}
		}
	}
}

// What cannot be divided fails the step before anything in it is executed.
func TestRollout_CannotBeDivided(t *testing.T) {
	for by, code := range map[string]string{
		`by: entity.site`:                                     workflow.FailureRollout,
		`by: "entity.id == 'd001' ? '' : 'x'"`:                workflow.FailureRollout,
		`by: "[entity.id]"`:                                   workflow.FailureRollout,
		`by: "entity.id + parameters.x"`:                      workflow.FailureRollout,
		`by: "entity.id + '` + strings.Repeat("x", 70) + `'"`: workflow.FailureRollout,
	} {
		s, id := rolledOut(t, 2, "steps: [{label: before, functionBlock: p/again:1, runOn: device}, {label: all, rollout: {"+by+"}, workflow: {steps: [{label: one, functionBlock: p/once:1, runOn: device}]}}]", nil)
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != code || x.Error.Step != "all" || !strings.HasPrefix(x.Error.Entity, "device/d00") {
			t.Errorf("%s: %+v", by, x.Error)
		}
		expectSteps(t, s, id, "before 0,1 | ~before 0,1")
	}
	s, id := rolledOut(t, 251, "steps: [{label: all, rollout: {by: entity.id}, workflow: {steps: [{label: one, functionBlock: p/once:1, runOn: device}]}}]", nil)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLimit || len(s.BlockCalls) > 0 {
		t.Errorf("%s %+v", x.Cause, x.Error)
	}
}

// A rollout without entities ends at once; steps in the waves on other types are not affected.
func TestRollout_WithoutEntities(t *testing.T) {
	s, id := rolledOut(t, 2, `steps:
  - {label: all, rollout: {batches: [1], pause: 1h}, workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: site}, {label: note, functionBlock: p/pure:1, runOn: global}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, nil)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "after 0,1")
}

// In each wave, as many entities may fail as the rollout says. They take no part in later steps,
// and are undone at the end. The next wave counts anew.
func TestRollout_ToleratesFailuresInEachWave(t *testing.T) {
	for tolerance, waves := range map[string]int{"1": 3, "25%": 3, "24%": 1, "0": 1} {
		s, id := rolledOut(t, 12, `steps:
  - {label: all, rollout: {batches: [4, 8], failureTolerance: `+tolerance+`}, workflow: {steps: [
      {label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, failCalls("one EXECUTE d001", "two EXECUTE d006", "one EXECUTE d009"))
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if waves == 3 {
			expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 3})
			expectSteps(t, s, id, "one 0,1,2,3 | two 0,2,3 | one 4,5,6,7 | two 4,5,6,7 | one 8,9,d010,d011 | two 8,d010,d011 | after 0,2,3,4,5,7,8,d010,d011 | ~one 9 | ~two 6 | ~one 6,1")
			continue
		}
		expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2, workflow.EntitySkipped: 10})
		expectSteps(t, s, id, "one 0,1 | ~one 0,1") // the second pack is not begun any more
	}
	// Two failures in one wave are one too many, whatever steps they are in.
	s, id := rolledOut(t, 8, `steps:
  - {label: all, rollout: {batches: [4], failureTolerance: 1}, workflow: {steps: [
      {label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device}]}}
`, failCalls("one EXECUTE d004", "two EXECUTE d006"))
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 4})
	expectSteps(t, s, id, "one 0,1,2,3 | two 0,1,2,3 | one 4,5,6,7 | two 5,6 | ~two 5,6 | ~one 4,5,6,7")
}

// A wave that fails ends the rollout: those before it stand, it is undone, those after it never
// begin, and nothing behind the rollout is executed.
func TestRollout_StopsAtAWaveThatFails(t *testing.T) {
	for _, config := range []string{"", "config: {executionStrategy: {parallel: true}}\n", "config: {onEntityFailure: leave}\n", "config: {failureTolerance: 1}\n"} {
		s, id := rolledOut(t, 9, config+`steps:
  - {label: check, functionBlock: p/pure:1, runOn: device}
  - {label: all, rollout: {batches: [3, 6], failureTolerance: 0}, workflow: {steps: [
      {label: one, functionBlock: p/again:1, runOn: device}, {label: note, functionBlock: p/once:1, runOn: global}, {label: two, functionBlock: p/again:1, runOn: device}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, failCalls("two EXECUTE d004"))
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 3, workflow.EntitySkipped: 3})
		if x.Outcome() != workflow.OutcomePartial || len(s.Locks()) > 0 || x.StepRuns[1].StoppedAt != 2 {
			t.Errorf("%s, locks %v, stopped at %d", x.Outcome(), s.Locks(), x.StepRuns[1].StoppedAt)
		}
		if len(x.Result.Named) != 1 || x.Result.Named[0].Entity != "device/d004" || x.Result.Named[0].Step != "two" {
			t.Errorf("%+v", x.Result.Named)
		}
		expectSteps(t, s, id, "check 0,1,2,3,4,5,6,7,8 | one 0,1,2 | note | two 0,1,2 | one 3,4,5 | note | two 3,4 | ~two 3,4 | ~note | ~one 3,4,5")
		if again, err := rerun(s, id, chosen(views.RerunUnfinished)); err != nil || len(s.Load(again).Input.Selector.IDs) != 6 {
			t.Errorf("what failed and what was skipped again: %v", err)
		}
	}
}

// What steps before the rollout have changed on entities whose turn never came is undone too:
// they did not get what they were prepared for.
func TestRollout_UndoesWhatWasPrepared(t *testing.T) {
	s, id := rolledOut(t, 4, `steps:
  - {label: prepare, functionBlock: p/again:1, runOn: device}
  - {label: all, rollout: {batches: [1, 2]}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}]}}
`, failCalls("one EXECUTE d001"))
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 3})
	expectSteps(t, s, id, "prepare 0,1,2,3 | one 0,1 | ~one 1 | ~prepare 1,2,3")
}

// With rollbackAll, a failed wave fails the execution, and everything is undone. A retry begins
// with the first wave, and keeps the members of the waves.
func TestRollout_RollsBackAll(t *testing.T) {
	mended := false
	s, id := rolledOut(t, 4, `steps:
  - {label: all, rollout: {batches: [1, 50%], onFailure: rollbackAll}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, failUntil("one", "d001", &mended))
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack || x.StoppedRollout() != nil {
		t.Errorf("%+v", x.Error)
	}
	expectSteps(t, s, id, "one 0,1 | ~one 1,0")
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{Reason: "mended"})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "one 0,1,2,3 | after 0,1,2,3")
}

func retry(s *harness.Harness, id string, req views.RetryRequest) {
	s.Helper()
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, req)
	})
}

// A failed wave that cannot be undone needs a person, and keeps the locks of the affected entities
// only. A retry continues with the failed wave, for them, and with no other wave.
func TestRollout_RetryGoesOnWithTheWaveThatFailed(t *testing.T) {
	mended := false
	s, id := rolledOut(t, 9, `steps:
  - {label: all, rollout: {`+sites+`, order: [lab, bsl], pause: 1h}, workflow: {steps: [
      {label: one, functionBlock: p/forever:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, failUntil("two", "d004", &mended))
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 4, workflow.EntitySkipped: 3})
	if x.Kept == nil || !x.Kept.Equal(workflow.NewPlaces(1, 3, 5, 9)) || len(s.Locks()) != 4 {
		t.Fatalf("it keeps %v", x.Kept)
	}
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{Reason: "mended"})
	settle(s)
	x = s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntitySkipped: 3})
	if x.Outcome() != workflow.OutcomePartial || x.StoppedRollout() != nil {
		t.Errorf("%s, %+v", x.Outcome(), x.StoppedRollout())
	}
	if slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Try == 2 && r.Label == "all_pause" }) {
		t.Error("it has paused for a wave of which it holds nothing")
	}
	expectSteps(t, s, id, "two 4 | after 0,2,4,8")
}

// A retry that takes all locks anew keeps the waves, whatever the entities and their places are by
// then; entities that were in no wave are executed with the last.
func TestRollout_RetryKeepsTheWaves(t *testing.T) {
	mended := false
	s := newHarness(t, 4)
	s.Publish("w", `config: {rollback: never}
acquire: [{type: device, groups: [all]}]
steps:
  - {label: all, rollout: {by: entity.name, order: [d003, d001], onFailure: rollbackAll}, workflow: {steps: [
      {label: one, functionBlock: p/again:1, runOn: device}, {label: check, functionBlock: p/pure:1, runOn: device, parameters: {r: "${one.result}"}}]}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "check" && c.Entity == "d001" && !mended {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: json.RawMessage(`"` + c.Entity + `"`)}
	}
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expectSteps(t, s, id, "one 3 | check 3 | one 1 | check 1")
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Unlock(ctx, harness.Caller, id, "later")
	})
	s.ImportDevices("c009")
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{Reason: "mended"})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.Outcome() != workflow.OutcomeSucceeded {
		t.Errorf("%s: %+v", x.Outcome(), x.Result)
	}
	expectSteps(t, s, id, "check 1 | one 0 | check 0 | one c009,2 | check c009,2")
}

// UNKNOWN is a doubt, and no tolerance is for it.
func TestRollout_ToleratesNoDoubt(t *testing.T) {
	for _, extra := range []string{"", ", continueOnError: true", ", failureTolerance: 100%"} {
		s, id := rolledOut(t, 4, `steps:
  - {label: all, rollout: {batches: [2], failureTolerance: 100%}, workflow: {steps: [{label: one, functionBlock: p/once:1, runOn: device`+extra+`}]}}
`, func(c harness.BlockCall) *harness.Outcome {
			return &harness.Outcome{Crash: c.Entity == "d001"}
		})
		settle(s)
		x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
		expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 1, workflow.EntityFailedSafe: 1, workflow.EntitySkipped: 2})
		expectSteps(t, s, id, "one 0,1 | ~one 0")
		if l := s.Locks(); len(l) != 1 || l[0].Entity.ID != "d001" {
			t.Errorf("%q: locks %+v", extra, l)
		}
	}
}

// What an undo of a stopped rollout could not undo, of entities or not, needs a person.
func TestRollout_UndoFails(t *testing.T) {
	for fails, kept := range map[string]int{"one ROLLBACK d003": 1, "note ROLLBACK": 0} {
		s, id := rolledOut(t, 6, `steps:
  - {label: all, rollout: {batches: [2, 4]}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: note, functionBlock: p/once:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: device}]}}
`, failCalls("two EXECUTE d002", fails))
		settle(s)
		x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
		if x.Outcome() != workflow.OutcomeFailedUnsafe || len(s.Locks()) != kept {
			t.Errorf("%s: %s, locks %v", fails, x.Outcome(), s.Locks())
		}
		expectSteps(t, s, id, "one 0,1 | note | two 0,1 | one 2,3 | note | two 2 | ~note | ~one 2,3")
	}
}

// A job without entity in the failed wave that cannot be undone leaves nothing to stop for: the
// execution fails as a whole.
func TestRollout_CannotStopAfterWhatCannotBeUndone(t *testing.T) {
	s, id := rolledOut(t, 4, `steps:
  - {label: all, rollout: {batches: [2]}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: note, functionBlock: p/forever:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: device}]}}
`, failCalls("two EXECUTE d002"))
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.StoppedRollout() != nil || x.Error == nil || x.Error.Step != "two" {
		t.Errorf("%+v", x.Error)
	}
}

// A step without entities that an earlier try has left in doubt is one that cannot be undone: a later failure in its wave
// is one of the execution, and a retry begins with the step that failed, not with one in which tolerated entities failed.
func TestRollout_CannotStopAfterADoubtOfAnEarlierTry(t *testing.T) {
	notes := 0
	s, id := rolledOut(t, 4, `steps:
  - {label: all, rollout: {batches: [2], failureTolerance: 1}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: note, functionBlock: p/once:1, runOn: global}]}}
`, func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "" {
			notes++
		}
		if c.Entity == "d000" || c.Entity == "" && notes == 2 {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return &harness.Outcome{Crash: c.Entity == "" && notes == 1}
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	again := func() *workflow.Execution {
		retry(s, id, views.RetryRequest{Reason: "again"})
		settle(s)
		return s.Load(id)
	}
	if x := again(); x.State != sm.ExecutionFailedUnsafe || x.StoppedRollout() != nil || x.Error == nil || x.Error.Step != "note" {
		t.Errorf("%s, stopped %+v: %+v", x.State, x.StoppedRollout(), x.Error)
	}
	before := len(s.CallsOf(id))
	if again(); !slices.Equal(s.CallsOf(id)[before:before+1], []string{"note EXECUTE"}) {
		t.Errorf("the third try calls %v", s.CallsOf(id)[before:])
	}
}

// Between two waves a rollout pauses. It keeps its locks, waits once after each wave, and not
// after the last one.
func TestRollout_Pauses(t *testing.T) {
	s, id := rolledOut(t, 3, `steps:
  - {label: all, rollout: {batches: [1, 2], pause: 10m}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}]}}
`, nil)
	for n, calls := range []string{"one 0", "one 0 | one 1"} {
		x := expectWait(t, s, id, workflow.WaitTimer, "all_pause", 10*time.Minute)
		expectSteps(t, s, id, strings.ReplaceAll(calls, " | one ", ","))
		if c := x.StepRuns[0]; c.Times != n+1 {
			t.Errorf("wave %d, want %d", c.Times, n+1)
		}
		s.RunFor(10 * time.Minute)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "one 0,1,2")
	if took := x.EndedAt.Sub(x.StartedAt); took < 20*time.Minute || took > 25*time.Minute {
		t.Errorf("it took %s", took)
	}
}

// People approve between two waves. A rejection stops the rollout; the wave before it stands.
func TestRollout_IsApproved(t *testing.T) {
	for onFailure, want := range map[string]struct {
		state sm.ExecutionState
		calls string
		count map[workflow.EntityOutcome]int
	}{
		"stop":        {sm.ExecutionCompletedAck, "one 0,1", map[workflow.EntityOutcome]int{workflow.EntitySkipped: 1}},
		"rollbackAll": {sm.ExecutionFailedSafeAck, "one 0,1 | ~one 1,0", map[workflow.EntityOutcome]int{}},
	} {
		s, id := rolledOut(t, 3, `steps:
  - {label: before, set: {x: 1}}
  - {label: all, rollout: {batches: [1, 2], onFailure: `+onFailure+`, approve: {title: "Go on after ${steps.before.status}?", by: [ops], need: 1, deadline: 24h}}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, nil)
		x := expectWait(t, s, id, workflow.WaitInput, "all_approval", 24*time.Hour)
		if x.Wait.Reason != "Go on after COMPLETED?" {
			t.Errorf("%+v", x.Wait)
		}
		if err := answerAs(s, person("eve"), id, `{"approved":true}`, ""); err == nil {
			t.Error("somebody else has approved")
		}
		if err := answerAs(s, person("ann", "ops"), id, `{"approved":true}`, ""); err != nil {
			t.Fatal(err)
		}
		s.Drain()
		expectWait(t, s, id, workflow.WaitInput, "all_approval", 24*time.Hour)
		if err := answerAs(s, person("ann", "ops"), id, `{"approved":false,"note":"too hot"}`, ""); err != nil {
			t.Fatal(err)
		}
		settle(s)
		x = s.ExpectState(id, want.state)
		expectSteps(t, s, id, want.calls)
		if v := executionView(t, s, id); onFailure == "stop" {
			if len(v.FailedSteps) != 1 || v.FailedSteps[0].Step != "all_approval" || v.FailedSteps[0].Visit != 2 || v.FailedSteps[0].Failure.Code != workflow.FailureRejected || v.FailedSteps[0].Because != views.LeftRollout {
				t.Errorf("failed steps %+v", v.FailedSteps)
			}
			again, err := rerun(s, id, chosen(views.RerunSkipped))
			if err != nil {
				t.Fatal(err)
			}
			if ids := s.Load(again).Input.Selector.IDs; !slices.Equal(ids, []string{"d002"}) {
				t.Errorf("skipped were %v", ids)
			}
		} else if len(v.FailedSteps) > 0 {
			t.Errorf("failed steps %+v", v.FailedSteps)
		}
		if expectCount(t, x, want.count); onFailure == "stop" && (x.Outcome() != workflow.OutcomePartial || x.StepRuns[1].StoppedAt != 3) {
			t.Errorf("%s, stopped at %d", x.Outcome(), x.StepRuns[1].StoppedAt)
		}
	}
}

// Cancelled between two waves, an execution undoes all of them, as it does anywhere.
func TestRollout_IsCancelledBetweenWaves(t *testing.T) {
	s, id := rolledOut(t, 3, `steps:
  - {label: all, rollout: {batches: [1, 2], pause: 10m}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}]}}
`, nil)
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Cancel(ctx, harness.Caller, id, views.CancelRequest{Reason: "enough"})
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionCancelledAck)
	expectSteps(t, s, id, "one 0 | ~one 0")
}

// In step mode an operator lets the execution enter each step of each wave, and then all that is
// left.
func TestRollout_StepMode(t *testing.T) {
	s, id := startWith(t, `steps:
  - {label: all, rollout: {batches: [1]}, workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device}
`, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	next := func(all bool) {
		t.Helper()
		x := s.ExpectState(id, sm.ExecutionWaiting)
		if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Sequence: x.Wait.Event, All: all}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
	}
	for n, want := range []string{"one", "two", "one"} {
		x := s.ExpectState(id, sm.ExecutionWaiting)
		if x.Wait.Kind != workflow.WaitStep || x.Wait.Step != want {
			t.Fatalf("%d: waits for %+v, want %s", n, x.Wait, want)
		}
		next(n == 2)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "one 0 | two 0 | one 1 | two 1 | after 0,1")
}

// Taken back to a rollout or to a step in its waves, an execution begins with the first wave, if
// it is forced to execute again what the waves have changed.
func TestRollout_Rewind(t *testing.T) {
	for _, to := range []string{"one", "all"} {
		s, id := rolledOut(t, 3, `steps:
  - {label: all, rollout: {batches: [1, 2], pause: 10m}, workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device}]}}
`, nil)
		expectWait(t, s, id, workflow.WaitTimer, "all_pause", 10*time.Minute)
		s.RunFor(10 * time.Minute)
		expectWait(t, s, id, workflow.WaitTimer, "all_pause", 10*time.Minute)
		if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: to}); !workflow.Is(err, workflow.CodeIllegalTransition) {
			t.Errorf("to %s: %v", to, err)
		}
		if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: to, Force: true}); err != nil {
			t.Fatal(err)
		}
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		expectSteps(t, s, id, "one 0 | two 0 | one 1 | two 1 | one 0 | two 0 | one 1 | two 1 | one 2 | two 2")
		if x.Outcome() != workflow.OutcomeSucceeded {
			t.Errorf("to %s: %s", to, x.Outcome())
		}
	}
}

// A rollout stops as it does without faults, whatever handler dies, and whatever call is lost or
// comes twice.
func TestRollout_StopSurvivesAFaultAtEveryCall(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", `steps: [{label: all, rollout: {batches: [1, 3], pause: 10m}, workflow: {steps: [
  {label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device}]}}]`)
	s.Script = failCalls("two EXECUTE d002")
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for n := 1; ; n++ {
			s.Reset(1)
			before := s.CallCount()
			s.Faults = faults.At(n, fault)
			id := s.Start("w", harness.DeviceIDs(4)...)
			settle(s)
			calls := s.CallCount() - before
			x := s.Load(id)
			unknown := 0 // jobs that nobody took over, because the wave had failed
			for i := range x.StepRuns {
				unknown += x.StepRuns[i].Counts.Unknown
			}
			want := map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2, workflow.EntitySkipped: 1}
			if unknown > 0 {
				want[workflow.EntityFailedSafe], want[workflow.EntityFailedUnsafe] = 1, 1
			}
			expectCount(t, x, want)
			if (x.State == sm.ExecutionCompletedAck) != (unknown == 0) || len(s.Locks()) != unknown || slices.Contains(s.CallsOf(id), "one EXECUTE d003") || t.Failed() {
				t.Fatalf("%s at call %d of %d: %s, %v", fault, n, calls, x.State, s.CallsOf(id))
			}
			if n >= calls {
				break
			}
		}
	}
}

// The reads and writes of a wave do not grow with the number of earlier waves, even if some
// entities have failed in each.
func TestRollout_CostGrowsLinearly(t *testing.T) {
	cost := map[int][3]float64{}
	for _, n := range []int{5, 15} {
		s := newHarness(t, 2*n)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" && c.Kind == workflow.JobExecute && strings.HasSuffix(c.Entity, "0") {
				return &harness.Outcome{FailCode: "NO"}
			}
			return &harness.Outcome{Result: []byte(`"r"`)}
		}
		var batches []string
		for i := range n {
			batches = append(batches, fmt.Sprint(2*i+2))
		}
		s.Publish("w", "config: {onEntityFailure: leave}\nsteps: [{label: all, rollout: {batches: ["+strings.Join(batches, ", ")+`], failureTolerance: 1}, workflow: {steps: [
  {label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device, parameters: {r: "${one.result}"}}]}}]`)
		before := s.Consumed()
		id := s.Start("w", harness.DeviceIDs(2*n)...)
		s.Drain()
		s.DrainWakeups()
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		used := s.Consumed()
		if len(x.StepRuns) != 2*n+1 {
			t.Fatalf("%d step runs", len(x.StepRuns))
		}
		cost[n] = [3]float64{used.ReadUnits["jobs"] - before.ReadUnits["jobs"], used.WriteUnits["jobs"] - before.WriteUnits["jobs"], float64(x.Version)}
	}
	t.Logf("5 waves: %v, 15 waves: %v (reads and writes of jobs, commits)", cost[5], cost[15])
	for i, name := range []string{"reads", "writes", "commits"} {
		if cost[5][i] == 0 || cost[15][i] > 3.3*cost[5][i] {
			t.Errorf("%s: 5 waves %v, 15 waves %v", name, cost[5][i], cost[15][i])
		}
	}
}

// A retry of the kept entities continues with the failed wave, although work done before the
// rollout has been undone for others.
func TestRollout_RetryDoesNotRepeatWhatStands(t *testing.T) {
	crashes := true
	s, id := rolledOut(t, 4, `steps:
  - {label: prepare, functionBlock: p/again:1, runOn: device}
  - {label: all, rollout: {batches: [1, 3]}, workflow: {steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]}}
`, func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Crash: crashes && c.Step == "one" && c.Entity == "d001"}
	})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 1, workflow.EntityFailedSafe: 2})
	crashes, s.BlockCalls = false, nil
	retry(s, id, views.RetryRequest{Reason: "looked at it"})
	settle(s)
	x = s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "one 1 | two 1")
	expectCount(t, x, map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2})
}

// Jobs that no worker claims end their wave, and those before it stand.
func TestRollout_StopsIfNobodyClaims(t *testing.T) {
	s := newHarness(t, 2)
	s.RegisterBlock(workflow.Block{Name: "nobody", Pool: "nobody", Reversible: true})
	s.Publish("w", `steps: [{label: all, rollout: {by: entity.id}, workflow: {steps: [
  {label: one, functionBlock: p/again:1, runOn: device}, {label: two, condition: entity.id == "d001", functionBlock: p/nobody:1, runOn: device}]}}]`)
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "one 0,1 | ~one 1")
	if c := x.StoppedRollout(); c == nil || c.StoppedAt != 2 {
		t.Errorf("%+v", c)
	}
}

// A rollout in an embedded definition is one like any other, as long as it is executed once.
func TestRollout_InAnEmbeddedDefinition(t *testing.T) {
	for around, state := range map[string]sm.ExecutionState{
		"{label: call, workflowReference: {workflow: p/inner}}":                                                                sm.ExecutionCompletedAck,
		"{label: each, loop: {over: '${[1, 2]}'}, workflow: {steps: [{label: call, workflowReference: {workflow: p/inner}}]}}": sm.ExecutionFailedSafeAck,
		"{label: call, workflowReference: {workflow: p/inner}, continueOnError: true}":                                         sm.ExecutionFailedSafeAck,
		"{label: outer, rollout: {batches: [1]}, workflow: {steps: [{label: call, workflowReference: {workflow: p/forks}}]}}":  sm.ExecutionFailedSafeAck,
	} {
		s := newHarness(t, 2)
		s.Publish("inner", "steps: [{label: all, rollout: {batches: [1]}, workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: device}]}}]\n")
		s.Publish("forks", "steps: [{label: fork, parallel: {branches: [{label: one, functionBlock: p/pure:1, runOn: device}]}}]\n")
		s.Publish("w", "steps:\n  - "+around+"\n")
		id := s.Start("w", harness.DeviceIDs(2)...)
		settle(s)
		x := s.ExpectState(id, state)
		if state == sm.ExecutionCompletedAck {
			expectSteps(t, s, id, "call.one 0,1")
		} else if x.Error.Code != "NOT_IMPLEMENTED" || len(s.BlockCalls) > 0 {
			t.Errorf("%s: %+v", around, x.Error)
		}
	}
}

// The steps view shows the wave of a step run, its size, and where a rollout has stopped. The plan
// shows the waves to expect, and what a failure in one leads to.
func TestRollout_IsShown(t *testing.T) {
	definition := `steps:
  - {label: all, rollout: {` + sites + `, order: [lab], failureTolerance: 50%}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}]}}
`
	s, id := rolledOut(t, 10, definition, failCalls("one EXECUTE d000", "one EXECUTE d002", "one EXECUTE d004"))
	settle(s)
	list, err := s.Query.Steps(t.Context(), harness.Caller, id, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, v := range list.Items {
		if v.Rollout == nil {
			t.Fatalf("%s has no wave", v.Step)
		}
		got += fmt.Sprintf("%s %d of %d, %d; ", v.Step, v.Rollout.Number, v.Rollout.Of, v.Rollout.Entities)
	}
	if want := "all 2 of 3, 4; one 1 of 3, 2; one 2 of 3, 4; one 2 of 3, 4; "; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	first := list.Items[0]
	if first.Rollout.StoppedAt == nil || *first.Rollout.StoppedAt != 2 || string(first.Value) != `{"waves":[{"name":"lab","entities":2},{"name":"bsl","entities":4},{"name":"zrh","entities":4}]}` {
		t.Errorf("%+v, %s", first.Rollout, first.Value)
	}
	p, err := s.Query.Plan(t.Context(), harness.Caller, harness.NewStartRequest("w", harness.DeviceIDs(10)...))
	if err != nil {
		t.Fatal(err)
	}
	all, one := p.Steps[0], p.Steps[1]
	if fmt.Sprint(all.Waves) != "[{lab 2} {bsl 4} {zrh 4}]" || one.Jobs != 10 || one.Tolerated != 1 || one.Reached != views.ReachedAlways || *one.OnFailure != views.FailureStops ||
		!strings.Contains(one.IfFails, `rollout "all" stops, the waves before stand: the wave is undone, PARTIAL: one`) {
		t.Errorf("%v, %+v, %s", all.Waves, one, one.IfFails)
	}
	s.Publish("unknown", "steps: [{label: check, functionBlock: p/pure:1, runOn: global}, "+strings.TrimPrefix(strings.Replace(strings.TrimSpace(definition), "? 'lab'", "&& check.result.x ? 'lab'", 1), "steps:\n  - ")+"]\n")
	if p, err = s.Query.Plan(t.Context(), harness.Caller, harness.NewStartRequest("unknown", harness.DeviceIDs(10)...)); err != nil || len(p.Steps[1].Waves) > 0 || !slices.Contains(p.Steps[1].Unknown, "waves") {
		t.Errorf("%v, %+v", err, p.Steps)
	}
}
