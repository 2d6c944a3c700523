package lifecycle_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestDecide_Scripts runs executions from scripts. A script is a definition, a scope and, line by
// line, the facts that the decider requests. Its golden file has the same lines, each with the
// events and commits that follow.
func TestDecide_Scripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.script")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".script"), func(t *testing.T) {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := newScriptRunner(t).run(string(source))
			golden := strings.TrimSuffix(path, ".script") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the decisions have changed (-golden +now; rewrite with -update):\n%s", diff)
			}
		})
	}
}

var startTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var policy = lifecycle.Policy{
	PollInterval: time.Minute, LockTimeout: time.Hour, StartTimeout: 24 * time.Hour, MessageLifetime: 24 * time.Hour,
	PackSize: 10, MinPackedJobs: 101, MaxStepRuns: 1000,
}

// scriptRunner is one execution with the definition and the facts of its script.
type scriptRunner struct {
	t         *testing.T
	out       strings.Builder
	now       time.Time
	execution *workflow.Execution
	def       spec.Definition
	nodes     []spec.Node
	blocks    map[string]workflow.Block
	scope     workflow.Scope
	facts     lifecycle.Facts
	plans     map[string]*lifecycle.Plan
	outcomes  lifecycle.Outcomes
	onTimeout map[string]string // by label of a step that waits: where it goes on
	condition string            // whether the condition of a step that waits is true
	times     map[string]int    // of loops, by label
	check     *lifecycle.AnswerCheck
	unfit     map[string]bool // by id of a signal
	job       string          // what reports on the jobs of callbacks say

	told bool // the script has said what became of single entities

	outdated []lifecycle.OutdatedEntity // what is found for a new try before it takes its locks

	flowScript
}

func newScriptRunner(t *testing.T) *scriptRunner {
	return &scriptRunner{
		t: t, now: startTime, onTimeout: map[string]string{}, unfit: map[string]bool{}, blocks: map[string]workflow.Block{}, plans: map[string]*lifecycle.Plan{}, times: map[string]int{},
		scope: workflow.Scope{Counts: map[string]int{}},
		def:   spec.Definition{Package: "p", Name: "w", Version: "1.0.0"},
	}
}

// manyPlaces returns a set for which no state item has room.
func manyPlaces() workflow.Places {
	var places []int
	for i := range 100_000 {
		places = append(places, 2*i+1)
	}
	return workflow.NewPlaces(places...)
}

func (sr *scriptRunner) run(script string) string {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") || sr.readDefinition(line) {
			fmt.Fprintln(&sr.out, line)
			continue
		}
		fmt.Fprintln(&sr.out, "$ "+line)
		words := strings.Fields(line)
		sr.apply(words[0], words[1:], options(words[1:]))
		sr.resetFacts()
	}
	return sr.out.String()
}

// options returns the words of the form name=value; a word without = has an empty value.
func options(words []string) map[string]string {
	o := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	return o
}

func intOption(o map[string]string, key string) int {
	n, _ := strconv.Atoi(o[key])
	return n
}

