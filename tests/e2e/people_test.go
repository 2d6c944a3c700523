package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// as is a client of a person with roles.
func (c *fixture) as(actor string, roles ...string) *client.Client {
	c.t.Helper()
	p, err := client.New(client.Options{URL: c.url, Actor: actor, Roles: strings.Join(roles, ",")})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// answer answers a step as somebody; key is "" for a request of its own.
func (c *fixture) answer(p *client.Client, id, step, input, key string) error {
	_, err := p.Answer(c.t.Context(), id, views.AnswerRequest{Input: json.RawMessage(input), Step: step, IdempotencyKey: key})
	return err
}

// wantCode checks the code of an error and a part of its text; with the code "" there is none.
func (c *fixture) wantCode(err error, code workflow.Code, text string) {
	c.t.Helper()
	if workflow.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), text) {
		c.t.Errorf("%v, want %q %q", err, code, text)
	}
}

// countEvents counts the events of a type in the history of an execution.
func (c *fixture) countEvents(id, eventType string) (n int) {
	c.t.Helper()
	for _, e := range c.history(id) {
		if e.Type == eventType {
			n++
		}
	}
	return n
}

// answersCountOnce: R37. Of many people who answer at the same moment one decides, and each that comes again
// with the same key gets the same reply; the others are refused, also when they come again.
func answersCountOnce(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", "label: ask, wait: {input: {schema: {type: object, required: [n]}}}", `label: use, block: echo, runOn: global, parameters: {n: "${ask.result.n}"}`)
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	const people = 6
	input := func(i int) string { return fmt.Sprintf(`{"n":%d}`, i) }
	answers := make([]error, people)
	send := func() {
		var all sync.WaitGroup
		for i := range people {
			all.Go(func() {
				answers[i] = c.answer(c.as(fmt.Sprint("p", i)), id, "ask", input(i), fmt.Sprint("key-", i))
			})
		}
		all.Wait()
	}
	send()
	first := slices.Clone(answers)
	decided := slices.Index(first, nil)
	for i, err := range first {
		switch {
		case i == decided:
		case err == nil:
			c.t.Errorf("p%d and p%d have both decided", decided, i)
		default:
			c.wantCode(err, workflow.CodeIllegalTransition, "")
		}
	}
	if decided < 0 {
		c.t.Fatal("nobody has decided")
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	before := len(c.history(id))
	send()
	for i, err := range answers {
		if (err == nil) != (i == decided) {
			c.t.Errorf("p%d again: %v, before that %v", i, err, first[i])
		}
	}
	c.wantCode(c.answer(c.as(fmt.Sprint("p", decided)), id, "ask", `{"n":99}`, fmt.Sprint("key-", decided)), workflow.CodeIdempotencyMismatch, "")
	if got := c.resultOf(id, "use"); got != input(decided) {
		c.t.Errorf("the step got %s, and p%d has decided", got, decided)
	}
	if n := len(c.history(id)); n != before {
		c.t.Errorf("%d events, %d before the requests that came again", n, before)
	}
}

// deadlineIsStoredFirst: R41. Whoever answers after the deadline is refused because of that, whether or not the
// engine has looked at the clock before him; when he reads the refusal, what the deadline leads to is stored.
func deadlineIsStoredFirst(c *fixture) {
	c.registerEcho()
	ids, untils := map[string]string{}, map[string]time.Time{}
	ends := map[string]sm.ExecutionState{
		"fail":                  sm.ExecutionFailedSafeAck,
		"{next: late}":          sm.ExecutionCompletedAck,
		"{answer: {by: clock}}": sm.ExecutionCompletedAck,
	}
	for onTimeout := range ends {
		ref := c.publishExtra(strings.NewReplacer(" ", "", "{", "", "}", "", ":", "-").Replace(onTimeout), "",
			"label: ask, wait: {input: {deadline: 5s, onTimeout: "+onTimeout+"}}",
			`label: use, block: echo, runOn: global, parameters: {by: "${ask.result.by}"}, next: end`, "label: late, set: {x: 1}")
		ids[onTimeout] = c.startRef(ref, "{}")
		untils[onTimeout] = *c.waitForKind(ids[onTimeout], workflow.WaitInput).Waiting.Until
	}
	for onTimeout, want := range ends {
		id := ids[onTimeout]
		c.waitUntil(id, "the deadline passes", func(views.ExecutionView) bool { return time.Now().After(untils[onTimeout]) })
		for range 2 {
			c.wantCode(c.answer(c.Client, id, "ask", `{"by":"me"}`, "late"), workflow.CodeIllegalTransition, "deadline of step \"ask\" was")
			stored := false
			for e, err := range c.History(c.t.Context(), id) {
				if err != nil {
					c.t.Fatal(err)
				}
				stored = stored || e.Layer == "step" && e.Step == "ask" && e.From == string(sm.StepRunning)
			}
			if !stored {
				c.t.Errorf("%s: an answer was refused because of a deadline that is not stored", onTimeout)
			}
		}
		c.waitEnded(id, want)
		if got := c.resultOf(id, "use"); strings.Contains(onTimeout, "answer") != (got == `{"by":"clock"}`) {
			c.t.Errorf("%s: the next step got %s", onTimeout, got)
		}
	}
}

// cancelledAnywhere: R48. An execution that has not begun, one that is at work, one that waits for an answer and
// one that waits for another are cancelled: source, reason, time and who are stored, what they have started is
// cancelled, and no answer counts any more.
func cancelledAnywhere(c *fixture) {
	c.registerHangingBlock()
	ids := c.importEntities(c.entityType(), 2)
	c.publishWorkflow("", "label: ask, wait: {input: {}}", "label: after, set: {x: 1}")
	work := c.publishExtra("work", "", "label: stuck, block: stuck, runOn: KIND", "label: after, set: {x: 1}")
	parent := c.publishExtra("parent", "", "label: child, workflowReference: {workflow: WF, mode: dispatch}", "label: after, set: {x: 1}")
	held, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: work, ExecuteOnParameters: &workflow.Selector{IDs: ids[:1]}, Hold: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.waitForKind(held.ID, workflow.WaitHold)
	running := c.startRef(work, "{}", ids[1])
	c.waitUntil(running, "the block is at work", func(views.ExecutionView) bool { return strings.Contains(c.callsOf(running), "EXECUTE") })
	asking := c.startWorkflow("{}")
	c.waitForKind(asking, workflow.WaitInput)
	above := c.startRef(parent, "{}")
	child := c.waitForKind(above, workflow.WaitChildInput).Children[0]
	before := time.Now().Add(-time.Second)
	operator := c.as("olga")
	for what, id := range map[string]string{"held": held.ID, "running": running, "asking": asking, "a parent": above} {
		if _, err := operator.Cancel(c.t.Context(), id, views.CancelRequest{Reason: "wrong " + what}); err != nil {
			c.t.Fatal(err)
		}
		x := c.waitEnded(id, sm.ExecutionCancelledAck)
		if y := x.Cancellation; y == nil || y.Source != "user" || y.Reason != "wrong "+what || y.By != "olga" || y.At.Before(before) {
			c.t.Errorf("%s: %+v", what, y)
		}
		if got := c.reached(id); strings.Contains(got, "after") {
			c.t.Errorf("%s went on: %s", what, got)
		}
	}
	if y := c.waitEnded(child, sm.ExecutionCancelledAck).Cancellation; y == nil || y.Source != "parent" {
		c.t.Errorf("what was started: %+v", y)
	}
	for _, id := range []string{asking, child} {
		c.wantCode(c.answer(c.Client, id, "ask", "{}", ""), workflow.CodeIllegalTransition, "")
	}
	if got := c.callsOf(held.ID); got != "" {
		c.t.Errorf("of what never began: %s", got)
	}
}

// cancelRevokesTokens: R48. What was made to answer an execution is worth nothing once that is cancelled.
func cancelRevokesTokens(c *fixture) {
	c.publishWorkflow("", "label: ask, wait: {input: {}}")
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	made, err := c.CreateToken(c.t.Context(), id, views.TokenRequest{For: "ann@example.com"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.mustRequest(id, "cancel", "{}")
	c.waitEnded(id, sm.ExecutionCancelledAck)
	_, err = c.AnswerByToken(c.t.Context(), made.Token, views.TokenAnswer{Input: json.RawMessage("{}")})
	c.wantCode(err, workflow.CodeIllegalTransition, "CANCELLED")
	_, err = c.QuestionOfToken(c.t.Context(), made.Token)
	c.wantCode(err, workflow.CodeIllegalTransition, "")
}

// approvedByTwo: F18. An approval needs two people with the role, each once and not the one who started; the first
// who rejects decides.
func approvedByTwo(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", `label: cab, wait: {approval: {title: "May ${parameters.what} begin?", by: [cab], need: 2, who: {notStarter: true}, deadline: 1h, onReject: {next: denied}}}, outputKey: said`,
		`label: use, block: echo, runOn: global, parameters: {who: "${vars.said.answers.map(a, a.by)}", notes: "${vars.said.answers.map(a, has(a.note) ? a.note : '')}"}, next: end`,
		"label: denied, set: {x: 1}")
	ann, bob, olga := c.as("ann", "cab"), c.as("bob", "noc", "cab"), c.as("olga", "cab")
	start := func() string {
		c.t.Helper()
		x, _, err := olga.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, Parameters: json.RawMessage(`{"what":"it"}`)})
		if err != nil {
			c.t.Fatal(err)
		}
		c.waitForKind(x.ID, workflow.WaitInput)
		return x.ID
	}
	const yes, no = `{"approved":true,"note":"fine"}`, `{"approved":false}`
	id := start()
	c.wantCode(c.answer(olga, id, "cab", yes, ""), workflow.CodeForbidden, "may not answer")
	c.wantCode(c.answer(c.as("eve", "noc"), id, "cab", yes, ""), workflow.CodeForbidden, "may not answer")
	c.wantCode(c.answer(ann, id, "cab", `{"approved":"yes"}`, ""), workflow.CodeInvalid, "")
	c.wantCode(c.answer(ann, id, "cab", yes, ""), "", "")
	c.wantCode(c.answer(ann, id, "cab", yes, ""), workflow.CodeIllegalTransition, "already")
	for in, err := range c.Inputs(c.t.Context(), id, false) {
		if err != nil || in.Need != 2 || !in.Approval || deref(in.Title) != "May it begin?" || len(in.Answers) != 1 || in.Answers[0].By != "ann" {
			c.t.Errorf("after one approval: %+v, %v", in, err)
		}
	}
	c.waitForKind(id, workflow.WaitInput)
	c.wantCode(c.answer(bob, id, "cab", `{"approved":true}`, ""), "", "")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "use"); got != `{"notes":["fine",""],"who":["ann","bob"]}` {
		c.t.Errorf("the approval gave %s", got)
	}
	id = start()
	c.wantCode(c.answer(ann, id, "cab", yes, ""), "", "")
	c.wantCode(c.answer(bob, id, "cab", no, ""), "", "")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantReached(id, "cab:CASE_HANDLED denied")
	c.wantCode(c.answer(c.as("dan", "cab"), id, "cab", yes, ""), workflow.CodeIllegalTransition, "")
}

