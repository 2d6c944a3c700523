package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// setOf plays an execution that starts one of p/site for each of some names.
func setOf(t *testing.T, foreach, child string, more ...string) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("site", child)
	s.Publish("w", setYAML(foreach, more...))
	return s, s.Start("w")
}

func setYAML(foreach string, more ...string) string {
	return `steps:
  - label: sites
    foreach: {` + foreach + `}
    workflowReference: {workflow: p/site:1, mode: dispatch}
    parameters: {name: "${item}", number: "${index}"}
` + strings.Join(more, "")
}

// names is a list of items in a definition.
func names(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("'s%03d'", i)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

const siteYAML = `steps:
  - {label: work, functionBlock: p/pure:1, runOn: global, parameters: {name: "${parameters.name}", number: "${parameters.number}"}}
output: {name: "${parameters.name + '!'}"}
`

// members returns the children of a set, by lane; nil where there is none.
func members(s *harness.Harness, id string, seq int) []*workflow.Execution {
	s.Helper()
	x := s.Load(id)
	r := x.StepRunBySeq(seq)
	all := make([]*workflow.Execution, r.Jobs)
	states := s.States(harness.Caller.Tenant)
	for lane := range all {
		if child := r.ChildID(id, lane); states[child] != "" {
			all[lane] = s.Load(child)
		}
	}
	return all
}

// There is a child for each item, no more of them run at a time than the window allows, and their
// outputs are a list in the order of the items.
func TestChildren_OneForEachItem(t *testing.T) {
	s, id := setOf(t, `items: "${`+names(7)+`}", maxInFlight: 3`, siteYAML,
		`  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {all: "${sites.results.map(r, r.output.name)}", states: "${sites.results.map(r, r.state)}", first: "${sites.results[0].id}", same: "${sites.results.all(r, sites.children[r.id] == r) ? size(sites.children) : -1}"}}`+"\n")
	most := 0
	s.Faults = func(faults.Call) faults.Fault {
		working := 0
		for other, state := range s.States(harness.Caller.Tenant) {
			if other != id && !sm.Acknowledged(state) {
				working++
			}
		}
		most = max(most, working)
		return faults.None
	}
	s.Drain() // without a timer
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	r := x.StepRuns[0]
	if r.Jobs != 7 || r.Window != 3 || r.Counts.OK != 7 || most != 3 || x.Outcome() != workflow.OutcomeSucceeded || x.Needs() != workflow.SchemaVersion {
		t.Errorf("at most %d at work, outcome %s: %+v", most, x.Outcome(), r)
	}
	children := members(s, id, r.Seq)
	last := s.BlockCalls[len(s.BlockCalls)-1]
	want := fmt.Sprintf(`{"all":["s000!","s001!","s002!","s003!","s004!","s005!","s006!"],"first":"%s","same":7,"states":["COMPLETED_ACK","COMPLETED_ACK","COMPLETED_ACK","COMPLETED_ACK","COMPLETED_ACK","COMPLETED_ACK","COMPLETED_ACK"]}`, children[0].ID)
	if got := string(last.Parameters); last.Step != "after" || got != want {
		t.Errorf("%s", got)
	}
	for lane, c := range children {
		if c.Parent.Member.Lane != lane || c.Parent.Member.Item != lane || string(c.Input.Parameters) != fmt.Sprintf(`{"name":"s%03d","number":%d}`, lane, lane) {
			t.Errorf("child %d: %+v, %s", lane, c.Parent.Member, c.Input.Parameters)
		}
	}
	s.CheckInvariants()
}

// failNames fails the work of the children with some names.
func failNames(names ...string) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		for _, name := range names {
			if strings.Contains(string(c.Parameters), `"name":"`+name+`"`) && c.Step == "work" {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
		}
		return nil
	}
}

