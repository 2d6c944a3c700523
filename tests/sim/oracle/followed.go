package oracle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawFollows is the law about definitions that choose, jump, loop and handle failures.
const lawFollows = "an execution goes where somebody goes who reads its definition"

// followed compares an execution, step by step, with the result of following its definition with
// what its blocks have returned so far.
type followed struct {
	*execution
	definition  *defgen.Flow
	branches    map[string]string // the branch of each step
	resumed     map[string]bool   // the steps whose wait an operator has ended
	over        bool              // it is not judged any more
	retries     retried
	ended       map[string]bool // the branches that were told to have ended well
	times       map[string]int  // how often each step was entered
	following   int             // the last try to follow
	timedOut    map[int]bool    // the step runs whose branches have timed out, by Seq
	engineSteps engineSteps
	who         map[int][]string // for whom a step run has jobs, by Seq

	tokens     map[int]string    // with which the block of a step run was called, by Seq
	wave       map[string]int    // the wave of a rollout in which an entity was executed first
	parameters map[string]string // with which the block of a step run was called first for an entity
}

// written compares the step runs of an execution, in the order in which they were entered, and how
// it ends.
func (f *followed) written(before, after *workflow.Execution) {
	rollsBack := triesRollback(before, after)
	if after.Try != before.Try && !rollsBack {
		f.forgetWaves(before, after)
	}
	if len(f.retries.begins) == 0 {
		f.retries.begins = []flowTry{{number: 1, devices: slices.Sorted(slices.Values(f.request.Devices))}}
	}
	if after.Try > max(1, before.Try) && !f.over && before.Version > 0 && !rollsBack {
		f.begin(before, after)
	}
	f.over = f.over || after.Cancellation != nil || after.Probe || after.Cause == workflow.CauseRestored || after.Cause == workflow.CauseInternal ||
		after.MinFencingToken != before.MinFencingToken && before.Version > 0
	if f.over {
		return
	}
	for _, e := range after.Events {
		f.endsBranch(before, e)
		if e.Actor != "" && sm.Event(e.Type) == sm.EventExecutionResumed {
			var data struct{ Step string }
			_ = json.Unmarshal(e.Data, &data)
			f.resumed[data.Step] = true
		}
	}
	f.checkTimeouts(before, after)
	run := f.follow(after)
	if f.over = run.GaveUp; f.over {
		return
	}
	for i := range run.Entered {
		if e := &run.Entered[i]; e.Entities != nil {
			if r := f.find(e.Label, e.Nth); r != nil {
				f.who[r.Seq] = e.Entities
			}
		}
	}
	f.followEngineSteps(run, before, after)
	entered, want := map[string][]string{}, map[string][]string{} // by branch
	for _, r := range f.runs(after, f.present().number) {
		entered[f.branches[r.Label]] = append(entered[f.branches[r.Label]], r.Label)
		f.checkWait(r)
		f.checkDelay(after, r)
	}
	f.checkConditions(before, after)
	for _, e := range run.Entered {
		want[f.branches[e.Label]] = append(want[f.branches[e.Label]], e.Label)
	}
	all := true
	for branch, got := range entered {
		if n := len(got); n > len(want[branch]) || !slices.Equal(got, want[branch][:n]) {
			f.Failf(lawFollows, "%s has entered %v in branch %q, want %v", after.ID, got, branch, want[branch])
			return
		}
	}
	for branch := range want {
		all = all && len(entered[branch]) == len(want[branch])
	}
	f.checkJobs(run)
	if after.State == before.State || !Terminal(after.State) || Terminal(before.State) {
		return
	}
	f.checkEnded(run, all)
}

// checkEnded judges the end of a try.
func (f *followed) checkEnded(run *FlowRun, all bool) {
	x := f.x
	reached := all && !run.Pending && run.Failed == nil
	completed := x.State == sm.ExecutionCompleted || x.State == sm.ExecutionCompletedAck
	judged := reached && (!completed || x.Error == nil) || x.State == sm.ExecutionFailedUnsafe && run.Failed != nil && x.Result != nil
	if judged {
		var unsafe bool
		if unsafe, judged = f.checkTold(run); judged && reached {
			f.checkUnsafeEnd(unsafe)
		}
	}
	if judged {
		f.ends++
	}
	switch {
	case completed:
		f.checkCompleted(run, all)
	case x.State != sm.ExecutionFailedUnsafe || !reached:
		f.checkFailed(run)
	}
}