func (sr *scriptRunner) apply(verb string, words []string, o map[string]string) {
	if sr.applyFlow(verb, words, o) {
		return
	}
	switch verb {
	case "step": // step LABEL [pure] [idempotent] [reversible] [undoHarmless] [continue] on=TYPE [in=LABEL] [retries=N] [repeat=N] [delay=D] [repeatDelay=D] [stepTimeout=D] [tolerance=N], or items=N [inFlight=N] in place of on=TYPE
		st := &spec.Step{Label: words[0], FunctionBlock: "p/" + words[0] + ":1", RunOn: o["on"]}
		if o["tolerance"] != "" {
			st.FailureTolerance = &spec.Tolerance{Count: intOption(o, "tolerance")}
		}
		if o["items"] != "" {
			st.RunOn, st.FailureTolerance = workflow.RunOnItem, nil
			st.Foreach = &spec.Foreach{Items: "list", MaxInFlight: intOption(o, "inFlight"), FailureTolerance: spec.Tolerance{Count: intOption(o, "tolerance")}}
			sr.times[words[0]] = intOption(o, "items")
		}
		if o["retries"] != "" {
			st.Retry = &workflow.Retry{MaxRetries: intOption(o, "retries")}
		}
		st.StepTimeout = sr.duration(o["stepTimeout"])
		sr.addNode(st, words, o)
		sr.blocks[st.FunctionBlock] = workflow.Block{
			Package: "p", Name: words[0], Version: "1.0.0", Pool: "default",
			Pure: slices.Contains(words, "pure"), Idempotent: slices.Contains(words, "idempotent"),
			Reversible: slices.Contains(words, "reversible"), UndoHarmless: slices.Contains(words, "undoHarmless"),
		}
	case "workflow": // workflow LABEL [continue] [in=LABEL] [repeat=N]
		sr.addNode(&spec.Step{Label: words[0], Workflow: &spec.EmbeddedWorkflow{}}, words, o)
	case "loop": // loop LABEL [times=N] [while] [max=N] [onMax=stop] [continue] [in=LABEL]: of N items or, with a condition, N times
		l := &spec.Loop{Max: intOption(o, "max"), OnMax: spec.OnMax(o["onMax"]), Over: "list"}
		if slices.Contains(words, "while") {
			l.Over, l.While = "", "more"
		}
		sr.times[words[0]] = intOption(o, "times")
		sr.addNode(&spec.Step{Label: words[0], Workflow: &spec.EmbeddedWorkflow{}, Loop: l}, words, o)
	case "rollout": // rollout LABEL waves=N,N [tolerance=N] [rollbackAll]: its waves have so many entities
		ro := &spec.Rollout{Batches: []spec.Share{{Count: 1}}}
		if slices.Contains(words, "rollbackAll") {
			ro.OnFailure = spec.OnWaveFailureRollbackAll
		}
		if o["tolerance"] != "" {
			ro.FailureTolerance = &spec.Tolerance{Count: intOption(o, "tolerance")}
		}
		p := &lifecycle.Plan{Jobs: 1, Value: &workflow.Value{Inline: []byte(`{}`)}}
		for size := range strings.SplitSeq(o["waves"], ",") {
			n, _ := strconv.Atoi(size)
			p.Waves, p.Items = append(p.Waves, n), p.Items+1
		}
		sr.plans[words[0]] = p
		sr.addNode(&spec.Step{Label: words[0], Workflow: &spec.EmbeddedWorkflow{}, Rollout: ro}, words, o)
	case "between": // between LABEL of=LABEL for=D | need=N: the step that is executed between two waves
		st := &spec.Step{Label: words[0], Wait: &spec.Wait{For: sr.duration(o["for"])}}
		if n := intOption(o, "need"); n > 0 {
			st.Wait = &spec.Wait{Approval: &spec.WaitApproval{Ask: spec.Ask{Deadline: sr.duration("24h")}, Need: n}}
			sr.plans[words[0]] = &lifecycle.Plan{Jobs: 1, Title: words[0] + "?", Question: &workflow.Value{Inline: []byte(`{}`)}}
		}
		o["in"] = o["of"]
		sr.addNode(st, words, o)
		between := len(sr.nodes) - 1
		around := sr.nodes[between].Parent
		sr.nodes[between].Group, sr.nodes[around].Between = -between, between
		(&spec.Program{Nodes: sr.nodes}).SetAfter(nil)
	case "reference": // reference LABEL mode=MODE [abandon] [timeout=D] [continue] [items=N] [inFlight=N] [tolerance=N]
		ref := &spec.Reference{Workflow: "p/child:1", Mode: workflow.ReferenceMode(o["mode"])}
		if slices.Contains(words, "abandon") {
			ref.OnParentClose = workflow.OnParentCloseAbandon
		}
		st := &spec.Step{Label: words[0], Reference: ref}
		if o["items"] != "" {
			st.Foreach = &spec.Foreach{Items: "list", MaxInFlight: intOption(o, "inFlight"), FailureTolerance: spec.Tolerance{Count: intOption(o, "tolerance")}}
			sr.times[words[0]] = intOption(o, "items")
		}
		sr.addNode(st, words, o)
	case "waitStep": // waitStep LABEL [for=D] [until] [when=CEL] [deadline=D] [next=LABEL] [continue] [in=LABEL]
		st := &spec.Step{Label: words[0], Wait: &spec.Wait{For: sr.duration(o["for"]), When: o["when"], Deadline: sr.duration(o["deadline"])}}
		sr.addNode(st, words, o)
		if to := o["next"]; to != "" {
			sr.onTimeout[words[0]] = to
		}
	case "ask": // ask LABEL deadline=D [need=N] [remind=D,D] [escalate=D,D] [next=LABEL] [default=approves|rejects]: an approval, if it says how many it needs
		asked := spec.Ask{Deadline: sr.duration(o["deadline"])}
		for _, d := range strings.FieldsFunc(o["remind"], func(r rune) bool { return r == ',' }) {
			asked.Remind = append(asked.Remind, sr.duration(d))
		}
		for _, d := range strings.FieldsFunc(o["escalate"], func(r rune) bool { return r == ',' }) {
			asked.Escalate = append(asked.Escalate, spec.Escalation{After: sr.duration(d)})
		}
		st := &spec.Step{Label: words[0], Wait: &spec.Wait{Input: &spec.WaitInput{Ask: asked}}}
		if n := intOption(o, "need"); n > 0 {
			st.Wait = &spec.Wait{Approval: &spec.WaitApproval{Ask: asked, Need: n}}
		}
		sr.addNode(st, words, o)
		sr.plans[words[0]] = &lifecycle.Plan{Jobs: 1, Title: words[0] + "?", Question: &workflow.Value{Inline: []byte(`{}`)}}
		if o["default"] != "" {
			sr.plans[words[0]].Default, sr.plans[words[0]].DefaultRejects = &workflow.Value{Inline: []byte(`{}`)}, o["default"] == "rejects"
		}
		if to := o["next"]; to != "" {
			sr.onTimeout[words[0]] = to
		}
	case "callback": // callback LABEL deadline=D [next=LABEL] [default] [retries=N] [pure]: a global step whose block is answered
		st := &spec.Step{Label: words[0], FunctionBlock: "p/" + words[0] + ":1", RunOn: workflow.RunOnGlobal, Callback: &spec.WaitInput{Ask: spec.Ask{Deadline: sr.duration(o["deadline"])}}}
		sr.addNode(st, words, o)
		sr.blocks[st.FunctionBlock] = workflow.Block{Package: "p", Name: words[0], Version: "1.0.0", Pool: "default", Pure: slices.Contains(words, "pure")}
		sr.plans[words[0]] = &lifecycle.Plan{Jobs: 1, Question: &workflow.Value{Inline: []byte(`{}`)}}
		if slices.Contains(words, "default") {
			sr.plans[words[0]].Default = &workflow.Value{Inline: []byte(`{}`)}
		}
		if to := o["next"]; to != "" {
			sr.onTimeout[words[0]] = to
		}
	case "job": // job works|ends|fails: what the reports on the jobs of callbacks say from now on
		sr.job = words[0]
	case "awaits": // awaits NAME [deadline=D] [next=LABEL]: a step of that label that waits for the signal
		sr.addNode(&spec.Step{Label: words[0], Wait: &spec.Wait{Signal: &spec.WaitSignal{Name: words[0], Deadline: sr.duration(o["deadline"])}}}, words, o)
		if to := o["next"]; to != "" {
			sr.onTimeout[words[0]] = to
		}
	case "signal": // signal NAME by=WHO [unfit] [quietly]
		x := sr.execution.Clone()
		x.SignalOrder++
		s := workflow.Signal{ID: fmt.Sprintf("s%d", x.SignalOrder), Name: words[0], By: o["by"], At: sr.now, Order: x.SignalOrder}
		x.Signals = append(x.Signals, s)
		sr.execution = x
		sr.unfit[s.ID] = slices.Contains(words, "unfit")
		if !slices.Contains(words, "quietly") {
			sr.decide()
		}
	case "answer": // answer WHO key=KEY [digest=TEXT] [seq=N] [rejects] [problem=TEXT] [generation=N] [by=MAKER] [expired]: to the last step run, unless seq names one
		a := &lifecycle.Answer{StepRunSeq: sr.execution.StepRunSeq, Key: workflow.AnswerKey(o["key"], words[0]), Digest: o["digest"]}
		if n := intOption(o, "seq"); n > 0 {
			a.StepRunSeq, a.Named = n, true
		}
		if a.ByToken = o["generation"] != ""; a.ByToken { // else by a command
			a.Generation, a.TokenBy = int64(intOption(o, "generation")), o["by"]
		}
		if slices.Contains(words, "expired") {
			a.ExpiresAt = sr.now
		}
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandAnswer, Actor: words[0], Answer: a}
		sr.check = &lifecycle.AnswerCheck{StepRunSeq: a.StepRunSeq, Rejects: slices.Contains(words, "rejects"), Value: &workflow.Value{Inline: []byte(`{}`)}}
		if o["problem"] != "" {
			sr.check.Problem = workflow.Errorf(workflow.CodeInvalid, "%s", o["problem"])
		}
		sr.decide()
	case "issue": // issue WHO for=NAME [problem=TEXT]: a token for the last step run
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandIssueToken, Actor: words[0], Tokens: &lifecycle.Tokens{StepRunSeq: sr.execution.StepRunSeq, For: o["for"]}}
		sr.check = &lifecycle.AnswerCheck{StepRunSeq: sr.execution.StepRunSeq}
		if o["problem"] != "" {
			sr.check.Problem = workflow.Errorf(workflow.CodeForbidden, "%s", o["problem"])
		}
		sr.decide()
	case "revoke": // revoke WHO: the tokens of the last step run
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandRevoke, Actor: words[0], Tokens: &lifecycle.Tokens{StepRunSeq: sr.execution.StepRunSeq}}
		sr.decide()
	case "escalated": // what the committed levels start has been started
		sr.facts.Escalated = map[int]int{}
		for _, r := range sr.execution.StepRuns {
			if r.Wait != nil {
				sr.facts.Escalated[r.Seq] = r.Wait.Level
			}
		}
		sr.decide()
	case "nobody": // nobody looks for DURATION
		sr.now = sr.now.Add(sr.duration(words[2]).Std())
	case "config":
		sr.def.Config.MaxInFlight = intOption(o, "maxInFlight")
		sr.def.Config.FailureTolerance = &spec.Tolerance{Count: intOption(o, "tolerance")}
		sr.def.Config.OnLocked = spec.OnLocked(o["onLocked"])
		sr.def.Config.LockMode = workflow.LockMode(o["lockMode"])
		notEmpty := slices.Contains(words, "assertNotEmpty")
		sr.def.AssertNotEmpty = &notEmpty
		sr.def.Config.Rollback = workflow.RollbackMode(o["rollback"])
		sr.def.Config.RollbackContinue = slices.Contains(words, "rollbackContinue")
		sr.def.Config.Parallel = slices.Contains(words, "parallel")
		sr.def.Config.Timeout = sr.duration(o["timeout"])
		sr.def.Config.Limits = workflow.RunLimits{Steps: intOption(o, "limitSteps"), Wall: sr.duration(o["wall"])}
		sr.def.Config.StartWhen, sr.def.Config.NotBefore = o["startWhen"], o["notBefore"]
		sr.def.Config.StartDeadline = sr.duration(o["startDeadline"])
		if text := o["rate"]; text != "" {
			limit, err := workflow.ParseRate(text)
			if err != nil {
				sr.t.Fatal(err)
			}
			sr.def.Config.Rate = &spec.StartRate{Limit: limit}
		}
	case "scope": // scope TYPE=N
		for k := range o {
			sr.scope.Counts[k] = intOption(o, k)
		}
	case "plan": // plan LABEL [iteration=N] jobs=N skipped=N unmet=N problem=TEXT [code=CODE]
		p := &lifecycle.Plan{Jobs: intOption(o, "jobs"), Skipped: intOption(o, "skipped"), Unmet: intOption(o, "unmet")}
		p.Entities = p.Jobs + p.Skipped + p.Unmet
		if p.Unmet > 0 {
			p.UnmetFailure = &workflow.Failure{Code: workflow.FailureAssertion, Message: "assertion is not true", Step: words[0], Entity: "device/1"}
		}
		if o["problem"] != "" {
			p.Cause, p.Problem = workflow.CauseAssertion, &workflow.Failure{Code: workflow.FailureAssertion, Message: o["problem"], Step: words[0]}
			if o["code"] != "" {
				p.Cause, p.Problem.Code = workflow.CauseStepFailed, o["code"]
			}
		}
		sr.plans[words[0]+o["iteration"]] = p
	case "key": // key mine | key held|undecided by=EXECUTION: what the execution finds out about its key
		sr.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyStatus(words[0]), Owner: o["by"]}
		sr.decide()
	case "parent": // parent open|closed|letGo: what the execution reads of its parent
		sr.facts.Parent = &lifecycle.Parent{Status: lifecycle.ParentStatus(words[0])}
		sr.decide()
	case "told": // told open|closed|letGo: the same, because the parent has sent a message
		sr.facts.FromParent = true
		sr.facts.Parent = &lifecycle.Parent{Status: lifecycle.ParentStatus(words[0]), Rollback: workflow.RollbackNever}
		sr.decide()
	case "start": // start [parent=EXECUTION] [waits] [probe] [key=KEY] [hold] [stepping]
		sr.execution = lifecycle.NewExecution(workflow.Execution{
			Tenant: "t", ID: "x", Workflow: sr.def.Ref(), CreatedBy: "ann", Probe: slices.Contains(words, "probe"), Key: o["key"],
			Hold: slices.Contains(words, "hold"), Stepping: slices.Contains(words, "stepping"),
		}, sr.now)
		if by := o["parent"]; by != "" {
			sr.execution.Parent = &workflow.Parent{Execution: by, Root: by, Depth: 1, Waits: slices.Contains(words, "waits")}
		}
		sr.facts.Resolution = &lifecycle.Resolution{
			Program: &spec.Program{Config: sr.def.Config, Nodes: sr.nodes, AssertNotEmpty: sr.def.AssertNotEmpty != nil && *sr.def.AssertNotEmpty}, Blocks: sr.blocks, Workflows: map[string]string{"p/child:1": "1.0.0"},
		}
		if p := sr.compile(); p != nil {
			sr.facts.Resolution.Program, sr.nodes = p, p.Nodes
		}
		for label, to := range sr.onTimeout {
			p := sr.facts.Resolution.Program
			n := &p.Nodes[p.IndexOf(label)]
			n.OnTimeout = &spec.Target{Node: p.IndexOf(to), In: n.Parent}
		}
		sr.facts.Discovery = &lifecycle.Discovery{Scope: sr.scope, AcquireIndex: -1}
		if why := o["unresolved"]; why != "" {
			sr.facts.Resolution.Problem = &workflow.Failure{Code: "BLOCK_NOT_FOUND", Message: why}
		}
		if why := o["undiscovered"]; why != "" {
			sr.facts.Discovery.Problem = &workflow.Failure{Code: "EMPTY", Message: why}
		}
		sr.decide()
	case "discovery": // discovery [problem=TEXT]: what is found of the entities from now on
		sr.facts.Discovery.Problem = nil
		if why := o["problem"]; why != "" {
			sr.facts.Discovery.Problem = &workflow.Failure{Code: "EMPTY", Message: why}
		}
	case "ready": // ready true|false [in=DURATION] [place=DURATION] [why=TEXT] [problem=TEXT] [code=CODE]
		f := &lifecycle.Readiness{Ready: words[0] == "true", Condition: sr.def.Config.StartWhen, Reason: o["why"]}
		if o["in"] != "" {
			f.NotBefore = sr.now.Add(sr.duration(o["in"]).Std())
		}
		if o["place"] != "" {
			f.RateAt = sr.now.Add(sr.duration(o["place"]).Std())
		}
		if o["problem"] != "" {
			f.Problem = &workflow.Failure{Code: "invalid", Message: o["problem"]}
			if o["code"] != "" {
				f.Problem.Code = o["code"]
			}
		}
		sr.facts.Readiness = f
		sr.decide()
	case "condition": // condition true|false: of the steps that wait, from now on
		sr.condition = words[0]
		if sr.execution != nil {
			sr.decide()
		}
	case "granted": // granted [dropped=N by=EXECUTION] [outdated=LABEL by=EXECUTION [undo]]
		answer := &lifecycle.LockResult{Epoch: sr.execution.Epoch, Scope: sr.scope, Outdated: sr.outdatedBy(words, o)}
		answer.Scope.HeldEpoch = sr.execution.Epoch
		for n := range intOption(o, "dropped") {
			answer.Scope.Counts = map[string]int{"device": sr.scope.Counts["device"] - n - 1}
			answer.Dropped = append(answer.Dropped, workflow.BlockedBy{
				Entity: workflow.EntityKey{Type: "device", ID: fmt.Sprintf("d%02d", n)}, Execution: o["by"], Epoch: 1,
			})
		}
		sr.facts.Locks = answer
		sr.decide()
	case "conflict", "reserved": // conflict TYPE/ID by=EXECUTION
		key, err := workflow.ParseEntityKey(words[0])
		if err != nil {
			sr.t.Fatal(err)
		}
		sr.facts.Locks = &lifecycle.LockResult{Epoch: sr.execution.Epoch, Conflict: &workflow.BlockedBy{
			Entity: key, Execution: o["by"], Epoch: 1, Reservation: verb == "reserved",
		}}
		sr.decide()
	case "blocker": // blocker registered | gone | deadlock | person [narrowed=N]
		sr.facts.Blocker = &lifecycle.Blocker{
			Registered: words[0] != "gone", Deadlock: words[0] == "deadlock", NeedsPerson: words[0] == "person", Narrowed: int64(intOption(o, "narrowed")),
		}
		sr.decide()
	case "report", "close": // report|close [step=LABEL] [next=LABEL] [complete] [ok=N] [failed=N] [unknown=N] [notExecuted=N] [entity=TYPE/ID] [unclaimed] [updates] [breaks] [problem=CODE] [doubt=CODE] [asks=time:D|signal:NAME|input]
		counts := workflow.Counts{OK: intOption(o, "ok"), Failed: intOption(o, "failed"), Unknown: intOption(o, "unknown"), NotExecuted: intOption(o, "notExecuted")}
		if counts.Failed > 0 {
			counts.Failure = &workflow.Failure{Code: "REFUSED", Message: "the device refused", Entity: o["entity"]}
		}
		if counts.Unknown > 0 {
			counts.UnknownEntity = o["entity"]
		}
		rep := &lifecycle.Report{StepRunSeq: sr.stepRunSeq(o["step"]), Complete: slices.Contains(words, "complete"), Counts: counts, Unclaimed: slices.Contains(words, "unclaimed"), Breaks: slices.Contains(words, "breaks"), HasUpdates: slices.Contains(words, "updates")}
		switch what, name, _ := strings.Cut(o["asks"], ":"); what {
		case "time":
			rep.Wait = &workflow.AskedWait{Until: sr.now.Add(sr.duration(name).Std()), Reason: "the window"}
		case "signal":
			rep.Wait = &workflow.AskedWait{Signal: name, Until: sr.now.Add(time.Hour)}
		case "input":
			rep.Wait, rep.Question = &workflow.AskedWait{Input: &workflow.AskedInput{}, Until: sr.now.Add(time.Hour)}, &workflow.Value{Inline: []byte(`{}`)}
		}
		if o["next"] != "" {
			sr.goTo(rep, o["next"])
		}
		if why := o["doubt"]; why != "" {
			rep.Doubt = &workflow.Failure{Code: why, Message: "it has not answered", Entity: o["entity"]}
		}
		if why := o["problem"]; why != "" {
			rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{Code: why, Message: "the entity is not held", Entity: o["entity"]}
		}
		kind := lifecycle.NeedReport
		if verb == "close" {
			kind = lifecycle.NeedClose
		}
		sr.facts.Reports = map[lifecycle.Need]*lifecycle.Report{{Kind: kind, StepRunSeq: rep.StepRunSeq}: rep}
		for _, r := range sr.execution.StepRuns { // the other step runs of a pipeline stay open
			if r.Open() && r.HasJobs() && r.Seq != rep.StepRunSeq && o["step"] != "" {
				sr.facts.Reports[lifecycle.Need{Kind: kind, StepRunSeq: r.Seq}] = &lifecycle.Report{StepRunSeq: r.Seq}
			}
		}
		if len(sr.execution.Threads) > 0 {
			sr.othersWork()
		}
		sr.decide()
	case "outcomes": // outcomes [safe=PLACES] [left=PLACES] [unsafe=PLACES] [undo=PLACES of=SEQ,SEQ]: what is answered from now on
		sr.outcomes, sr.told = lifecycle.Outcomes{Unsafe: sr.places(o["unsafe"])}, true
		names := map[workflow.EntityOutcome]string{workflow.EntityFailedSafe: "safe", workflow.EntityLeft: "left", workflow.EntityFailedUnsafe: "unsafe"}
		for _, outcome := range workflow.EntityOutcomes() { // the worst is named
			if set := sr.places(o[names[outcome]]); set.Len() > 0 {
				if sr.outcomes.Result == nil {
					sr.outcomes.Result = &workflow.Result{Sets: workflow.OutcomeSets{}, Count: map[workflow.EntityOutcome]int{}}
				}
				sr.outcomes.Result.Sets[outcome], sr.outcomes.Result.Count[outcome] = set, set.Len()
				sr.outcomes.Result.Named = []workflow.EntityFailure{{Entity: fmt.Sprintf("device/%d", slices.Collect(set.All())[0]), Outcome: outcome, Step: sr.nodes[0].Label, Code: "REFUSED", Message: "the device refused"}}
			}
		}
		if o["undo"] != "" {
			sr.outcomes.Undo = &workflow.Undo{Entities: sr.places(o["undo"])}
			for seq := range strings.SplitSeq(o["of"], ",") {
				n, _ := strconv.Atoi(seq)
				sr.outcomes.Undo.StepRuns = append(sr.outcomes.Undo.StepRuns, n)
			}
		}
	case "child": // child STATE [step=LABEL] [changed] [over] [asks=TEXT]: those of other step runs work
		c := &lifecycle.ChildStatus{StepRunSeq: sr.stepRunSeq(o["step"]), State: sm.ExecutionState(words[0]), HasChanges: slices.Contains(words, "changed")}
		c.Absent = words[0] == "absent"
		c.Over = slices.Contains(words, "over") || sm.Acknowledged(c.State) || c.State == sm.ExecutionFailedUnsafe || c.State == sm.ExecutionCancelled && c.HasChanges
		c.WaitsForPerson, c.Asks = o["asks"] != "", o["asks"]
		sr.othersWork()
		sr.facts.Child[c.StepRunSeq] = c
		sr.decide()
	case "children": // children [step=LABEL] [done=N] [failed=N] [checked] [asking=N,N] [open=N] [ok=N] [notExecuted=N] [unsent=N] [changed] [refused]
		c := &lifecycle.ChildSet{
			StepRunSeq: sr.stepRunSeq(o["step"]), Done: intOption(o, "done"), Failed: intOption(o, "failed"), Checked: slices.Contains(words, "checked"),
			Open: intOption(o, "open"), HasChanges: slices.Contains(words, "changed"),
			Counts: workflow.Counts{OK: intOption(o, "ok"), Failed: intOption(o, "failed"), Unsent: intOption(o, "unsent"), NotExecuted: intOption(o, "notExecuted")},
		}
		if c.Counts.Failed > 0 {
			c.Failure = &workflow.Failure{Code: "CHILD_FAILED", Entity: "item 1", Message: "execution c1 ended in FAILED_SAFE_ACK"}
		}
		if slices.Contains(words, "refused") {
			c.Refused, c.Failure = true, &workflow.Failure{Code: workflow.FailureLimit, Message: "too many"}
		}
		if asking, ok := o["asking"]; ok {
			c.Looked = true
			for _, lane := range strings.FieldsFunc(asking, func(r rune) bool { return r == ',' }) {
				n, _ := strconv.Atoi(lane)
				c.Asking, c.AskingID, c.Asks = append(c.Asking, n), "c"+lane, "may I?"
			}
		}
		sr.othersWork()
		sr.facts.Children[c.StepRunSeq] = c
		sr.decide()
	case "applied":
		sr.facts.UpdatesApplied = true
		sr.decide()
	case "retry": // retry [rollback] [from=LABEL] [entities=failed|all] [parent=open|closed|letGo] [force] [outdated=LABEL by=EXECUTION [undo]]
		sr.outdated = sr.outdatedBy(words, o)
		if o["parent"] != "" {
			sr.facts.Parent = &lifecycle.Parent{Status: lifecycle.ParentStatus(o["parent"])}
		}
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandRetry, Actor: "bob", Reason: "repaired", FromStep: o["from"], Entities: o["entities"], Force: slices.Contains(words, "force")}
		if slices.Contains(words, "rollback") {
			sr.facts.Command.Rollback = workflow.RollbackAuto
		}
		sr.decide()
	case "resume", "unlock": // unlock [entities=TYPE/ID,...]
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandKind(verb), Actor: "bob", Reason: "it may continue", Only: sr.entityKeys(o)}
		sr.decide()
	case "keep": // keep PLACES: the end has released the others
		kept, err := workflow.ParsePlaces(words[0])
		if err != nil {
			sr.t.Fatal(err)
		}
		sr.execution.Kept, sr.execution.Narrowed = &kept, 1
	case "cancel":
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandCancel, Actor: "bob", Source: "user", Reason: "no longer needed", Rollback: workflow.RollbackMode(o["rollback"]), Cascade: o["cascade"] != "no"}
		sr.decide()
	case "acknowledge": // acknowledge [entities=TYPE/ID,...]
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Actor: "bob", Reason: "checked", Only: sr.entityKeys(o)}
		sr.decide()
	case "break":
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: "a stored definition cannot be read"}
		sr.decide()
	case "wait": // wait DURATION [works]: what is open in branches works
		d, err := time.ParseDuration(words[0])
		if err != nil {
			sr.t.Fatal(err)
		}
		if sr.now = sr.now.Add(d); slices.Contains(words, "works") {
			sr.othersWork()
		}
		sr.decide()
	default:
		sr.t.Fatalf("unknown directive %q", verb)
	}
}