// Failures within the tolerance leave the rest as it is. Beyond the tolerance nothing more is
// started, and running children are cancelled, unless something handles the failure: then all are
// started.
func TestChildren_Tolerance(t *testing.T) {
	for name, c := range map[string]struct {
		foreach, more string
		fail          []string
		state         sm.ExecutionState
		outcome       workflow.Outcome
		counts        workflow.Counts
	}{
		"tolerated":       {`, failureTolerance: 2`, "", []string{"s001", "s004"}, sm.ExecutionCompletedAck, workflow.OutcomePartial, workflow.Counts{OK: 6, Failed: 2, Unsent: 2}},
		"a share":         {`, failureTolerance: 25%`, "", []string{"s001", "s004"}, sm.ExecutionCompletedAck, workflow.OutcomePartial, workflow.Counts{OK: 6, Failed: 2, Unsent: 2}},
		"too many":        {`, failureTolerance: 1`, "", []string{"s000", "s001"}, sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe, workflow.Counts{Failed: 2, Unsent: 2, NotExecuted: 6}},
		"none tolerated":  {"", "", []string{"s007"}, sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe, workflow.Counts{OK: 7, Failed: 1, Unsent: 1}},
		"continueOnError": {"", "    continueOnError: true\n", []string{"s000", "s001"}, sm.ExecutionCompletedAck, workflow.OutcomePartial, workflow.Counts{OK: 6, Failed: 2, Unsent: 2}},
	} {
		s := newHarness(t, 0)
		watchFamily(s)
		s.Publish("site", siteYAML)
		s.Publish("w", setYAML(`items: "${`+names(8)+`}", maxInFlight: 2`+c.foreach, c.more))
		s.Script = failNames(c.fail...)
		id := s.Start("w")
		settle(s)
		x := s.ExpectState(id, c.state)
		r := x.StepRuns[0]
		why := r.Counts.Failure
		if r.Counts.Failure = nil; r.Counts != c.counts || x.Outcome() != c.outcome {
			t.Errorf("%s: %s, %+v", name, x.Outcome(), r.Counts)
		}
		if why == nil || !strings.Contains(why.Message, "scripted failure") || why.Entity != "item "+c.fail[0][3:] {
			t.Errorf("%s: %+v", name, why)
		}
		if c.state == sm.ExecutionFailedSafeAck && (x.Cause != workflow.CauseChildFailed || x.Error.Step != "sites" || x.Error.Entity != why.Entity) {
			t.Errorf("%s: %s %+v", name, x.Cause, x.Error)
		}
		started := 0
		for _, child := range members(s, id, 1) {
			if child != nil {
				started++
			}
		}
		if want := 8 - c.counts.NotExecuted; started < want || c.counts.NotExecuted > 0 && started > want+2 {
			t.Errorf("%s: %d were started", name, started)
		}
		s.CheckInvariants()
	}
}

// A cancel reaches the children that exist, and those that were never started never are. The
// parent ends after the last of them, without its timer.
func TestChildren_Cancel(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Engine.MaxDescendants = 300
	s.Publish("site", waitingYAML)
	s.Publish("w", setYAML(`items: "${`+names(300)+`}", maxInFlight: 3`))
	id := s.Start("w")
	s.Drain()
	if n := len(s.States(harness.Caller.Tenant)); n != 4 {
		t.Fatalf("%d executions", n)
	}
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionCancelledAck)
	if r := x.StepRuns[0]; r.Counts.NotExecuted != 300 {
		t.Errorf("%+v", r.Counts)
	}
	for lane, c := range members(s, id, 1) {
		if (c != nil) != (lane < 3) || c != nil && (c.State != sm.ExecutionCancelledAck || c.Cancellation.Source != "parent" || x.EndedAt.Before(c.EndedAt)) {
			t.Errorf("child %d is %+v", lane, c)
		}
	}
}

// Children that the definition abandons continue. Those not started yet never are.
func TestChildren_LetGo(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("site", waitingYAML)
	s.Publish("w", strings.Replace(setYAML(`items: "${`+names(5)+`}", maxInFlight: 2`), "mode: dispatch", "mode: dispatch, onParentClose: abandon", 1))
	id := s.Start("w")
	s.Drain()
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if x := s.ExpectState(id, sm.ExecutionCancelledAck); !x.StepRuns[0].LetGo {
		t.Errorf("%+v", x.StepRuns[0])
	}
	settle(s)
	for lane, c := range members(s, id, 1) {
		if (c != nil) != (lane < 2) || c != nil && c.State != sm.ExecutionCompletedAck {
			t.Errorf("child %d is %+v", lane, c)
		}
	}
}