// find returns the step run of a step, the nth time that it was entered, nil for none.
func (f *followed) find(label string, n int) *workflow.StepRun {
	for _, r := range f.runs(f.x, f.following) {
		if r.Label == label {
			if n--; n == 0 {
				return r
			}
		}
	}
	return nil
}

// follow follows the definition as far as its step runs have ended.
func (f *followed) follow(x *workflow.Execution) *FlowRun { return f.followTo(x, f.present().number) }

// followTo follows the definition up to the end of a try.
func (f *followed) followTo(x *workflow.Execution, try int) *FlowRun {
	f.following = try
	find := f.find
	run := &FlowRun{
		Begin: func(at int, r *FlowRun) { r.Devices = f.tryOf(&r.Entered[at], at).devices },
		Keeps: f.keeps, Parameters: f.request.Parameters,
		Outcome: func(e FlowEntry) FlowOutcome {
			if r := find(e.Label, e.Nth); r != nil {
				return f.outcomeOf(r)
			}
			return FlowOutcome{Pending: true}
		},
		Has: func(label string, n int, around FlowEntry) bool {
			if f.retries.hasKept(label, n, around) {
				return true
			}
			in := find(around.Label, around.Nth)
			for r := find(label, n); r != nil && r.In > 0; r = x.StepRunBySeq(r.In) {
				if r.In == in.Seq {
					return true
				}
			}
			return false
		},
		Late: f.isLate, LeftInDoubt: f.leftInDoubt,
		Cancelled: func(label string, n int) bool {
			r := find(label, n)
			return r != nil && r.Status == sm.StepCancelled
		},
		Closed: func(label string, n int) bool {
			r := find(label, n)
			return r != nil && (r.Closing || !r.Open() && r.Status != sm.StepCompleted)
		},
	}
	run.Follow(f.definition)
	return run
}

// outcomeOf returns how a step run has ended. Its jobs say whether it failed, and with which codes.
func (f *followed) outcomeOf(r *workflow.StepRun) (o FlowOutcome) {
	if r.Open() {
		return FlowOutcome{Pending: true}
	}
	if r.Status == sm.StepCancelled {
		return FlowOutcome{Stopped: true}
	}
	s := f.definition.Find(r.Label)
	switch {
	case s != nil && s.Callback && !f.asked(r, s):
		f.lost(r, s, &o)
		o.JobFailed = true
	case s != nil && s.Ask != nil:
		o, _ = f.waits.outcome(r)
		return o
	case s != nil && s.When != nil:
		return conditionOutcome(r)
	case s != nil && (s.Row != nil || s.Schedule != nil):
		return outcomeOfEngineStep(r)
	}
	if s != nil && s.Starts && r.Status != sm.StepCompleted {
		if o.Code = string(workflow.CauseChildFailed); r.Failure != nil {
			o.Code = r.Failure.Code
		}
	}
	if !r.HasJobs() {
		return o
	}
	f.lost(r, s, &o)
	codes := map[string]bool{}
	for index := range f.records[r.Seq] {
		if c, _ := f.latest(r.Seq, index); c.code != workflow.JobCodeOK {
			codes[c.failed] = true
		}
	}
	why := r.Failure
	if why == nil {
		why = r.Counts.Failure
	}
	again := slices.ContainsFunc(f.x.StepRuns, func(o workflow.StepRun) bool { return o.Forward() && o.Label == r.Label && o.Seq > r.Seq })
	if e := f.x.Error; e != nil && e.Step == r.Label && !again && r.Handled == 0 && (why == nil || codes[e.Code]) {
		why = e // its jobs may have failed with several codes; this one has ended the execution
	}
	failed := r.Status != sm.StepCompleted && r.Status != sm.StepSkipped
	o.Skipped = r.Status == sm.StepSkipped
	switch {
	case failed && why != nil:
		o.Code = why.Code
		if !codes[o.Code] && slices.Contains(defgen.FlowCodes, o.Code) {
			f.Failf(lawFollows, "step run %d of %s has failed with %s, but its jobs with %v", r.Seq, r.Label, o.Code, codes)
		}
	case failed:
		o.Code = string(r.Status)
	}
	return o
}