// escalated: F18. After some time the history says that people were reminded; after more, others may answer, and an
// execution is started once that pages them, for which nobody waits.
func escalated(c *fixture) {
	page := c.publishExtra("page", "", `label: paged, set: {title: "${parameters.title}"}`)
	c.publishWorkflow("", "label: ask, wait: {input: {who: {actors: [ann]}, remind: [500ms], escalate: [{after: 1s, roles: [duty], start: {workflow: '"+page+"', parameters: {title: '${parameters.title}'}}}, {after: 1h, actors: [zoe]}], deadline: 24h}}")
	x, _, err := c.as("olga").Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, Parameters: json.RawMessage(`{"title":"it waits"}`)})
	if err != nil {
		c.t.Fatal(err)
	}
	id := x.ID
	c.waitForKind(id, workflow.WaitInput)
	duty := c.as("bob", "duty")
	c.wantCode(c.answer(c.as("zoe"), id, "ask", "1", ""), workflow.CodeForbidden, "may not answer")
	var paged []views.ExecutionView
	eventually(c.t, "somebody is paged", func() bool {
		paged = nil
		for y, err := range c.Executions(c.t.Context(), views.ExecutionFilter{Workflow: workflow.Ref{Package: "test", Name: "w-" + c.name + "-page"}}) {
			if err != nil {
				c.t.Fatal(err)
			}
			paged = append(paged, y)
		}
		return len(paged) > 0
	})
	c.waitEnded(paged[0].ID, sm.ExecutionCompletedAck)
	if len(paged) != 1 || string(paged[0].Parameters) != `{"title":"it waits"}` {
		c.t.Errorf("%d executions were started, the first with %s", len(paged), paged[0].Parameters)
	}
	for in, err := range c.Inputs(c.t.Context(), id, false) {
		if err != nil || in.Level != 1 {
			c.t.Errorf("it was escalated %d times, %v", in.Level, err)
		}
	}
	c.wantCode(c.answer(c.as("zoe"), id, "ask", "1", ""), workflow.CodeForbidden, "may not answer")
	c.wantCode(c.answer(duty, id, "ask", "1", ""), "", "")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if reminded, raised := c.countEvents(id, "input.reminded"), c.countEvents(id, "input.escalated"); reminded != 1 || raised != 1 {
		c.t.Errorf("the history says %d times that people were reminded and %d times that it was escalated", reminded, raised)
	}
}