// A handler that stalls before it starts a child does no harm: the child finds its step closed.
func TestChildren_OfALateHandlerDoNotBegin(t *testing.T) {
	s, id := setOf(t, `items: "${`+names(2)+`}", maxInFlight: 1`, waitingYAML)
	s.Drain()
	lane := 1
	late := s.StartTask("late", func() {
		_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id, StepRunSeq: 1, Lane: &lane})
	})
	if !late.RunUntil("store.create") {
		t.Fatal("the late handler creates nothing")
	}
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(id, sm.ExecutionCancelledAck)
	late.Finish()
	settle(s)
	if c := members(s, id, 1)[1]; c == nil || c.State != sm.ExecutionCancelledAck || len(s.BlockCalls) > 0 {
		t.Errorf("%+v", c)
	}
}

// A retry starts children only for those items whose child did not complete, as long as the list is
// the same.
func TestChildren_Retry(t *testing.T) {
	for name, c := range map[string]struct {
		entities, list string
		want           []string
	}{
		"failed":       {"failed", "'s002'", []string{"work s001 1", "work s002 2"}},
		"all":          {"all", "'s002'", []string{"work s000 0", "work s001 1", "work s002 2"}},
		"another list": {"failed", "'s00' + string(size(steps.make.status) > 0 ? 9 : 0)", nil},
	} {
		s := newHarness(t, 0)
		watchFamily(s)
		s.Publish("site", siteYAML)
		broken := []string{"s001", "s002"}
		s.Publish("w", "steps:\n  - {label: make, functionBlock: p/pure:1, runOn: global}\n"+strings.TrimPrefix(setYAML(`items: "${['s000', 's001', make.result.name]}", failureTolerance: 100%`,
			"  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {all: \"${sites.results.map(r, has(r.output) ? r.output.name : r.state)}\"}}\n"), "steps:\n"))
		made := `{"name":"s002"}`
		s.Script = func(call harness.BlockCall) *harness.Outcome {
			switch {
			case call.Step == "make":
				return &harness.Outcome{Result: []byte(made)}
			case call.Step == "after" && len(broken) > 0:
				return &harness.Outcome{FailCode: "NOT_ALL"}
			}
			return failNames(broken...)(call)
		}
		id := s.Start("w")
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		broken = nil
		if name == "another list" {
			made = `{"name":"s003"}`
			c.want = []string{"work s000 0", "work s001 1", "work s003 2"}
		}
		before := len(s.BlockCalls)
		if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Entities: views.RetryEntities(c.entities), From: map[bool]string{true: "make", false: "sites"}[name == "another list"]}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		var calls []string
		for _, call := range s.BlockCalls[before:] {
			if call.Step == "work" {
				calls = append(calls, strings.NewReplacer(`{"name":"`, "work ", `","number":`, " ", "}", "").Replace(string(call.Parameters)))
			}
		}
		slices.Sort(calls)
		if !slices.Equal(calls, c.want) || x.Outcome() != workflow.OutcomeSucceeded {
			t.Errorf("%s: %q, outcome %s", name, calls, x.Outcome())
		}
		last := s.BlockCalls[len(s.BlockCalls)-1]
		if got, want := string(last.Parameters), `{"all":["s000!","s001!",`+strings.ReplaceAll(made[8:], "\"}", "!\"")+`]}`; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A child that failed within the tolerance is retried while others run: the parent waits for it,
// and uses its new outcome.
func TestChildren_AFailedOneIsTriedAgain(t *testing.T) {
	s, id := setOf(t, `items: "${`+names(2)+`}", failureTolerance: 1`, "steps:\n  - {label: work, functionBlock: p/pure:1, runOn: global, parameters: {name: \"${parameters.name}\"}}\n  - {label: pause, wait: {for: 10m}}\n")
	s.Script = failNames("s000")
	s.Drain()
	first := members(s, id, 1)[0]
	s.ExpectState(first.ID, sm.ExecutionFailedSafeAck)
	s.RunFor(5 * time.Minute)
	s.Script = nil
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, first.ID, views.RetryRequest{Entities: "all"}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(7 * time.Minute) // the other one has ended
	if x := s.ExpectState(id, sm.ExecutionWaiting); x.StepRuns[0].Closing {
		t.Error("the step is closed")
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if c := x.StepRuns[0].Counts; c.OK != 2 || x.Outcome() != workflow.OutcomeSucceeded {
		t.Errorf("%s, %+v", x.Outcome(), c)
	}
}

// The ancestors of children that ask people show that, with the first question, until no child
// asks.
func TestChildren_AskPeople(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("site", "steps: [{label: ask, wait: {approval: {title: \"may ${parameters.name}?\"}}}]\n")
	s.Publish("w", setYAML(`items: "${`+names(3)+`}"`))
	s.Publish("top", "steps: [{label: down, workflowReference: {workflow: p/w:1, mode: dispatch}}]\n")
	top := s.Start("top")
	s.Drain()
	id := childOf(s, top)
	children := members(s, id, 1)
	for n := range 3 {
		for _, up := range []string{top, id} {
			x := s.ExpectState(up, sm.ExecutionWaiting)
			if x.Wait.Kind != workflow.WaitChildInput || !strings.Contains(x.Wait.Reason, fmt.Sprintf("s%03d", n)) {
				t.Fatalf("%d answered: %+v", n, x.Wait)
			}
			if asks := x.StepRuns[0].Child.Asks; up == id && (len(asks) != 3-n || x.Wait.Child != children[n].ID) {
				t.Errorf("%d answered: %v ask, %+v", n, asks, x.Wait)
			}
		}
		if _, err := s.Engine.Answer(context.Background(), harness.Caller, children[n].ID, views.AnswerRequest{Step: "ask", Input: []byte(`{"approved":true}`)}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
	}
	settle(s)
	s.ExpectState(top, sm.ExecutionCompletedAck)
}

// Children that ask people at once are all known after one wake-up, as when a batch contains
// several messages of an execution.
func TestChildren_AskInOneBatch(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("site", "steps: [{label: ask, wait: {approval: {title: \"may ${parameters.name}?\"}}}]\n")
	s.Publish("w", setYAML(`items: "${`+names(3)+`}"`))
	id := s.Start("w")
	var batch *workflow.Wakeup
	for {
		m, ok := s.LifecycleQueue().Receive(time.Minute)
		if !ok {
			break
		}
		wakeup := m.Wakeup()
		switch {
		case wakeup.Execution == id && len(wakeup.Children) > 0 && batch != nil:
			batch.Merge(wakeup)
		case wakeup.Execution == id && len(wakeup.Children) > 0:
			batch = &wakeup
		default:
			if err := s.Engine.Advance(context.Background(), wakeup); err != nil {
				t.Fatal(err)
			}
		}
		s.LifecycleQueue().Delete(m)
	}
	if batch == nil || len(s.Load(id).StepRuns[0].Child.Asks) > 0 {
		t.Fatalf("before the wake-up: %+v", batch)
	}
	if err := s.Engine.Advance(context.Background(), *batch); err != nil {
		t.Fatal(err)
	}
	if asks := s.Load(id).StepRuns[0].Child.Asks; len(asks) != 3 {
		t.Errorf("%v ask after one wake-up for %v", asks, batch.Children)
	}
}

// One whose parameters do not match the schema of its definition is not started, and the others
// are. More than may be started are refused together.
func TestChildren_Refused(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("site", "parameters: {properties: {number: {maximum: 1}}}\n"+siteYAML)
	s.Publish("w", setYAML(`items: "${`+names(4)+`}", maxInFlight: 1, failureTolerance: 2`))
	id := s.Start("w")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	r := x.StepRuns[0]
	if r.Counts.OK != 2 || r.Counts.Failed != 2 || x.Outcome() != workflow.OutcomePartial || r.Counts.Failure.Entity != "item 2" || !strings.Contains(r.Counts.Failure.Message, "number") {
		t.Errorf("%s %+v, %+v", x.Outcome(), r.Counts, r.Counts.Failure)
	}
	s = newHarness(t, 0)
	s.Engine.MaxDescendants = 3
	s.Publish("site", siteYAML)
	s.Publish("w", setYAML(`items: "${`+names(4)+`}"`))
	id = s.Start("w")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLimit || len(s.BlockCalls) > 0 || len(s.States(harness.Caller.Tenant)) != 1 {
		t.Errorf("%s: %+v", x.Cause, x.Error)
	}
}

// Children that nobody waits for are all started, whatever becomes of them.
func TestChildren_FireAndForget(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("site", siteYAML)
	s.Publish("w", strings.Replace(setYAML(`items: "${`+names(5)+`}", maxInFlight: 2`,
		"  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: \"${size(sites.results.filter(r, r.id != ''))}\"}}\n"), "dispatch", "fireAndForget", 1))
	s.Script = failNames("s003")
	id := s.Start("w")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.StepRuns[0].Counts.OK != 5 || x.Outcome() != workflow.OutcomeSucceeded {
		t.Errorf("%+v", x.StepRuns[0].Counts)
	}
	for lane, c := range members(s, id, 1) {
		if c == nil || c.Awaited() || !sm.Acknowledged(c.State) {
			t.Errorf("child %d is %+v", lane, c)
		}
	}
}

// Children that are lost, fail, or are started twice: whichever call fails, each item has had its
// child once, the window is kept, and nothing of a child happens after its parent's step.
func TestChildren_SurviveFaultAtEveryCall(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("site", siteYAML)
	s.Publish("w", setYAML(`items: "${`+names(4)+`}", maxInFlight: 2, failureTolerance: 1`))
	for _, cancelled := range []bool{false, true} {
		play := func() {
			watchFamily(s)
			s.Script = failNames("s001")
			var id string
			for range 10 {
				req := harness.NewStartRequest("w")
				req.IdempotencyKey = "once"
				var err error
				if !faults.CatchCrash(func() {
					var x *workflow.Execution
					if x, _, err = s.Engine.Start(context.Background(), harness.Caller, req); err == nil {
						id = x.ID
					}
				}) && err == nil {
					break
				}
			}
			if cancelled {
				s.Deliver()
				for range 10 {
					var err error
					if !faults.CatchCrash(func() { _, err = s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)) }) && !workflow.Is(err, workflow.CodeUnavailable) {
						break
					}
				}
			}
			if !s.RunUntilIdle(4 * time.Hour) {
				s.Errorf("they do not end: %v", s.States(harness.Caller.Tenant))
			}
			s.Faults = nil
			s.CheckInvariants()
			x := s.Load(id)
			if cancelled {
				if x.State != sm.ExecutionCancelledAck {
					s.Errorf("%s", x.State)
				}
				return
			}
			counts := x.StepRuns[0].Counts
			if counts.Failure = nil; x.State != sm.ExecutionCompletedAck || counts != (workflow.Counts{OK: 3, Failed: 1, Unsent: 1}) || len(s.States(harness.Caller.Tenant)) != 5 {
				s.Errorf("%s %+v %v", x.State, x.StepRuns[0].Counts, s.States(harness.Caller.Tenant))
			}
		}
		s.Reset(1)
		before := s.CallCount()
		play()
		calls := s.CallCount() - before
		if t.Failed() || calls < 60 {
			t.Fatalf("%d calls without faults", calls)
		}
		for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
			for n := 1; n <= calls; n++ {
				if n%3 != 0 && fault != faults.CrashBefore && fault != faults.CrashAfter {
					continue
				}
				s.Reset(1)
				s.Faults = faults.At(n, fault)
				if play(); t.Failed() {
					t.Fatalf("cancelled %v: at call %d of %d: %s", cancelled, n, calls, fault)
				}
			}
		}
	}
}

