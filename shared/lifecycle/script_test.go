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

// TestDecide_Scripts plays the lives of executions. A script is a definition, a scope
// and, line by line, what the world answers when the decider asks; the golden
// file beside it is the same with every event, commit and rest that follows.
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
				t.Errorf("the life has changed (-golden +now; rewrite with -update):\n%s", diff)
			}
		})
	}
}

var startTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var policy = lifecycle.Policy{
	PollInterval: time.Minute, LockTimeout: time.Hour, StartTimeout: 24 * time.Hour, MessageLifetime: 24 * time.Hour,
	PackSize: 10, MinPackedJobs: 101, MaxStepRuns: 1000,
}

// scriptRunner is one execution with the world of its script.
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
}

func newScriptRunner(t *testing.T) *scriptRunner {
	return &scriptRunner{
		t: t, now: startTime, blocks: map[string]workflow.Block{}, plans: map[string]*lifecycle.Plan{},
		scope: workflow.Scope{Counts: map[string]int{}},
		def:   spec.Definition{Package: "p", Name: "w", Version: "1.0.0"},
	}
}

func (l *scriptRunner) run(script string) string {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&l.out, line)
			continue
		}
		fmt.Fprintln(&l.out, "$ "+line)
		words := strings.Fields(line)
		l.apply(words[0], words[1:], options(words[1:]))
		l.resetFacts()
	}
	return l.out.String()
}

// options are the words of the form name=value.
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