// asked reports whether a step run with a callback was ended by an answer, or the lack of one, and
// not by its job.
func (f *followed) asked(r *workflow.StepRun, s *defgen.FlowStep) bool {
	var o FlowOutcome
	if f.lost(r, s, &o); len(o.Lost) > 0 {
		return false
	}
	return r.Failure == nil || r.Failure.Code == workflow.FailureTimeout
}

// checkWait requires that a step that waits for a while does so.
func (f *followed) checkWait(r *workflow.StepRun) {
	s := f.definition.Find(r.Label)
	if r.Wait == nil || r.Wait.Kind != workflow.WaitTimer {
		return
	}
	if s != nil && !s.Until.IsZero() {
		f.checkUntil(r, s)
		return
	}
	if r.Open() || f.resumed[r.Label] || r.Status != sm.StepCompleted {
		return
	}
	long := f.definition.WaitOf(r.Label)
	if s != nil {
		long = max(long, s.Asks)
	}
	if took := r.EndedAt.Sub(r.EnteredAt); took < long-2*f.Skew-time.Millisecond {
		f.Failf(lawPause, "%s has waited %s at step %s, want %s", f.x.ID, took, r.Label, long)
	}
}

// checkDelay requires that a step of a branch with a delay is entered so long after what comes before it in
// its branch.
func (f *followed) checkDelay(x *workflow.Execution, r *workflow.StepRun) {
	s := f.definition.Find(r.Label)
	if s == nil || s.Delay == 0 || f.resumed[r.Label] || r.Jobs == 0 {
		return
	}
	before := slices.DeleteFunc(f.runs(x, f.present().number), func(o *workflow.StepRun) bool {
		return o.Seq >= r.Seq || f.branches[o.Label] != f.branches[r.Label]
	})
	if n := len(before); n > 0 && before[n-1].Label == r.Label && before[n-1].Wait != nil && s.OnResume == "" {
		return // its block is called again after the wait that it asked for
	}
	for _, o := range before {
		came, around := o.EnteredAt, f.definition.Find(o.Label)
		if !o.EndedAt.IsZero() && !o.EndedAt.After(r.EnteredAt) && (around == nil || !around.Surrounds(r.Label)) {
			came = o.EndedAt
		}
		if took := r.EnteredAt.Sub(came); took < s.Delay-2*f.Skew-time.Millisecond {
			f.Failf(lawPause, "%s enters step %s %s after step %s, want a delay of %s", f.x.ID, r.Label, took, o.Label, s.Delay)
		}
	}
}

func (f *followed) checkCompleted(run *FlowRun, all bool) {
	switch {
	case run.Pending || run.Failed != nil || !all:
		f.Failf(lawFollows, "%s has completed, want %s", f.x.ID, run)
	case f.x.Output != nil && f.x.Output.Stored == nil && string(f.x.Output.Inline) != "null": // null: it has no value
		var got, want any
		text, _ := json.Marshal(map[string]any{"vars": run.Vars})
		_ = json.Unmarshal(text, &want)
		if err := json.Unmarshal(f.x.Output.Inline, &got); err != nil || !reflect.DeepEqual(got, want) {
			f.Failf(lawFollows, "%s gives %s, want %s", f.x.ID, f.x.Output.Inline, text)
		}
	}
}

// checkFailed requires that an execution fails where its steps do. The lack of a worker for its
// jobs, the limit of step runs once it has so many, or an operator may end it anywhere.
func (f *followed) checkFailed(run *FlowRun) {
	x := f.x
	if x.Error == nil || len(x.StepRuns) == 0 {
		return
	}
	if s := f.definition.Find(x.Error.Step); x.Error.Code == workflow.FailureLimit && (s == nil || s.While == nil && !s.Starts) && len(x.StepRuns) < f.MaxStepRuns {
		f.Failf(lawFollows, "%s has failed with %s in %s: it has %d step runs, and may have %d", x.ID, x.Error.Code, x.Error.Step, len(x.StepRuns), f.MaxStepRuns)
	}
	if !f.follows(x.Error) {
		return
	}
	if run.Failed == nil || run.Failed.Step != x.Error.Step || run.Failed.Code != x.Error.Code {
		f.Failf(lawFollows, "%s has failed with %s in %s, want %s", x.ID, x.Error.Code, x.Error.Step, run)
	}
}