// othersWork are the facts about what is open in branches: all of it works.
func (sr *scriptRunner) othersWork() {
	sr.facts.Child, sr.facts.Children = map[int]*lifecycle.ChildStatus{}, map[int]*lifecycle.ChildSet{}
	for _, r := range sr.execution.StepRuns {
		switch {
		case !r.Open() || r.In == 0:
		case r.IsSet():
			sr.facts.Children[r.Seq] = &lifecycle.ChildSet{StepRunSeq: r.Seq, Open: r.Jobs}
		case r.Child != nil:
			sr.facts.Child[r.Seq] = &lifecycle.ChildStatus{StepRunSeq: r.Seq, State: sm.ExecutionRunning}
		case r.HasJobs():
			for _, kind := range []lifecycle.NeedKind{lifecycle.NeedReport, lifecycle.NeedClose} {
				need := lifecycle.Need{Kind: kind, StepRunSeq: r.Seq}
				if sr.facts.Reports == nil {
					sr.facts.Reports = map[lifecycle.Need]*lifecycle.Report{}
				}
				if sr.facts.Reports[need] == nil {
					sr.facts.Reports[need] = &lifecycle.Report{StepRunSeq: r.Seq}
				}
			}
		}
	}
}

// entityKeys returns the entities that a command names.
func (sr *scriptRunner) entityKeys(o map[string]string) (keys []workflow.EntityKey) {
	for name := range strings.SplitSeq(o["entities"], ",") {
		if key, err := workflow.ParseEntityKey(name); err == nil {
			keys = append(keys, key)
		} else if name != "" {
			sr.t.Fatal(err)
		}
	}
	return keys
}