func (l *scriptRunner) apply(verb string, words []string, o map[string]string) {
	_, has := o["complete"]
	switch verb {
	case "step": // step LABEL [pure] [idempotent] [reversible] [undoHarmless] [continue] on=TYPE [in=LABEL] [retries=N] [repeat=N] [delay=D] [pause=D] [stepTimeout=D]
		st := &spec.Step{Label: words[0], FunctionBlock: "p/" + words[0] + ":1", RunOn: o["on"]}
		if o["retries"] != "" {
			st.Retry = &workflow.Retry{MaxRetries: intOption(o, "retries")}
		}
		st.StepTimeout = l.duration(o["stepTimeout"])
		l.addNode(st, words, o)
		l.blocks[st.FunctionBlock] = workflow.Block{
			Package: "p", Name: words[0], Version: "1.0.0", Pool: "default",
			Pure: slices.Contains(words, "pure"), Idempotent: slices.Contains(words, "idempotent"),
			Reversible: slices.Contains(words, "reversible"), UndoHarmless: slices.Contains(words, "undoHarmless"),
		}
	case "workflow": // workflow LABEL [continue] [in=LABEL] [repeat=N]
		l.addNode(&spec.Step{Label: words[0], Workflow: &spec.EmbeddedWorkflow{}}, words, o)
	case "reference": // reference LABEL mode=MODE
		l.addNode(&spec.Step{Label: words[0], Reference: &spec.Reference{Workflow: "p/child:1", Mode: workflow.ReferenceMode(o["mode"])}}, words, o)
	case "config":
		l.def.Config.MaxInFlight = intOption(o, "maxInFlight")
		l.def.Config.FailureTolerance.Count = intOption(o, "tolerance")
		l.def.Config.OnLocked = spec.OnLocked(o["onLocked"])
		l.def.Config.LockMode = workflow.LockMode(o["lockMode"])
		l.def.AssertNotEmpty = slices.Contains(words, "assertNotEmpty")
		l.def.Config.Rollback = workflow.RollbackMode(o["rollback"])
		l.def.Config.RollbackContinue = slices.Contains(words, "rollbackContinue")
		l.def.Config.Parallel = slices.Contains(words, "parallel")
		l.def.Config.Timeout = l.duration(o["timeout"])
		l.def.Config.StartWhen, l.def.Config.NotBefore = o["startWhen"], o["notBefore"]
		l.def.Config.StartDeadline = l.duration(o["startDeadline"])
	case "scope": // scope TYPE=N
		for k := range o {
			l.scope.Counts[k] = intOption(o, k)
		}
	case "plan": // plan LABEL [visit=N] jobs=N skipped=N problem=TEXT
		p := &lifecycle.Plan{Jobs: intOption(o, "jobs"), Skipped: intOption(o, "skipped")}
		p.Entities = p.Jobs + p.Skipped
		if o["problem"] != "" {
			p.Cause, p.Problem = workflow.CauseAssertion, &workflow.Failure{Code: "ASSERTION", Message: o["problem"], Step: words[0]}
		}
		l.plans[words[0]+o["visit"]] = p
	case "start": // start [parent=EXECUTION]
		l.execution = lifecycle.NewExecution(workflow.Execution{Tenant: "t", ID: "x", Workflow: l.def.Ref(), CreatedBy: "ann"}, l.now)
		if by := o["parent"]; by != "" {
			l.execution.Parent = &workflow.Parent{Execution: by, Root: by, Depth: 1}
		}
		l.facts.Resolution = &lifecycle.Resolution{
			Program: &spec.Program{Config: l.def.Config, Nodes: l.nodes, AssertNotEmpty: l.def.AssertNotEmpty}, Blocks: l.blocks, Workflows: map[string]string{"p/child:1": "1.0.0"},
		}
		l.facts.Discovery = &lifecycle.Discovery{Scope: l.scope, AcquireIndex: -1}
		if why := o["unresolved"]; why != "" {
			l.facts.Resolution.Problem = &workflow.Failure{Code: "BLOCK_NOT_FOUND", Message: why}
		}
		if why := o["undiscovered"]; why != "" {
			l.facts.Discovery.Problem = &workflow.Failure{Code: "EMPTY", Message: why}
		}
		l.decide()
	case "ready": // ready true|false [in=DURATION] [why=TEXT] [problem=TEXT]
		f := &lifecycle.Readiness{Ready: words[0] == "true", Condition: l.def.Config.StartWhen, Reason: o["why"]}
		if o["in"] != "" {
			f.NotBefore = l.now.Add(l.duration(o["in"]).Std())
		}
		if o["problem"] != "" {
			f.Problem = &workflow.Failure{Code: "invalid", Message: o["problem"]}
		}
		l.facts.Readiness = f
		l.decide()
	case "granted": // granted [dropped=N by=EXECUTION]
		answer := &lifecycle.LockResult{Epoch: l.execution.Epoch, Scope: l.scope}
		answer.Scope.HeldEpoch = l.execution.Epoch
		for n := range intOption(o, "dropped") {
			answer.Scope.Counts = map[string]int{"device": l.scope.Counts["device"] - n - 1}
			answer.Dropped = append(answer.Dropped, workflow.BlockedBy{
				Entity: workflow.EntityKey{Type: "device", ID: fmt.Sprintf("d%02d", n)}, Execution: o["by"], Epoch: 1,
			})
		}
		l.facts.Locks = answer
		l.decide()
	case "conflict", "reserved": // conflict TYPE/ID by=EXECUTION
		key, err := workflow.ParseEntityKey(words[0])
		if err != nil {
			l.t.Fatal(err)
		}
		l.facts.Locks = &lifecycle.LockResult{Epoch: l.execution.Epoch, Conflict: &workflow.BlockedBy{
			Entity: key, Execution: o["by"], Epoch: 1, Reservation: verb == "reserved",
		}}
		l.decide()
	case "blocker": // blocker stands | gone | deadlock
		l.facts.Blocker = &lifecycle.Blocker{Registered: words[0] != "gone", Deadlock: words[0] == "deadlock"}
		l.decide()
	case "report", "closing":
		counts := workflow.Counts{OK: intOption(o, "ok"), Failed: intOption(o, "failed"), Unknown: intOption(o, "unknown"), NotExecuted: intOption(o, "not")}
		if counts.Failed > 0 {
			counts.Failure = &workflow.Failure{Code: "REFUSED", Message: "the device refuses", Entity: o["entity"]}
		}
		if counts.Unknown > 0 {
			counts.UnknownEntity = o["entity"]
		}
		_, silent := o["silent"]
		rep := &lifecycle.Report{StepRunSeq: l.stepRunSeq(o["run"]), Complete: has, Counts: counts, Unclaimed: silent, HasUpdates: slices.Contains(words, "updates")}
		if why := o["problem"]; why != "" {
			rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{Code: why, Message: "it is not held", Entity: o["entity"]}
		}
		kind := lifecycle.NeedReport
		if verb == "closing" {
			kind = lifecycle.NeedClose
		}
		l.facts.Reports = map[lifecycle.Need]*lifecycle.Report{{Kind: kind, StepRunSeq: rep.StepRunSeq}: rep}
		for _, r := range l.execution.StepRuns { // the others of a stretch go on
			if r.Open() && r.HasJobs() && r.Seq != rep.StepRunSeq && o["run"] != "" {
				l.facts.Reports[lifecycle.Need{Kind: kind, StepRunSeq: r.Seq}] = &lifecycle.Report{StepRunSeq: r.Seq}
			}
		}
		l.decide()
	case "child": // child STATE [changed]
		l.facts.Child = &lifecycle.ChildStatus{StepRunSeq: l.execution.StepRunSeq, State: sm.ExecutionState(words[0]), HasChanges: slices.Contains(words, "changed")}
		l.decide()
	case "applied":
		l.facts.UpdatesApplied = true
		l.decide()
	case "retry": // retry [from=LABEL] [entities=failed|all]
		l.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandRetry, Actor: "bob", Reason: "mended", FromStep: o["from"], Entities: o["entities"]}
		l.decide()
	case "resume", "unlock":
		l.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandKind(verb), Actor: "bob", Reason: "it may go on"}
		l.decide()
	case "cancel":
		l.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandCancel, Actor: "bob", Source: "user", Reason: "no longer needed", Rollback: workflow.RollbackMode(o["rollback"]), Cascade: o["cascade"] != "no"}
		l.decide()
	case "acknowledge":
		l.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Actor: "bob", Reason: "looked at it"}
		l.decide()
	case "break":
		l.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: "a stored definition cannot be read"}
		l.decide()
	case "wait": // wait DURATION
		d, err := time.ParseDuration(words[0])
		if err != nil {
			l.t.Fatal(err)
		}
		l.now = l.now.Add(d)
		l.decide()
	default:
		l.t.Fatalf("unknown directive %q", verb)
	}
}