// Whatever the order of stalling handlers, retries and cancels, and whatever fails: the parent ends
// after its children, with their outcomes, and the window is kept.
func TestChildren_UnderRandomFaults(t *testing.T) {
	ended := map[sm.ExecutionState]int{}
	for seed := range uint64(100) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		watchFamily(s)
		s.Publish("site", siteYAML)
		s.Publish("w", setYAML(`items: "${`+names(5)+`}", maxInFlight: 2, failureTolerance: 2`))
		random := rand.New(rand.NewPCG(seed, 29))
		s.Faults = faults.Randomly(random, 60, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if random.IntN(4) == 0 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		faults.CatchCrash(func() { _, _, _ = s.Engine.Start(context.Background(), harness.Caller, harness.NewStartRequest("w")) })
		var tasks []*faults.Task
		for n := range 40 {
			states := s.States(harness.Caller.Tenant)
			all := slices.Sorted(maps.Keys(states))
			if len(all) == 0 {
				continue
			}
			some := all[random.IntN(len(all))]
			switch random.IntN(24) {
			case 0:
				tasks = append(tasks, s.StartTask(fmt.Sprint(n), func() { _, _ = s.Engine.Cancel(context.Background(), harness.Caller, some, cancelRequest(true)) }))
			case 1, 2, 3:
				tasks = append(tasks, s.StartTask(fmt.Sprint(n), func() {
					_, _ = s.Engine.Retry(context.Background(), harness.Caller, some, views.RetryRequest{Entities: "all"})
				}))
			case 4, 5, 6:
				lane := random.IntN(5)
				tasks = append(tasks, s.StartTask(fmt.Sprint(n), func() {
					_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: some, Children: []int{lane}})
				}))
			default:
				faults.CatchCrash(func() { s.Deliver() })
			}
			if len(tasks) > 0 && random.IntN(3) == 0 {
				tasks[random.IntN(len(tasks))].RunUntil("store.commit")
			}
		}
		for _, task := range tasks {
			task.Finish()
		}
		s.Faults = nil
		s.RunUntilIdle(24 * time.Hour)
		s.CheckInvariants()
		for id, state := range s.States(harness.Caller.Tenant) {
			if x := s.Load(id); !sm.Acknowledged(state) {
				t.Errorf("%s is %s", id, state)
			} else if x.Parent == nil {
				ended[state]++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if len(ended) < 3 {
		t.Errorf("%v", ended)
	}
}

// With the parent, all that it has stored for its children goes.
func TestChildren_AreRemovedWithTheirParent(t *testing.T) {
	s := newHarness(t, 0)
	s.Engine.Policy.Retention = 24 * time.Hour
	s.Publish("site", siteYAML)
	s.Publish("w", setYAML(`items: "${`+names(3)+`}"`))
	id := s.Start("w")
	s.RunUntilIdle(time.Hour)
	key := workflow.StepRunKey{Tenant: harness.Caller.Tenant, Execution: id, Ordinal: 1, Seq: 1}
	if at := s.World.DiscardedAt(key, 0); !at.IsZero() {
		t.Fatalf("discarded at %s", at)
	}
	s.RunFor(48 * time.Hour)
	if s.World.DiscardedAt(key, 0).IsZero() {
		t.Error("the done set is kept")
	}
}

// Children that want what their parent has locked end at once, each in its own circle. The others
// are executed.
func TestChildren_DeadlockWithTheirParent(t *testing.T) {
	s := newHarness(t, 3)
	watchFamily(s)
	s.Publish("site", "steps: [{label: work, functionBlock: p/pure:1, runOn: device}]\n")
	s.Publish("w", `steps:
  - label: sites
    foreach: {items: "${['d000', 'd001', 'd002']}", failureTolerance: 2}
    workflowReference: {workflow: p/site:1, mode: dispatch, executeOnParameters: {type: device, ids: ["${item}"]}}
`)
	id := s.Start("w", "d000", "d001")
	s.RunFor(10 * time.Second)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if c := x.StepRuns[0].Counts; c.OK != 1 || c.Failed != 2 {
		t.Errorf("%+v", c)
	}
	for lane, c := range members(s, id, 1) {
		if (c.Cause == workflow.CauseLockDeadlock) != (lane < 2) || lane < 2 && c.Error.Entity != fmt.Sprintf("device/d%03d", lane) {
			t.Errorf("child %d: %s %+v", lane, c.Cause, c.Error)
		}
	}
}

// overtakenPacks calls first before lanes are added together.
type overtakenPacks struct {
	port.Packs
	first func()
}

func (p overtakenPacks) AddDoneLanes(ctx context.Context, stepRun workflow.StepRunKey, shard int, lanes []int) (workflow.DoneSet, error) {
	p.first()
	return p.Packs.AddDoneLanes(ctx, stepRun, shard, lanes)
}

// A step is closed. Its last children end before those that never existed are counted as over, so that
// none finds that it is the last one. The step ends by messages alone.
func TestChildren_EndsBesideTheClosingOfItsStep(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("hold", "steps: [{label: work, delay: 1h, functionBlock: p/pure:1, runOn: device}]\n")
	s.Publish("site", "steps: [{label: work, functionBlock: p/pure:1, runOn: device}]\n")
	s.Publish("w", `steps:
  - label: sites
    foreach: {items: "${['d000', 'd001', 'd002', 'd003']}", maxInFlight: 2}
    workflowReference: {workflow: p/site:1, mode: dispatch, executeOnParameters: {type: device, ids: ["${item}"]}}
`)
	s.Start("hold", "d001", "d002")
	var id string
	ended := false
	open := s.Engine.OpenPorts
	s.Engine.OpenPorts = func() port.Ports {
		p := open()
		p.Packs = overtakenPacks{p.Packs, func() {
			for _, c := range members(s, id, 1) {
				if c != nil && !sm.Terminal(c.State) {
					ended = true
					if err := s.Engine.Advance(s.Context(), workflow.Wakeup{Tenant: c.Tenant, Execution: c.ID, FromParent: true}); err != nil {
						t.Error(err)
					}
				}
			}
		}}
		return p
	}
	id = s.Start("w", "d000")  // its first child waits for it, which is a deadlock and closes the step
	s.RunFor(20 * time.Second) // less than a timer
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !ended || x.Cause != workflow.CauseChildFailed {
		t.Errorf("cause %s, the last child ended in between: %t", x.Cause, ended)
	}
}

// Each of two families has an entity that a child of the other wants, with other children beside
// it. One of the two children ends, by messages alone, and all others complete.
func TestChildren_DeadlockOfFamilies(t *testing.T) {
	for seed := range uint64(20) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(5)...)
		s.Publish("site", "steps: [{label: work, functionBlock: p/pure:1, runOn: device}]\n")
		s.Publish("w", `steps:
  - label: sites
    foreach: {items: "${parameters.wants}", failureTolerance: 1}
    workflowReference: {workflow: p/site:1, mode: dispatch, executeOnParameters: {type: device, ids: ["${item}"]}}
`)
		start := func(has string, wants string) string {
			req := harness.NewStartRequest("w", has)
			req.Parameters = []byte(`{"wants":` + wants + `}`)
			return s.StartWith(req)
		}
		one, two := start("d000", `["d002","d001"]`), start("d001", `["d003","d000","d004"]`)
		s.RunFor(50 * time.Second) // less than a timer
		deadlocks := 0
		for _, id := range []string{one, two} {
			s.ExpectState(id, sm.ExecutionCompletedAck)
			for _, c := range members(s, id, 1) {
				if c.Cause == workflow.CauseLockDeadlock {
					deadlocks++
				} else if c.State != sm.ExecutionCompletedAck {
					t.Errorf("%s is %s", c.ID, c.State)
				}
			}
		}
		if deadlocks != 1 {
			t.Fatalf("seed %d: %d deadlocks", seed, deadlocks)
		}
	}
}

