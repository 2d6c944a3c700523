package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// longFailure returns the longest failure that a block can report.
func longFailure(i int) *workflow.Failure {
	return &workflow.Failure{
		Code: strings.Repeat("C", 1000), Message: fmt.Sprintf("%d %s", i, strings.Repeat("m", 10_000)), Step: strings.Repeat("s", 128), Entity: "device/" + strings.Repeat("e", 128),
		Details: []byte(`"` + strings.Repeat("d", 10_000) + `"`),
	}
}

// Branches that fail keep no more of their failures than step runs do, so that there is room to
// close them and to roll back.
func TestBoundFailures_OfBranches(t *testing.T) {
	d := &decider{}
	threads := make([]workflow.Thread, workflow.MaxThreads)
	for i := range threads {
		threads[i] = workflow.Thread{In: 1, Index: i, Done: true}
		if i > 0 {
			threads[i].Failure = longFailure(i)
		}
	}
	stepRuns := []workflow.StepRun{{Seq: 1}, {Seq: 2, Failure: longFailure(2)}, {Seq: 3, Failure: longFailure(3)}, {Seq: 4, Failure: longFailure(4)}}
	boundFailures(stepRuns, threads)
	const one = workflow.MaxFailureCode + workflow.MaxFailureMessage + workflow.MaxFailureDetails + 1024
	if n := d.jsonBytes(threads); n > workflow.MaxFailureTexts+one {
		t.Errorf("the branches take %d bytes", n)
	}
	if n := d.jsonBytes(threads) + d.jsonBytes(stepRuns); n > workflow.MaxFailureTexts+3*one {
		t.Errorf("branches and step runs take %d bytes", n)
	}
	if f := threads[1].Failure; len(f.Message) < workflow.MaxShortMessage || len(f.Details) == 0 {
		t.Errorf("the first branch that failed has lost its text: %+v", f)
	}
	if f := threads[2].Failure; !strings.HasPrefix(f.Message, "2 ") {
		t.Errorf("another has lost the beginning of it: %+v", f)
	}
}