func (sr *scriptRunner) places(text string) workflow.Places {
	s, err := workflow.ParsePlaces(text)
	if err != nil {
		sr.t.Fatal(err)
	}
	return s
}

func (sr *scriptRunner) duration(text string) workflow.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		sr.t.Fatal(err)
	}
	return workflow.Duration(d)
}

// addNode adds a step to the program, nested in another if in=LABEL is given.
func (sr *scriptRunner) addNode(s *spec.Step, words []string, o map[string]string) {
	s.ContinueOnError = slices.Contains(words, "continue")
	s.Delay = sr.duration(o["delay"])
	if o["repeat"] != "" {
		s.Repeat = &spec.Repeat{Count: intOption(o, "repeat"), Delay: sr.duration(o["repeatDelay"])}
	}
	at := len(sr.nodes)
	n := spec.Node{Step: s, Label: s.Label, Parent: -1, End: at + 1, LocalIndex: at}
	for i := range sr.nodes {
		if sr.nodes[i].Label == o["in"] {
			n.Parent = i
		}
	}
	for i := n.Parent; i >= 0; i = sr.nodes[i].Parent {
		sr.nodes[i].End = at + 1
	}
	n.Group, n.First = n.Parent+1, at+1
	sr.nodes = append(sr.nodes, n)
	(&spec.Program{Nodes: sr.nodes}).SetAfter(nil)
}

