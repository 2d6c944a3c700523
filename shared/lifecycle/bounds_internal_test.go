package lifecycle

import (
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
