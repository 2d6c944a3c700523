package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// cleanDefinition is what the ends of the tests start. Its call says of which end it was told.
const cleanDefinition = "parameters: {type: object, properties: {told: {type: string}}, required: [told], additionalProperties: false}\n" +
	"steps:\n  - {label: sweep, functionBlock: p/pure:1, runOn: global, parameters: {of: '${parameters.told}'}}\n"

// onEndAll starts p/clean at every end.
const onEndAll = `onEnd:
  completed: {workflow: 'p/clean:1', parameters: {told: "${execution.id} ${execution.state} ${string(execution.try)} ${error == null}"}}
  failed: {workflow: 'p/clean:1', parameters: {told: "${execution.id} ${execution.state} ${string(execution.try)} ${error == null}"}}
  cancelled: {workflow: 'p/clean:1', parameters: {told: "${execution.id} ${execution.state} ${string(execution.try)} ${error == null}"}}
`

// followUpsOf lists the executions that events of an execution have started.
func followUpsOf(s *harness.Harness, id string) (all []*workflow.Execution) {
	s.Helper()
	for other := range s.States(harness.Caller.Tenant) {
		if x := s.Load(other); x.FollowUpOf != nil && x.FollowUpOf.Execution == id {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *workflow.Execution) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Whichever call fails, or a process crashes before or after it, every end of every try starts its
// workflow once, and the execution comes to rest as it does without.
func TestOnEnd_EachEndStartsItsWorkflowOnce(t *testing.T) {
	for name, c := range observedScenarios {
		if c.end == sm.ExecutionWaiting {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(25) {
				s := newObserved(t, seed, c.definition+onEndAll)
				s.Publish("clean", cleanDefinition)
				s.Faults = faults.Randomly(rand.New(rand.NewPCG(seed, 3)), 12, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
				s.QueueFaults.DuplicateOneIn = 2
				s.Script = c.script
				id := s.Start("w", harness.DeviceIDs(2)...)
				s.RunFor(time.Hour)
				if c.command != nil {
					faults.CatchCrash(func() { c.command(s, id) })
				}
				s.RunFor(6 * time.Hour)
				s.Faults = nil
				if s.Load(id).State == sm.ExecutionWaiting { // a fault has kept the command from it
					c.command(s, id)
				}
				s.RedriveDeliveries()
				s.RunFor(30 * time.Hour)
				expectOneFollowUpAnEnd(s, id)
				if x := s.Load(id); x.State != c.end && c.command == nil {
					s.Errorf("seed %d: %s", seed, x.State)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// The same with a process that dies at each call in turn: also after the workflow has been started,
// and before the message is known to be done.
func TestOnEnd_SurvivesACrashAtEachCall(t *testing.T) {
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply} {
		for n := 1; ; n++ {
			hit := false
			s := newObserved(t, 1, stepsYAML("one pure global")+onEndAll)
			s.Publish("clean", cleanDefinition)
			at := faults.At(n, fault)
			s.Faults = func(call faults.Call) faults.Fault {
				f := at(call)
				hit = hit || f != faults.None
				return f
			}
			id := s.Start("w")
			s.RunFor(2 * time.Hour)
			s.Faults = nil
			s.RunFor(2 * time.Hour)
			expectOneFollowUpAnEnd(s, id)
			if s.CheckInvariants(); t.Failed() {
				t.Fatalf("%v at call %d", fault, n)
			}
			if !hit {
				break
			}
		}
	}
}

// expectOneFollowUpAnEnd fails the test unless each end of an execution has started one execution,
// which was told of it.
func expectOneFollowUpAnEnd(s *harness.Harness, id string) {
	s.Helper()
	var ends []workflow.Event
	var want []string
	for _, e := range s.History(id) {
		if e.Layer == string(sm.LayerExecution) && e.From != e.To && workflow.EndKindOf(sm.ExecutionState(e.To)) != "" {
			ends = append(ends, e)
			want = append(want, workflow.FollowUpID(id, e.At, len(ends)))
		}
	}
	slices.Sort(want)
	var got []string
	for _, x := range followUpsOf(s, id) {
		got = append(got, x.ID)
		if x.State != sm.ExecutionCompletedAck || x.CreatedBy != workflow.OnEndActor || x.FollowUpOf.Depth != 1 {
			s.Errorf("%s is in %s, created by %s at depth %d", x.ID, x.State, x.CreatedBy, x.FollowUpOf.Depth)
		}
	}
	if len(ends) == 0 || !slices.Equal(got, want) {
		s.Errorf("started %v, want %v", got, want)
	}
	for i, e := range ends {
		told := fmt.Sprintf("%s %s %d ", id, e.To, i+1)
		if !slices.ContainsFunc(s.BlockCalls, func(c harness.BlockCall) bool {
			return c.Step == "sweep" && strings.Contains(string(c.Parameters), told)
		}) {
			s.Errorf("nobody was told %q", told)
		}
	}
}

// An end for which the definition says nothing starts nothing, and a probe never does.
func TestOnEnd_OnlyTheEndsThatAreNamed(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global")+"onEnd: {cancelled: {workflow: 'p/clean:1', parameters: {told: x}}}\n")
	s.Publish("clean", cleanDefinition)
	s.Publish("all", stepsYAML("one pure global")+onEndAll)
	completed := s.Start("w")
	req := harness.NewStartRequest("all")
	req.Mode = views.ModeProbe
	probed := s.StartWith(req)
	s.RunFor(time.Hour)
	for _, id := range []string{completed, probed} {
		if x, started := s.Load(id), followUpsOf(s, id); x.State != sm.ExecutionCompletedAck || len(started) != 0 {
			t.Errorf("%s is in %s and has started %d", x.Workflow, x.State, len(started))
		}
	}
}

// Both executions show the other one. The parameters read the output, the parameters and the key.
func TestOnEnd_IsShownInBothDirections(t *testing.T) {
	s := newObserved(t, 1, "parameters: {type: object, properties: {n: {type: integer}}}\n"+stepsYAML("one pure global")+
		"output: {sum: '${parameters.n + 1}'}\nonEnd: {completed: {workflow: 'p/clean:1', parameters: {told: \"${string(output.sum)} ${string(parameters.n)} ${execution.key} ${execution.workflow}\"}}}\n")
	s.Publish("clean", cleanDefinition)
	req := harness.NewStartRequest("w")
	req.Parameters, req.Key = []byte(`{"n":41}`), "k"
	id := s.StartWith(req)
	s.RunFor(time.Hour)
	service := query.New(s.Engine, 1)
	read := func(id string) views.ExecutionView {
		v, err := service.Execution(context.Background(), harness.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ended := read(id)
	if ended.FollowUp == nil || ended.FollowUpOf != nil {
		t.Fatalf("the ended one shows %v and %v", ended.FollowUp, ended.FollowUpOf)
	}
	if started := read(*ended.FollowUp); started.FollowUpOf == nil || *started.FollowUpOf != id || started.FollowUp != nil || !strings.Contains(string(started.Parameters), `"42 41 k p/w:1.0.0"`) {
		t.Errorf("the started one shows %v, %v, %s", started.FollowUpOf, started.FollowUp, started.Parameters)
	}
}

// Executions whose ends start each other stop at the depth at which children do. A subscription
// starts nothing at the end of what an end has started.
func TestOnEnd_StopsAtTheDepthOfChildren(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global")+"onEnd: {completed: {workflow: 'p/w:1'}}\n")
	s.Start("w")
	s.RunFor(time.Hour)
	if n := len(s.States(harness.Caller.Tenant)); n != 1+workflow.MaxDepth {
		t.Errorf("%d executions have started each other", n)
	}
	told := 0
	for id := range s.States(harness.Caller.Tenant) {
		v, err := query.New(s.Engine, 1).Execution(context.Background(), harness.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		if (v.FollowUp == nil) != (v.FollowUpFailure != nil) {
			t.Errorf("%s shows %v, %+v", id, v.FollowUp, v.FollowUpFailure)
		}
		if v.FollowUpFailure != nil && strings.Contains(v.FollowUpFailure.Error, "limit") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d say that the limit was reached", told)
	}
	s = newObserved(t, 1, "steps:\n  - {label: one, workflowReference: {workflow: 'p/next:1', mode: dispatch}}\n")
	s.Publish("next", stepsYAML("one pure global")+"onEnd: {completed: {workflow: 'p/w:1'}}\n")
	s.Start("w")
	s.RunFor(time.Hour)
	if n := len(s.States(harness.Caller.Tenant)); n != 1+workflow.MaxDepth {
		t.Errorf("%d executions have started each other, as children and at their ends", n)
	}
	s = newObserved(t, 1, stepsYAML("one pure global")+"onEnd: {completed: {workflow: 'p/clean:1', parameters: {told: x}}}\n")
	s.Publish("clean", cleanDefinition)
	s.Publish("of", "parameters: {type: object}\n"+stepsYAML("two pure global")+"onEnd: {completed: {workflow: 'p/w:1'}}\n")
	subscribe(s, workflow.Subscription{Name: "of", To: workflow.SubscriptionTarget{Workflow: "p/of:1"}, States: []string{"COMPLETED"}})
	s.Start("w")
	s.RunFor(time.Hour)
	// w starts clean, and through the subscription of, which starts w, which starts clean.
	if n := len(s.States(harness.Caller.Tenant)); n != 5 {
		t.Errorf("%d executions", n)
	}
}

// Ends that are published only after the execution has been tried again, however many events have
// followed, start what they would have started before.
func TestOnEnd_EndsOfEarlierTries(t *testing.T) {
	steps := []string{"one again global"}
	for i := range 60 {
		steps = append(steps, fmt.Sprintf("s%d pure global", i))
	}
	s := newObserved(t, 1, stepsYAML(steps...)+onEndAll)
	s.Publish("clean", cleanDefinition)
	failing := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" && c.Kind == workflow.JobExecute && failing {
			return &harness.Outcome{FailCode: "BAD", FailMessage: "not yet"}
		}
		return nil
	}
	s.Faults = faults.Every(faults.Throttled, "store.lease_observed")
	id := s.Start("w")
	s.RunFor(10 * time.Minute)
	failing = false
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(10 * time.Minute)
	if x := s.Load(id); x.State != sm.ExecutionCompletedAck || x.Sequence < 110 || len(followUpsOf(s, id)) > 0 {
		t.Fatalf("%s after %d events", x.State, x.Sequence)
	}
	s.Faults = nil
	s.RunFor(6 * time.Hour)
	expectOneFollowUpAnEnd(s, id)
}

// What cannot be started is tried again, and started once that is possible. Nobody else waits.
func TestOnEnd_IsTriedAgain(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global")+"onEnd: {completed: {workflow: 'p/later:1', parameters: {told: '${execution.id} ${execution.state} 1 '}}}\n")
	id := s.Start("w")
	s.RunFor(5 * time.Minute)
	if x := s.Load(id); x.State != sm.ExecutionCompletedAck || x.Announced != x.Sequence || !x.DueAt.IsZero() || len(followUpsOf(s, id)) != 0 {
		t.Fatalf("%s, %d of %d events, due at %s", x.State, x.Announced, x.Sequence, x.DueAt)
	}
	shown := func() views.ExecutionView {
		v, err := query.New(s.Engine, 1).Execution(context.Background(), harness.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := shown(); v.FollowUp != nil || v.FollowUpFailure == nil || v.FollowUpFailure.Attempts < 3 || !strings.Contains(v.FollowUpFailure.Error, "p/later") {
		t.Errorf("it shows %v, %+v", v.FollowUp, v.FollowUpFailure)
	}
	s.Publish("later", cleanDefinition)
	s.RunFor(24 * time.Hour)
	expectOneFollowUpAnEnd(s, id)
	if v := shown(); v.FollowUp == nil || v.FollowUpFailure != nil {
		t.Errorf("it shows %v, %+v", v.FollowUp, v.FollowUpFailure)
	}
}

// An end whose delivery comes again after a retry, and after the execution has gone back, starts nothing more.
func TestOnEnd_DeliveredAgainAfterARewind(t *testing.T) {
	s := newObserved(t, 1, "steps:\n  - {label: one, functionBlock: 'p/pure:1', runOn: global}\n  - {label: rest, wait: {for: 1h}}\n  - {label: two, functionBlock: 'p/pure:1', runOn: global}\n"+onEndAll)
	s.Publish("clean", cleanDefinition)
	failing := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && failing {
			return &harness.Outcome{FailCode: "BAD"}
		}
		return nil
	}
	s.Faults = faults.Every(faults.Throttled, "store.move_observed")
	id := s.Start("w")
	s.RunFor(2 * time.Hour)
	failing = false
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{From: "one"}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(10 * time.Minute)
	if _, err := s.Engine.Rewind(context.Background(), harness.Caller, id, views.RewindRequest{To: "one"}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(2 * time.Hour)
	s.Faults = nil
	s.RunFor(2 * time.Hour)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	var want, got []string
	for _, e := range s.History(id) {
		if e.Layer == string(sm.LayerExecution) && e.From != e.To && workflow.EndKindOf(sm.ExecutionState(e.To)) != "" {
			want = append(want, workflow.FollowUpID(id, e.At, map[bool]int{false: x.Try, true: 1}[len(want) == 0]))
		}
	}
	for _, f := range followUpsOf(s, id) {
		got = append(got, f.ID)
	}
	slices.Sort(want)
	if len(want) != 2 || x.Try != 3 || !slices.Equal(got, want) {
		t.Errorf("in try %d: started %v, want %v", x.Try, got, want)
	}
}

// What was tried for a day is shown as a dead letter, and no longer once it is redriven. Until then it is shown when
// it is tried again.
func TestOnEnd_ShowsWhatIsTriedAgain(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global")+"onEnd: {completed: {workflow: 'p/later:1', parameters: {told: '${execution.id} ${execution.state} 1 '}}}\n")
	id := s.Start("w")
	s.RunFor(5 * time.Minute)
	if f := followUpFailure(s, id); f == nil || f.DeadLetter || f.RetryAt == nil || !f.RetryAt.After(s.Now()) {
		t.Fatalf("it shows %+v", f)
	}
	s.RunFor(48 * time.Hour)
	if f := followUpFailure(s, id); f == nil || !f.DeadLetter || f.RetryAt != nil {
		t.Errorf("the dead letter is shown as %+v", f)
	}
	s.RedriveDeliveries()
	s.RunFor(time.Minute)
	if f := followUpFailure(s, id); f == nil || f.DeadLetter || f.RetryAt == nil {
		t.Errorf("what was redriven is shown as %+v", f)
	}
	s.Publish("later", cleanDefinition)
	s.RunFor(48 * time.Hour)
	expectOneFollowUpAnEnd(s, id)
	if f := followUpFailure(s, id); f != nil {
		t.Errorf("what was started is shown as %+v", f)
	}
}

// What an earlier end cannot start does not hide what the last one cannot.
func TestOnEnd_ShowsTheLastEndBesideEarlierOnes(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one again global")+"onEnd: {failed: {workflow: 'p/later:1'}}\n")
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "BAD"} }
	id := s.Start("w")
	keys := map[string]bool{}
	for {
		s.RunFor(time.Minute)
		x := s.Load(id)
		key := workflow.DeliveryKey(workflow.FollowUpID(id, x.EndedAt, x.Try))
		if keys[key] { // one of few keys, in which two ends would have the same place
			break
		}
		keys[key] = true
		if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		s.RunFor(time.Minute)
		if f := followUpFailure(s, id); f == nil {
			t.Fatalf("%d ends: the last one shows nothing", len(keys)+1)
		}
	}
}

func followUpFailure(s *harness.Harness, id string) *views.FollowUpFailure {
	s.Helper()
	v, err := query.New(s.Engine, 1).Execution(context.Background(), harness.Caller, id)
	if err != nil {
		s.Fatal(err)
	}
	return v.FollowUpFailure
}