// stepRunSeq returns the number of the open step run with the label, or of the last one.
func (sr *scriptRunner) stepRunSeq(label string) int {
	for _, r := range sr.execution.StepRuns {
		if r.Label == label && r.Open() {
			return r.Seq
		}
	}
	return sr.execution.StepRunSeq
}

// decide calls the decider until the execution is idle or a fact is needed that only the
// script has.
func (sr *scriptRunner) decide() {
	for range 50 {
		before := len(sr.execution.Events)
		if sr.execution.Version == 0 {
			before = 0
		}
		d, err := lifecycle.Decide(sr.execution, sr.facts, policy, sr.now)
		if err != nil {
			fmt.Fprintf(&sr.out, "  refused: %v\n", err)
			return
		}
		if d.Need != nil {
			if d.Need.Kind == lifecycle.NeedPlan && sr.answerPlan(*d.Need, d.Uncommitted) {
				continue
			}
			if d.Need.Kind == lifecycle.NeedAgain {
				if sr.facts.Agains == nil {
					sr.facts.Agains = map[lifecycle.Need]*lifecycle.Again{}
				}
				n := &sr.nodes[d.Need.StepIndex]
				if n.Rollout == nil {
					sr.facts.Agains[*d.Need] = &lifecycle.Again{More: d.Need.Index < sr.times[n.Label]}
					continue
				}
				waves := sr.plans[n.Label].Waves
				next := d.Need.Index
				for next < len(waves) && waves[next] == 0 {
					next++
				}
				sr.facts.Agains[*d.Need] = &lifecycle.Again{More: next < len(waves), Wave: next + 1}
				continue
			}
			if sr.answerFlow(*d.Need) {
				continue
			}
			if d.Need.Kind == lifecycle.NeedEntities {
				sr.facts.Entities = &lifecycle.ScopeEntities{}
				for n := range sr.scope.Counts["device"] {
					key := workflow.EntityKey{Type: "device", ID: strconv.Itoa(n + 1)}
					sr.facts.Entities.List = append(sr.facts.Entities.List, workflow.ScopeEntity{Key: key, Place: n + 1})
				}
				continue
			}
			if d.Need.Kind == lifecycle.NeedKeptJobs { // whatever was done was done to what is kept, too
				sr.facts.KeptJobs = &lifecycle.KeptJobs{In: map[int]bool{}}
				for i := range sr.execution.StepRuns {
					sr.facts.KeptJobs.In[sr.execution.StepRuns[i].Seq] = true
				}
				continue
			}
			if d.Need.Kind == lifecycle.NeedOutdated {
				sr.facts.Outdated = &lifecycle.Outdated{Entities: sr.outdated}
				continue
			}
			if d.Need.Kind == lifecycle.NeedCondition && sr.condition != "" {
				sr.facts.Conditions = map[int]*lifecycle.Readiness{d.Need.StepRunSeq: {Ready: sr.condition == "true"}}
				continue
			}
			if d.Need.Kind == lifecycle.NeedSignal {
				if sr.facts.Signals == nil {
					sr.facts.Signals = map[lifecycle.Need]*lifecycle.SignalCheck{}
				}
				sr.facts.Signals[*d.Need] = &lifecycle.SignalCheck{Fits: !sr.unfit[d.Need.Signal], Value: &workflow.Value{Inline: []byte(`{}`)}}
				continue
			}
			if d.Need.Kind == lifecycle.NeedReport && sr.job != "" || d.Need.Kind == lifecycle.NeedClose && sr.job != "" {
				rep := &lifecycle.Report{StepRunSeq: d.Need.StepRunSeq, Complete: sr.job != "works", Counts: workflow.Counts{}}
				switch {
				case sr.job == "ends":
					rep.Counts.OK = 1
				case sr.job == "fails":
					rep.Counts.Failed, rep.Counts.Failure = 1, &workflow.Failure{Code: "REFUSED", Message: "the mail server refused"}
				case d.Need.Kind == lifecycle.NeedClose: // it had not begun
					rep.Complete, rep.Counts.NotExecuted = true, 1
				}
				sr.facts.Reports = map[lifecycle.Need]*lifecycle.Report{*d.Need: rep}
				continue
			}
			if d.Need.Kind == lifecycle.NeedAnswer {
				sr.facts.Answer = sr.check
				continue
			}
			if d.Need.Kind == lifecycle.NeedOutcomes {
				o := sr.outcomes
				if o.ExecutionFails = d.Need.ExecutionFails; o.ExecutionFails && !sr.told { // all stay locked
					o.Unsafe = manyPlaces()
				}
				sr.facts.Outcomes = &o
				continue
			}
			fmt.Fprintf(&sr.out, "  needs %s\n", d.Need.Kind)
			return
		}
		if d.Next == nil {
			fmt.Fprintln(&sr.out, "  nothing to do")
			return
		}
		if d.Next.Version != sr.execution.Version+1 {
			sr.t.Errorf("version %d follows %d", d.Next.Version, sr.execution.Version)
		}
		sr.printEvents(d.Next.Events[before:])
		sr.execution = d.Next
		command := sr.facts.Command
		sr.resetFacts()
		if d.CommandPending {
			sr.facts.Command = command
		}
		sr.printCommit(d)
		if d.Idle && !d.CommandPending {
			return
		}
	}
	sr.t.Fatal("the execution does not become idle")
}