// Answers and tokens that would leave no space for a rollback are refused. What was accepted before
// is still recognised, and tokens can be revoked.
func TestDecide_RefusesAnswersWithoutRoom(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	program := &spec.Program{Nodes: []spec.Node{{Step: &spec.Step{Wait: &spec.Wait{Input: &spec.WaitInput{}}}, Label: "ask", Parent: -1, End: 1, After: 1}}}
	answer := func(key string) Command {
		return Command{Kind: CommandAnswer, Actor: "bob", Answer: &Answer{StepRunSeq: 1, Key: key, Digest: "d"}}
	}
	for name, test := range map[string]struct {
		size    int
		command Command
		refused bool
	}{
		"an answer":                     {size: 190 << 10, command: answer("new")},
		"an answer without room":        {size: 212 << 10, command: answer("new"), refused: true},
		"the same answer without room":  {size: 212 << 10, command: answer("old")},
		"a token":                       {size: 190 << 10, command: Command{Kind: CommandIssueToken, Actor: "bob", Tokens: &Tokens{StepRunSeq: 1, For: "cleo"}}},
		"a token without room":          {size: 212 << 10, command: Command{Kind: CommandIssueToken, Actor: "bob", Tokens: &Tokens{StepRunSeq: 1, For: "cleo"}}, refused: true},
		"tokens are revoked, full item": {size: 212 << 10, command: Command{Kind: CommandRevoke, Actor: "bob", Tokens: &Tokens{StepRunSeq: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			x := &workflow.Execution{
				ID: "x", State: sm.ExecutionWaiting, Wait: &workflow.Wait{Kind: workflow.WaitInput, Since: now}, Version: 3, Epoch: 1, Try: 1, StepRunSeq: 1, ItemBytes: test.size,
				StepRuns: []workflow.StepRun{{
					Seq: 1, Try: 1, Label: "ask", Ordinal: 1, Status: sm.StepRunning, EnteredAt: now,
					Wait:    &workflow.StepWait{Kind: workflow.WaitInput, Since: now, Until: now.Add(time.Hour), Need: 5},
					Answers: []workflow.Answer{{By: "ann", At: now, Key: "old", Digest: "d"}},
				}},
			}
			d, err := Decide(x, Facts{Command: &test.command, Resolution: &Resolution{Program: program}, Answer: &AnswerCheck{StepRunSeq: 1}}, Policy{}, now)
			if refused := workflow.Is(err, workflow.CodeLimit); refused != test.refused || err != nil && !refused {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

// All texts of conditions without a value take no more than what is reserved for failures. The
// newest are kept.
func TestBoundFailures_BoundsCaseErrors(t *testing.T) {
	stepRuns := make([]workflow.StepRun, 500)
	text := strings.Repeat("x", workflow.MaxCaseErrorText)
	for i := range stepRuns {
		stepRuns[i].CaseErrors = []workflow.CaseError{{Case: 1, Message: text}, {Case: 2, Message: text}}
	}
	committed := stepRuns[0].CaseErrors
	boundFailures(stepRuns, nil)
	kept := 0
	for _, r := range stepRuns {
		for i, e := range r.CaseErrors {
			if kept += len(e.Message); e.Case != i+1 {
				t.Fatalf("%+v", r.CaseErrors)
			}
		}
	}
	if newest := stepRuns[len(stepRuns)-1].CaseErrors[1].Message; newest != text || kept > workflow.MaxFailureTexts || kept < workflow.MaxFailureTexts/2 {
		t.Errorf("%d bytes are kept, of the newest %q", kept, newest)
	}
	if committed[0].Message != text {
		t.Error("what was committed has changed")
	}
}

// An unsafe end releases the locks of what is safe. It keeps all that the execution holds where there is
// no room to name the others, and says how many; and releases nothing if that is what it holds already.
func TestEndUnsafe_KeepsLocks(t *testing.T) {
	var odd []int
	for i := range 200_000 {
		odd = append(odd, 2*i+1)
	}
	many, two, one := workflow.NewPlaces(odd...), workflow.NewPlaces(1, 2), workflow.NewPlaces(1)
	for name, test := range map[string]struct {
		size         int
		kept         *workflow.Places
		unsafe, want *workflow.Places
		locked       any // what the history says
		narrowed     int64
	}{
		"some of all":                        {unsafe: &two, want: &two, narrowed: 4},
		"some of all, without room":          {size: 380 << 10, unsafe: &two, locked: 400_000.0, narrowed: 3},
		"more than can be named":             {unsafe: &many, locked: 400_000.0, narrowed: 3},
		"some of those that it holds":        {kept: &two, unsafe: &one, want: &one, narrowed: 4},
		"those that it holds":                {kept: &two, unsafe: &two, want: &two, narrowed: 3},
		"those that it holds, without room":  {size: 380 << 10, kept: &two, unsafe: &two, want: &two, narrowed: 3},
		"some that it has released, as well": {kept: &one, unsafe: &two, want: &one, narrowed: 3},
	} {
		t.Run(name, func(t *testing.T) {
			x := &workflow.Execution{
				ID: "x", State: sm.ExecutionRunning, Version: 3, Epoch: 1, Try: 1, Kept: test.kept, Narrowed: 3, ItemBytes: test.size,
				Scope: workflow.Scope{HeldEpoch: 1, Counts: map[string]int{"device": 400_000}},
			}
			d := &decider{execution: x, now: time.Unix(1, 0)}
			d.endUnsafe(sm.EventExecutionClassifiedUnsafe, &Outcomes{Unsafe: *test.unsafe}, map[string]any{})
			if d.err != nil || x.State != sm.ExecutionFailedUnsafe {
				t.Fatalf("%s, %v", x.State, d.err)
			}
			if (x.Kept == nil) != (test.want == nil) || x.Kept != nil && !x.Kept.Equal(*test.want) {
				t.Errorf("keeps %v, want %v", x.Kept, test.want)
			}
			var data map[string]any
			for _, e := range x.Events {
				if e.To == string(sm.ExecutionFailedUnsafe) {
					if err := json.Unmarshal(e.Data, &data); err != nil {
						t.Fatal(err)
					}
				}
			}
			if data["locked"] != test.locked || data["unsafe"] != float64(test.unsafe.Len()) || x.Narrowed != test.narrowed {
				t.Errorf("the history says %v, narrowed %d, want locked %v, narrowed %d", data, x.Narrowed, test.locked, test.narrowed)
			}
		})
	}
}