// inboxOf: F69. Each sees what he may answer and has not answered, of all executions; an answer takes it away.
func inboxOf(c *fixture) {
	role := "team-" + c.name
	c.publishWorkflow("", "label: ask, wait: {approval: {title: first, by: ["+role+"], need: 2}}", "label: own, wait: {input: {title: second, who: {actors: [ann-"+c.name+"]}}}")
	ann, bob, eve := c.as("ann-"+c.name, role), c.as("bob-"+c.name, role), c.as("eve-"+c.name)
	one, two := c.startWorkflow("{}"), c.startWorkflow("{}")
	c.waitForKind(one, workflow.WaitInput)
	c.waitForKind(two, workflow.WaitInput)
	inbox := func(p *client.Client, mine bool) string {
		c.t.Helper()
		var asked []string
		for in, err := range p.Inputs(c.t.Context(), "", mine) {
			if err != nil {
				c.t.Fatal(err)
			}
			if i := slices.Index([]string{one, two}, in.Execution); i >= 0 { // others wait on the same stack
				asked = append(asked, fmt.Sprintf("%d %s", i+1, deref(in.Title)))
			}
		}
		slices.Sort(asked)
		return strings.Join(asked, ", ")
	}
	want := func(ofAnn, ofBob, ofEve, all string) {
		c.t.Helper()
		for i, got := range []string{inbox(ann, true), inbox(bob, true), inbox(eve, true), inbox(eve, false)} {
			if want := []string{ofAnn, ofBob, ofEve, all}[i]; got != want {
				c.t.Errorf("inbox %d: %q, want %q", i, got, want)
			}
		}
	}
	want("1 first, 2 first", "1 first, 2 first", "", "1 first, 2 first")
	c.wantCode(c.answer(ann, one, "ask", `{"approved":true}`, ""), "", "")
	want("2 first", "1 first, 2 first", "", "1 first, 2 first")
	c.wantCode(c.answer(bob, one, "ask", `{"approved":true}`, ""), "", "")
	c.waitUntil(one, "asks the next question", func(x views.ExecutionView) bool { return x.Waiting != nil && deref(x.Waiting.Step) == "own" })
	want("1 second, 2 first", "2 first", "", "1 second, 2 first")
	c.mustRequest(two, "cancel", "{}")
	c.waitEnded(two, sm.ExecutionCancelledAck)
	want("1 second", "", "", "1 second")
	c.wantCode(c.answer(eve, one, "own", "1", ""), workflow.CodeForbidden, "may not answer")
	c.wantCode(c.answer(ann, one, "own", "1", ""), "", "")
	c.waitEnded(one, sm.ExecutionCompletedAck)
	want("", "", "", "")
}