// outdatedBy is an entity that another execution has held, and for which the results from a step on are
// kept.
func (sr *scriptRunner) outdatedBy(words []string, o map[string]string) []lifecycle.OutdatedEntity {
	if o["outdated"] == "" {
		return nil
	}
	step := slices.IndexFunc(sr.nodes, func(n spec.Node) bool { return n.Label == o["outdated"] })
	return []lifecycle.OutdatedEntity{{
		Entity: workflow.EntityKey{Type: "device", ID: "1"}, By: strings.Split(o["by"], ","), Kept: lifecycle.Kept{Step: step, Undo: slices.Contains(words, "undo")},
	}}
}

// resetFacts drops the facts that are fetched again after each commit and wake-up.
func (sr *scriptRunner) resetFacts() {
	sr.facts.Escalated, sr.facts.Answer, sr.facts.Signals, sr.facts.CheckIn, sr.facts.Parent, sr.facts.FromParent = nil, nil, nil, nil, nil, false
	sr.facts.Routes, sr.facts.Joins = nil, nil
	sr.facts.Locks, sr.facts.Blocker, sr.facts.Reports, sr.facts.Command, sr.facts.Child, sr.facts.Children, sr.facts.Readiness, sr.facts.Conditions, sr.facts.Entities, sr.facts.KeptJobs, sr.facts.Outcomes, sr.facts.Outdated = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
}