func (l *scriptRunner) duration(text string) workflow.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		l.t.Fatal(err)
	}
	return workflow.Duration(d)
}

// addNode adds a step to the program, perhaps in another.
func (l *scriptRunner) addNode(s *spec.Step, words []string, o map[string]string) {
	s.ContinueOnError = slices.Contains(words, "continue")
	s.Delay = l.duration(o["delay"])
	if o["repeat"] != "" {
		s.Repeat = &spec.Repeat{Count: intOption(o, "repeat"), Delay: l.duration(o["pause"])}
	}
	at := len(l.nodes)
	n := spec.Node{Step: s, Label: s.Label, Parent: -1, End: at + 1, LocalIndex: at}
	for i := range l.nodes {
		if l.nodes[i].Label == o["in"] {
			n.Parent = i
		}
	}
	for i := n.Parent; i >= 0; i = l.nodes[i].Parent {
		l.nodes[i].End = at + 1
	}
	l.nodes = append(l.nodes, n)
}

// stepRunSeq is the number of the open run with the label, or of the last run.
func (l *scriptRunner) stepRunSeq(label string) int {
	for _, r := range l.execution.StepRuns {
		if r.Label == label && r.Open() {
			return r.Seq
		}
	}
	return l.execution.StepRunSeq
}

// decide calls the decider until it rests or asks for a fact that only the
// script can give.
func (l *scriptRunner) decide() {
	for range 50 {
		before := len(l.execution.Events)
		if l.execution.Version == 0 {
			before = 0
		}
		d, err := lifecycle.Decide(l.execution, l.facts, policy, l.now)
		if err != nil {
			fmt.Fprintf(&l.out, "  refused: %v\n", err)
			return
		}
		if d.Need != nil {
			if d.Need.Kind == lifecycle.NeedPlan && l.answerPlan(*d.Need, d.Uncommitted) {
				continue
			}
			fmt.Fprintf(&l.out, "  needs %s\n", d.Need.Kind)
			return
		}
		if d.Next == nil {
			fmt.Fprintln(&l.out, "  nothing to do")
			return
		}
		if d.Next.Version != l.execution.Version+1 {
			l.t.Errorf("version %d follows %d", d.Next.Version, l.execution.Version)
		}
		l.printEvents(d.Next.Events[before:])
		l.execution = d.Next
		l.resetFacts()
		l.printCommit(d)
		if d.Idle {
			return
		}
	}
	l.t.Fatal("the decider does not come to rest")
}