// A child closes two circles at once, and the youngest is in only one of them. Both are broken by
// messages alone.
func TestChildren_DeadlocksWithACommonPart(t *testing.T) {
	for seed := range uint64(20) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(5)...)
		s.Publish("hold", "steps: [{label: work, delay: 10s, functionBlock: p/pure:1, runOn: device}]\n")
		s.Publish("site", "steps: [{label: work, functionBlock: p/pure:1, runOn: device}]\n")
		s.Publish("w", `steps:
  - label: sites
    foreach: {items: "${parameters.wants}", maxInFlight: 1, failureTolerance: 1}
    workflowReference: {workflow: p/site:1, mode: dispatch, executeOnParameters: {type: device, ids: ["${item}"]}}
`)
		s.Publish("both", `steps:
  - label: sites
    foreach: {items: "${parameters.wants}", failureTolerance: 2}
    workflowReference: {workflow: p/site:1, mode: dispatch, executeOnParameters: {type: device, ids: ["${item}"]}}
`)
		start := func(name, has, wants string) string {
			req := harness.NewStartRequest(name, has)
			req.Parameters = []byte(`{"wants":` + wants + `}`)
			return s.StartWith(req)
		}
		s.Start("hold", "d004") // the child that closes both circles is started when this has ended
		var all []string
		for _, family := range [][]string{{"w", "d000", `["d004","d001"]`}, {"w", "d002", `["d000"]`}, {"both", "d001", `["d000","d002"]`}} {
			all = append(all, start(family[0], family[1], family[2]))
			s.RunFor(time.Second) // the children of the last family are the youngest
		}
		s.RunFor(40 * time.Second) // less than a timer
		deadlocks := 0
		for _, id := range all {
			s.ExpectState(id, sm.ExecutionCompletedAck)
			for _, c := range members(s, id, 1) {
				if c.Cause == workflow.CauseLockDeadlock {
					deadlocks++
				}
			}
		}
		if deadlocks != 2 {
			t.Fatalf("seed %d: %d deadlocks", seed, deadlocks)
		}
	}
}