// answerPlan answers NeedPlan with the plan of the script, or with a job for each entity
// of the step's type. A rollback undoes every executed job of its step run.
func (sr *scriptRunner) answerPlan(n lifecycle.Need, uncommitted *workflow.Execution) bool {
	s := sr.nodes[n.StepIndex]
	p := sr.plans[s.Label]
	if n.Iteration > 0 && sr.plans[s.Label+strconv.Itoa(n.Iteration)] != nil {
		p = sr.plans[s.Label+strconv.Itoa(n.Iteration)]
	}
	switch {
	case n.Undoes > 0:
		for _, r := range uncommitted.StepRuns {
			if r.Seq == n.Undoes {
				p = &lifecycle.Plan{Jobs: r.Counts.Executed()}
				if u := uncommitted.Undo; u != nil {
					p.Jobs = u.Entities.Len()
				}
			}
		}
	case p != nil:
	case s.RunOn == workflow.RunOnGlobal || s.FunctionBlock == "" && s.Foreach == nil:
		p = &lifecycle.Plan{Jobs: 1, Items: sr.times[s.Label]}
	case s.Foreach != nil:
		p = &lifecycle.Plan{Jobs: sr.times[s.Label], Items: sr.times[s.Label], Value: &workflow.Value{Inline: []byte("[]")}}
	default:
		p = &lifecycle.Plan{Jobs: sr.scope.Counts[s.RunOn], Entities: sr.scope.Counts[s.RunOn]}
	}
	if sr.facts.Plans == nil {
		sr.facts.Plans = map[lifecycle.Need]*lifecycle.Plan{}
	}
	sr.facts.Plans[n] = p
	return p != nil
}

