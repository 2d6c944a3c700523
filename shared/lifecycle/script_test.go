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

// TestScripts plays the lives of executions. A script is a definition, a scope
// and, line by line, what the world answers when the decider asks; the golden
// file beside it is the same with every event, commit and rest that follows.
func TestScripts(t *testing.T) {
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
			got := newLife(t).play(string(source))
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

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var policy = lifecycle.Policy{
	Poll: time.Minute, LockWait: time.Hour, StartWait: 24 * time.Hour, MessageLife: 24 * time.Hour,
	PackSize: 10, PackFrom: 101, MaxSteps: 1000,
}

// life is one execution with the world of its script.
type life struct {
	t     *testing.T
	out   strings.Builder
	now   time.Time
	x     *workflow.Execution
	def   spec.Definition
	nodes []spec.Node
	block map[string]workflow.Block
	scope workflow.Scope
	facts lifecycle.Facts
	plans map[string]*lifecycle.Plan
}

func newLife(t *testing.T) *life {
	return &life{
		t: t, now: epoch, block: map[string]workflow.Block{}, plans: map[string]*lifecycle.Plan{},
		scope: workflow.Scope{Counts: map[string]int{}},
		def:   spec.Definition{Package: "p", Name: "w", Version: "1.0.0"},
	}
}

func (l *life) play(script string) string {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&l.out, line)
			continue
		}
		fmt.Fprintln(&l.out, "$ "+line)
		words := strings.Fields(line)
		l.directive(words[0], words[1:], options(words[1:]))
		l.forget()
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

func number(o map[string]string, key string) int {
	n, _ := strconv.Atoi(o[key])
	return n
}