// A child of a list costs what an execution started by a request costs, plus one write because it
// exists before it begins, and one for its parent. The parent is written as often for a hundred
// children as for ten.
func TestChildren_Cost(t *testing.T) {
	total := func(c, before workflow.Cost) (writes, reads, requests float64) {
		for _, table := range []string{"executions", "jobs", "locks"} {
			writes += c.WriteUnits[table] - before.WriteUnits[table]
			reads += c.ReadUnits[table] - before.ReadUnits[table]
		}
		return writes, reads, c.QueueRequests - before.QueueRequests
	}
	s := newHarness(t, 0)
	s.Publish("site", siteYAML)
	before := s.Consumed()
	id := s.StartWith(views.StartRequest{Workflow: "p/site", Parameters: []byte(`{"name":"s","number":1}`)})
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
	alone, aloneReads, aloneRequests := total(s.Consumed(), before)
	var writes, reads, requests [2]float64
	var versions [2]int64
	for i, n := range []int{10, 110} {
		s := newHarness(t, 0)
		s.Engine.MaxDescendants = n
		s.Publish("site", siteYAML)
		s.Publish("w", setYAML(`items: "${`+names(n)+`}", maxInFlight: 20`))
		before := s.Consumed()
		id := s.Start("w")
		s.Drain()
		versions[i] = s.ExpectState(id, sm.ExecutionCompletedAck).Version
		writes[i], reads[i], requests[i] = total(s.Consumed(), before)
	}
	each := (writes[1] - writes[0]) / 100
	t.Logf("alone %.1f write units, %.1f read units, %.2f requests of queues; in a set %.1f, %.1f, %.2f", alone, aloneReads, aloneRequests, each, (reads[1]-reads[0])/100, (requests[1]-requests[0])/100)
	if each > alone+2.1 || versions[0] != versions[1] {
		t.Errorf("a child writes %.2f units, an execution of its own %.2f; the parent has the versions %v", each, alone, versions)
	}
}