// rolloutIsApproved: a rollout by an attribute asks after each wave but the last. One that is rejected stops there:
// what it has done stands, and the waves that follow never begin.
func rolloutIsApproved(c *fixture) {
	ids := c.importEntities(c.entityType(), 6)
	c.registerBlock("change", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.publishWorkflow("", "label: sites, rollout: {by: 'entity.n % 3 == 0 ? \"a\" : \"b\"', order: [b], approve: {title: Go on?, by: [lead], deadline: 24h}}, workflow: {steps: [{label: change, block: change, runOn: KIND}]}")
	good, bad := c.startWorkflow("{}", ids[:3]...), c.startWorkflow("{}", ids[3:]...)
	lead := c.as("lena", "lead")
	for id, approved := range map[string]bool{good: true, bad: false} {
		x := c.waitForKind(id, workflow.WaitInput)
		if deref(x.Waiting.Step) != "sites_approval" || deref(x.Waiting.Reason) != "Go on?" {
			c.t.Errorf("it waits for %+v", x.Waiting)
		}
		if got := strings.Count(c.callsOf(id), "EXECUTE"); got != 2 {
			c.t.Errorf("%d calls before anybody has approved", got)
		}
		c.wantCode(c.answer(c.as("eve"), id, "sites_approval", `{"approved":true}`, ""), workflow.CodeForbidden, "may not answer")
		c.wantCode(c.answer(lead, id, "sites_approval", fmt.Sprintf(`{"approved":%t}`, approved), ""), "", "")
	}
	c.waitEnded(good, sm.ExecutionCompletedAck)
	c.wantReached(good, "sites change sites_approval change")
	if got := c.wavesOf(good); got != "sites 2/2, change 1/2, sites_approval 1/2, change 2/2" {
		c.t.Errorf("its waves are %s", got)
	}
	x := c.waitEnded(bad, sm.ExecutionCompletedAck)
	if deref(x.Outcome) != workflow.OutcomePartial || !maps.Equal(x.EntityOutcomes, map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 2, workflow.EntitySkipped: 1}) {
		c.t.Errorf("%v with %v", deref(x.Outcome), x.EntityOutcomes)
	}
	if got := c.callsOf(bad); strings.Count(got, "EXECUTE") != 2 || strings.Contains(got, "ROLLBACK") || strings.Contains(got, ids[5]) {
		c.t.Errorf("it has made the calls %s", got)
	}
}