func (l *life) directive(verb string, words []string, o map[string]string) {
	_, has := o["complete"]
	switch verb {
	case "step": // step LABEL [pure] [idempotent] [reversible] [undoHarmless] [continue] on=TYPE [in=LABEL] [retries=N] [repeat=N] [delay=D] [pause=D] [stepTimeout=D]
		st := &spec.Step{Label: words[0], FunctionBlock: "p/" + words[0] + ":1", RunOn: o["on"]}
		if o["retries"] != "" {
			st.Retry = &workflow.Retry{MaxRetries: number(o, "retries")}
		}
		st.StepTimeout = l.duration(o["stepTimeout"])
		l.node(st, words, o)
		l.block[st.FunctionBlock] = workflow.Block{
			Package: "p", Name: words[0], Version: "1.0.0", Pool: "default",
			Pure: slices.Contains(words, "pure"), Idempotent: slices.Contains(words, "idempotent"),
			Reversible: slices.Contains(words, "reversible"), UndoHarmless: slices.Contains(words, "undoHarmless"),
		}
	case "workflow": // workflow LABEL [continue] [in=LABEL] [repeat=N]
		l.node(&spec.Step{Label: words[0], Workflow: &spec.Nested{}}, words, o)
	case "reference": // reference LABEL mode=MODE
		l.node(&spec.Step{Label: words[0], Reference: &spec.Reference{Workflow: "p/child:1", Mode: workflow.ReferenceMode(o["mode"])}}, words, o)
	case "config":
		l.def.Config.MaxInFlight = number(o, "maxInFlight")
		l.def.Config.FailureTolerance.Count = number(o, "tolerance")
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
			l.scope.Counts[k] = number(o, k)
		}
	case "plan": // plan LABEL [visit=N] jobs=N skipped=N problem=TEXT
		p := &lifecycle.Plan{Jobs: number(o, "jobs"), Skipped: number(o, "skipped")}
		p.Entities = p.Jobs + p.Skipped
		if o["problem"] != "" {
			p.Cause, p.Problem = workflow.CauseAssertion, &workflow.Failure{Code: "ASSERTION", Message: o["problem"], Step: words[0]}
		}
		l.plans[words[0]+o["visit"]] = p
	case "start": // start [parent=EXECUTION]
		l.x = lifecycle.New(workflow.Execution{Tenant: "t", ID: "x", Workflow: l.def.Ref(), CreatedBy: "ann"}, l.now)
		if by := o["parent"]; by != "" {
			l.x.Parent = &workflow.Parent{Execution: by, Root: by, Depth: 1}
		}
		l.facts.Resolved = &lifecycle.Resolved{
			Program: &spec.Program{Config: l.def.Config, Nodes: l.nodes, AssertNotEmpty: l.def.AssertNotEmpty}, Blocks: l.block, Workflows: map[string]string{"p/child:1": "1.0.0"},
		}
		l.facts.Discovered = &lifecycle.Discovered{Scope: l.scope, Acquire: -1}
		if why := o["unresolved"]; why != "" {
			l.facts.Resolved.Problem = &workflow.Failure{Code: "BLOCK_NOT_FOUND", Message: why}
		}
		if why := o["undiscovered"]; why != "" {
			l.facts.Discovered.Problem = &workflow.Failure{Code: "EMPTY", Message: why}
		}
		l.decide()
	case "ready": // ready true|false [in=DURATION] [why=TEXT] [problem=TEXT]
		f := &lifecycle.Ready{Ready: words[0] == "true", Condition: l.def.Config.StartWhen, Why: o["why"]}
		if o["in"] != "" {
			f.At = l.now.Add(l.duration(o["in"]).Std())
		}
		if o["problem"] != "" {
			f.Problem = &workflow.Failure{Code: "invalid", Message: o["problem"]}
		}
		l.facts.Ready = f
		l.decide()
	case "granted": // granted [dropped=N by=EXECUTION]
		answer := &lifecycle.LockAnswer{Epoch: l.x.Epoch, Scope: l.scope}
		answer.Scope.HeldEpoch = l.x.Epoch
		for n := range number(o, "dropped") {
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
		l.facts.Locks = &lifecycle.LockAnswer{Epoch: l.x.Epoch, Conflict: &workflow.BlockedBy{
			Entity: key, Execution: o["by"], Epoch: 1, Reservation: verb == "reserved",
		}}
		l.decide()
	case "blocker": // blocker stands | gone | deadlock
		l.facts.Blocker = &lifecycle.Blocker{Registered: words[0] != "gone", Deadlock: words[0] == "deadlock"}
		l.decide()
	case "report", "closing":
		tally := workflow.Tally{OK: number(o, "ok"), Failed: number(o, "failed"), Unknown: number(o, "unknown"), NotExecuted: number(o, "not")}
		if tally.Failed > 0 {
			tally.Failure = &workflow.Failure{Code: "REFUSED", Message: "the device refuses", Entity: o["entity"]}
		}
		if tally.Unknown > 0 {
			tally.UnknownEntity = o["entity"]
		}
		_, silent := o["silent"]
		rep := &lifecycle.Report{RunSeq: l.runOf(o["run"]), Complete: has, Tally: tally, Silent: silent, Updates: slices.Contains(words, "updates")}
		if why := o["problem"]; why != "" {
			rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{Code: why, Message: "it is not held", Entity: o["entity"]}
		}
		kind := lifecycle.NeedReport
		if verb == "closing" {
			kind = lifecycle.NeedClosing
		}
		l.facts.Reports = map[lifecycle.Need]*lifecycle.Report{{Kind: kind, RunSeq: rep.RunSeq}: rep}
		for _, r := range l.x.Runs { // the others of a stretch go on
			if r.Open() && r.HasJobs() && r.RunSeq != rep.RunSeq && o["run"] != "" {
				l.facts.Reports[lifecycle.Need{Kind: kind, RunSeq: r.RunSeq}] = &lifecycle.Report{RunSeq: r.RunSeq}
			}
		}
		l.decide()
	case "child": // child STATE [changed]
		l.facts.Child = &lifecycle.ChildAnswer{RunSeq: l.x.RunSeq, State: sm.ExecutionState(words[0]), Changed: slices.Contains(words, "changed")}
		l.decide()
	case "applied":
		l.facts.Applied = true
		l.decide()
	case "retry": // retry [from=LABEL] [entities=failed|all]
		l.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandRetry, Actor: "bob", Reason: "mended", From: o["from"], Entities: o["entities"]}
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

func (l *life) duration(text string) workflow.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		l.t.Fatal(err)
	}
	return workflow.Duration(d)
}