// follows reports whether a failure follows from what has happened so far.
func (f *followed) follows(why *workflow.Failure) bool {
	s := f.definition.Find(why.Step)
	if why.Code == workflow.FailureLimit { // otherwise the execution has too many step runs, those of all its tries
		return s != nil && s.While != nil
	}
	if s != nil && (s.Row != nil || s.Schedule != nil || len(s.Set) > 0) {
		return true
	}
	switch why.Code {
	case workflow.FailureNoRoute, workflow.FailureMergeConflict, workflow.FailureLoop, workflow.FailureAssertion, workflow.FailureInput, workflow.FailureUnknownStep:
		return true
	case workflow.FailureTimeout:
		return s != nil && (s.When != nil || s.Parallel != nil)
	}
	return slices.Contains(defgen.FlowCodes, why.Code)
}

// called compares the parameter of a call.
func (f *followed) called(r *workflow.StepRun, c Call) {
	if f.over || r == nil || c.Kind != workflow.JobExecute {
		return
	}
	nth := 0
	for _, o := range f.runs(f.x, f.present().number) {
		if o.Label == r.Label && o.Seq <= r.Seq {
			nth++
		}
	}
	parameters, _ := decode(c.Parameters).(map[string]any)
	run := f.follow(f.x)
	for _, e := range run.Entered {
		if e.Label != r.Label || e.Nth != nth {
			continue
		}
		f.checkTakesPart(&e, c)
		if s := f.definition.Find(r.Label); s != nil && s.Input != nil {
			f.checkInput(&e, c)
			continue
		}
		want := fmt.Sprint(e.Value)
		if _, index, _ := parseJob(c.Job); index < len(e.Items) {
			want = fmt.Sprint(e.Items[index])
		}
		if fmt.Sprint(parameters["v"]) != want {
			f.Failf(lawParameters, "job %s of step %s has the parameter %v, want %s", c.Job, r.Label, parameters["v"], want)
		}
	}
}

// calledAgain requires that a plan that is made again is the same: each call of a step run has the
// parameters of the first one for its entity. That includes calls that undo it, in any try.
func (f *followed) calledAgain(r *workflow.StepRun, c Call) {
	if f.waits.over || r == nil || c.Kind != workflow.JobExecute && c.Kind != workflow.JobRollback {
		return
	}
	of := r.Seq
	if c.Kind == workflow.JobRollback {
		of = r.Undoes
	}
	who := c.Entity
	if s := f.definition.Find(r.Label); s != nil && s.Each != nil {
		if c.Kind == workflow.JobRollback {
			return // only its number among the undone items says which item it is about
		}
		_, index, _ := parseJob(c.Job)
		who = fmt.Sprint(index)
	}
	parameters, _ := decode(c.Parameters).(map[string]any)
	if delete(parameters, "token"); c.Kind == workflow.JobExecute {
		f.calledBack(r, c)
	}
	key, got := fmt.Sprintf("%d %s", of, who), fmt.Sprint(parameters)
	if first, known := f.parameters[key]; known && first != got {
		f.Failf(lawParameters, "job %s of step %s has the parameters %s, and step run %d had %s at first", c.Job, r.Label, got, of, first)
	} else if !known {
		f.parameters[key] = got
	}
}

// calledBack requires that the block of a step with a callback gets a token of its step run, and
// the same one at every call.
func (f *followed) calledBack(r *workflow.StepRun, c Call) {
	var sent struct{ Token string }
	if s := f.definition.Find(r.Label); s == nil || !s.Callback || json.Unmarshal(c.Parameters, &sent) != nil {
		return
	}
	if first, known := f.tokens[r.Seq]; !strings.HasPrefix(sent.Token, "lst1.") || known && first != sent.Token {
		f.Failf(lawParameters, "job %s of step %s has the token %q, and had %q at first", c.Job, c.Step, sent.Token, first)
	}
	for seq, other := range f.tokens {
		if seq != r.Seq && other == sent.Token {
			f.Failf(lawParameters, "job %s of step %s has the token of step run %d", c.Job, c.Step, seq)
		}
	}
	f.tokens[r.Seq] = sent.Token
}

// HasRollouts reports whether the definition of an execution was drawn with rollouts and foreach.
func (o *Oracle) HasRollouts(id string) bool {
	x := o.executions[id]
	return x != nil && x.followed != nil && x.followed.definition.Rolls()
}

// HasChoices reports whether the definition of an execution has choices.
func (o *Oracle) HasChoices(id string) bool {
	x := o.executions[id]
	return x != nil && x.followed != nil
}