// resetFacts drops the facts that do not outlive a commit or a look.
func (l *scriptRunner) resetFacts() {
	l.facts.Locks, l.facts.Blocker, l.facts.Reports, l.facts.Command, l.facts.Child, l.facts.Readiness = nil, nil, nil, nil, nil, nil
}

// answerPlan answers NeedPlan: as the script says, or with a job for each entity of
// the step's type; a rollback undoes whatever its run has executed.
func (l *scriptRunner) answerPlan(n lifecycle.Need, draft *workflow.Execution) bool {
	s := l.nodes[n.StepIndex]
	p := l.plans[s.Label]
	if n.Iteration > 0 && l.plans[s.Label+strconv.Itoa(n.Iteration)] != nil {
		p = l.plans[s.Label+strconv.Itoa(n.Iteration)]
	}
	switch {
	case n.Undoes > 0:
		for _, r := range draft.StepRuns {
			if r.Seq == n.Undoes {
				p = &lifecycle.Plan{Jobs: r.Counts.Executed()}
			}
		}
	case p != nil:
	case s.RunOn == workflow.RunOnGlobal || s.FunctionBlock == "":
		p = &lifecycle.Plan{Jobs: 1}
	default:
		p = &lifecycle.Plan{Jobs: l.scope.Counts[s.RunOn], Entities: l.scope.Counts[s.RunOn]}
	}
	if l.facts.Plans == nil {
		l.facts.Plans = map[lifecycle.Need]*lifecycle.Plan{}
	}
	l.facts.Plans[n] = p
	return p != nil
}

func (l *scriptRunner) printEvents(events []workflow.Event) {
	for _, e := range events {
		where := e.Layer
		if e.Step != "" {
			where += " " + e.Step
		}
		fmt.Fprintf(&l.out, "  %3d %s: %s -> %s  %s", e.Sequence, where, orDash(e.From), e.To, e.Type)
		if e.Actor != "" {
			fmt.Fprintf(&l.out, " by %s", e.Actor)
		}
		if e.Data != nil {
			fmt.Fprintf(&l.out, " %s", e.Data)
		}
		fmt.Fprintln(&l.out)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (l *scriptRunner) printCommit(d lifecycle.Decision) {
	x := d.Next
	fmt.Fprintf(&l.out, "  commit %d: %s epoch %d", x.Version, x.State, x.Epoch)
	if !x.DueAt.IsZero() {
		fmt.Fprintf(&l.out, ", alarm at +%s", x.DueAt.Sub(startTime))
	}
	if x.LockMode != "" {
		fmt.Fprintf(&l.out, ", locks %s", x.LockMode)
	}
	if x.DroppedCount > 0 {
		fmt.Fprintf(&l.out, ", dropped %d and names %d", x.DroppedCount, len(x.Dropped))
	}
	if d.WakeWaiters {
		fmt.Fprint(&l.out, ", releases")
	}
	if x.BlockedBy != nil {
		fmt.Fprintf(&l.out, ", waits for %s of %s", x.BlockedBy.Entity, x.BlockedBy.Execution)
	}
	if x.Wait != nil {
		fmt.Fprintf(&l.out, ", waits for %s of %s", x.Wait.Kind, x.Wait.Step)
	}
	if r := x.StepRunBySeq(d.DispatchSeq); r != nil && r.Child != nil {
		fmt.Fprintf(&l.out, ", starts %s", r.Child.Workflow)
	} else if r != nil {
		fmt.Fprintf(&l.out, ", sends %s of %s: %d jobs in %d packs", r.Kind, r.Label, r.Jobs, r.Lanes())
		if r.Window > 0 {
			fmt.Fprintf(&l.out, ", %d at a time", r.Window)
		}
	}
	if d.Idle {
		fmt.Fprint(&l.out, ", rests")
	}
	fmt.Fprintln(&l.out)
	if x.Error != nil && sm.Terminal(x.State) {
		raw, _ := json.Marshal(x.Error)
		fmt.Fprintf(&l.out, "  because %s: %s, rolled back: %v\n", x.Cause, raw, x.RolledBack)
	}
}