// node adds a step to the program, perhaps in another.
func (l *life) node(s *spec.Step, words []string, o map[string]string) {
	s.ContinueOnError = slices.Contains(words, "continue")
	s.Delay = l.duration(o["delay"])
	if o["repeat"] != "" {
		s.Repeat = &spec.Repeat{Count: number(o, "repeat"), Delay: l.duration(o["pause"])}
	}
	at := len(l.nodes)
	n := spec.Node{Step: s, Label: s.Label, Parent: -1, End: at + 1, Local: at}
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

// runOf is the number of the open run with the label, or of the last run.
func (l *life) runOf(label string) int {
	for _, r := range l.x.Runs {
		if r.Label == label && r.Open() {
			return r.RunSeq
		}
	}
	return l.x.RunSeq
}

// decide calls the decider until it rests or asks for a fact that only the
// script can give.
func (l *life) decide() {
	for range 50 {
		before := len(l.x.Events)
		if l.x.Version == 0 {
			before = 0
		}
		d, err := lifecycle.Decide(l.x, l.facts, policy, l.now)
		if err != nil {
			fmt.Fprintf(&l.out, "  refused: %v\n", err)
			return
		}
		if d.Need != nil {
			if d.Need.Kind == lifecycle.NeedPlan && l.plan(*d.Need, d.Draft) {
				continue
			}
			fmt.Fprintf(&l.out, "  needs %s\n", d.Need.Kind)
			return
		}
		if d.Next == nil {
			fmt.Fprintln(&l.out, "  nothing to do")
			return
		}
		if d.Next.Version != l.x.Version+1 {
			l.t.Errorf("version %d follows %d", d.Next.Version, l.x.Version)
		}
		l.events(d.Next.Events[before:])
		l.x = d.Next
		l.forget()
		l.committed(d)
		if d.Rest {
			return
		}
	}
	l.t.Fatal("the decider does not come to rest")
}

// forget drops the facts that do not outlive a commit or a look.
func (l *life) forget() {
	l.facts.Locks, l.facts.Blocker, l.facts.Reports, l.facts.Command, l.facts.Child, l.facts.Ready = nil, nil, nil, nil, nil, nil
}

// plan answers NeedPlan: as the script says, or with a job for each entity of
// the step's type; a rollback undoes whatever its run has executed.
func (l *life) plan(n lifecycle.Need, draft *workflow.Execution) bool {
	s := l.nodes[n.Step]
	p := l.plans[s.Label]
	if n.Repeat > 0 && l.plans[s.Label+strconv.Itoa(n.Repeat)] != nil {
		p = l.plans[s.Label+strconv.Itoa(n.Repeat)]
	}
	switch {
	case n.Undoes > 0:
		for _, r := range draft.Runs {
			if r.RunSeq == n.Undoes {
				p = &lifecycle.Plan{Jobs: r.Tally.Executed()}
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

func (l *life) events(events []workflow.Event) {
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

func (l *life) committed(d lifecycle.Decision) {
	x := d.Next
	fmt.Fprintf(&l.out, "  commit %d: %s epoch %d", x.Version, x.State, x.Epoch)
	if !x.DueAt.IsZero() {
		fmt.Fprintf(&l.out, ", alarm at +%s", x.DueAt.Sub(epoch))
	}
	if x.LockMode != "" {
		fmt.Fprintf(&l.out, ", locks %s", x.LockMode)
	}
	if x.DroppedCount > 0 {
		fmt.Fprintf(&l.out, ", dropped %d and names %d", x.DroppedCount, len(x.Dropped))
	}
	if d.Release {
		fmt.Fprint(&l.out, ", releases")
	}
	if x.BlockedBy != nil {
		fmt.Fprintf(&l.out, ", waits for %s of %s", x.BlockedBy.Entity, x.BlockedBy.Execution)
	}
	if x.Wait != nil {
		fmt.Fprintf(&l.out, ", waits for %s of %s", x.Wait.Kind, x.Wait.Step)
	}
	if r := x.RunOf(d.Dispatch); r != nil && r.Child != nil {
		fmt.Fprintf(&l.out, ", starts %s", r.Child.Workflow)
	} else if r != nil {
		fmt.Fprintf(&l.out, ", sends %s of %s: %d jobs in %d packs", r.Kind, r.Label, r.Jobs, r.Lanes())
		if r.Window > 0 {
			fmt.Fprintf(&l.out, ", %d at a time", r.Window)
		}
	}
	if d.Rest {
		fmt.Fprint(&l.out, ", rests")
	}
	fmt.Fprintln(&l.out)
	if x.Error != nil && sm.Terminal(x.State) {
		raw, _ := json.Marshal(x.Error)
		fmt.Fprintf(&l.out, "  because %s: %s, rolled back: %v\n", x.Cause, raw, x.RolledBack)
	}
}