// A retry starts none again that was started and that nobody waits for.
func TestChildren_RetryStartsForgottenOnesOnce(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("site", "parameters: {properties: {number: {maximum: 2}}}\n"+siteYAML)
	s.Publish("w", strings.Replace(setYAML(`items: "${`+names(4)+`}"`), "dispatch", "fireAndForget", 1))
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if n := len(s.BlockCalls); n != 3 {
		t.Fatalf("%d calls", n)
	}
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Entities: "failed"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	if n := len(s.BlockCalls); n != 3 {
		t.Errorf("%d calls after the retry", n)
	}
}

// Outputs that are too large together fail the step, and a retry executes nothing again.
func TestChildren_TooLargeOutputs(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("site", "steps:\n  - {label: work, functionBlock: p/pure:1, runOn: global}\noutput: {text: \"${work.result}\"}\n")
	s.Publish("w", setYAML(`items: "${`+names(8)+`}"`))
	s.Script = func(harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: []byte(`"` + strings.Repeat("x", 700_000) + `"`)}
	}
	id := s.Start("w")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimitValue || x.StepRuns[0].Counts.OK != 8 {
		t.Errorf("%+v, %+v", x.Error, x.StepRuns[0].Counts)
	}
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Entities: "failed"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	if s.ExpectState(id, sm.ExecutionCompletedAck); len(s.BlockCalls) != 8 {
		t.Errorf("%d calls", len(s.BlockCalls))
	}
}