func (sr *scriptRunner) printEvents(events []workflow.Event) {
	for _, e := range events {
		where := e.Layer
		if e.Step != "" {
			where += " " + e.Step
		}
		fmt.Fprintf(&sr.out, "  %3d %s: %s -> %s  %s", e.Sequence, where, orDash(e.From), e.To, e.Type)
		if e.Actor != "" {
			fmt.Fprintf(&sr.out, " by %s", e.Actor)
		}
		if e.Data != nil {
			fmt.Fprintf(&sr.out, " %s", e.Data)
		}
		fmt.Fprintln(&sr.out)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (sr *scriptRunner) printCommit(d lifecycle.Decision) {
	x := d.Next
	fmt.Fprintf(&sr.out, "  commit %d: %s epoch %d", x.Version, x.State, x.Epoch)
	if !x.DueAt.IsZero() {
		fmt.Fprintf(&sr.out, ", timer at +%s", x.DueAt.Sub(startTime))
	}
	if x.LockMode != "" {
		fmt.Fprintf(&sr.out, ", locks %s", x.LockMode)
	}
	if x.DroppedCount > 0 {
		fmt.Fprintf(&sr.out, ", dropped %d, named %d", x.DroppedCount, len(x.Dropped))
	}
	if x.Kept != nil {
		fmt.Fprintf(&sr.out, ", keeps %v since release %d", slices.Collect(x.Kept.All()), x.Narrowed)
	}
	if x.Scope.Only != nil {
		fmt.Fprintf(&sr.out, ", only %v", x.Scope.Counts)
	}
	if o := x.Outcome(); o != "" && string(o) != string(x.Status()) && !strings.HasPrefix(string(x.State), string(o)) {
		fmt.Fprintf(&sr.out, ", outcome %s", o)
	}
	if d.WakeWaiters {
		fmt.Fprint(&sr.out, ", wakes waiters")
	}
	if x.BlockedBy != nil {
		fmt.Fprintf(&sr.out, ", waits for %s of %s", x.BlockedBy.Entity, x.BlockedBy.Execution)
		if x.BlockedBy.NeedsPerson {
			fmt.Fprintf(&sr.out, ", which waits for an operator, released %d times", x.BlockedBy.Narrowed)
		}
	}
	if x.Wait != nil {
		fmt.Fprintf(&sr.out, ", waits for %s of %s", x.Wait.Kind, x.Wait.Step)
	}
	if r := x.StepRunBySeq(d.DispatchSeq); r != nil && r.Child != nil {
		fmt.Fprintf(&sr.out, ", starts %s", r.Child.Workflow)
		if r.IsSet() {
			fmt.Fprintf(&sr.out, " for %d items, %d at a time", r.Jobs, r.Window)
		}
	} else if r != nil {
		fmt.Fprintf(&sr.out, ", sends %s of %s: %d jobs in %d packs", r.Kind, r.Label, r.Jobs, r.Lanes())
		if r.Window > 0 {
			fmt.Fprintf(&sr.out, ", %d at a time", r.Window)
		}
	}
	if len(d.Consumed) > 0 {
		fmt.Fprintf(&sr.out, ", takes %s", strings.Join(d.Consumed, ", "))
	}
	if d.DependsOnSignals && len(x.Signals)+len(d.Consumed)+int(x.SignalOrder) > 0 {
		fmt.Fprint(&sr.out, ", depends on signals")
	}
	if d.CommandPending {
		fmt.Fprint(&sr.out, ", the command comes next")
	}
	if d.Idle {
		fmt.Fprint(&sr.out, ", idle")
	}
	fmt.Fprintln(&sr.out)
	if x.LastEnd != nil && sm.Terminal(x.State) && x.Result != nil {
		fmt.Fprintf(&sr.out, "  tells what the last end has told: %v of entities held at epoch %d\n", x.Result.Count, x.Scope.HeldEpoch)
	}
	if x.Error != nil && sm.Terminal(x.State) {
		raw, _ := json.Marshal(x.Error)
		fmt.Fprintf(&sr.out, "  because %s: %s, rolled back: %v\n", x.Cause, raw, x.RolledBack)
	}
}
