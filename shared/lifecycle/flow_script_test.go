package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// flowScript is the part of a script about steps that choose, handle failures and branch. Such a
// script has a definition instead of directives for its steps: lines that begin with a bar, in
// YAML.
type flowScript struct {
	source  strings.Builder
	program *definitions.Program
	handles map[string]int // by label: which case of its onFailure is true, from 1
	join    string         // the code of the failure with which branches are merged, "" if they can be
}

// readDefinition takes a line of the definition, and reports whether it is one.
func (f *flowScript) readDefinition(line string) bool {
	text, ok := strings.CutPrefix(line, "| ")
	if ok {
		f.source.WriteString(text + "\n")
	}
	return ok
}

// oneDefinition is a registry with a definition, and nothing else.
type oneDefinition struct {
	port.Registry
	source string
}

func (r oneDefinition) Definition(context.Context, string, workflow.Ref) (*workflow.PublishedDefinition, error) {
	return &workflow.PublishedDefinition{Source: []byte(r.source)}, nil
}

// compile returns the program of the script's definition, nil if it has none.
func (sr *scriptRunner) compile() *spec.Program {
	if sr.source.Len() == 0 {
		return nil
	}
	source := "package: p\nname: w\nversion: 1.0.0\nsteps:\n" + sr.source.String()
	p, problem, err := new(definitions.Cache).Program(sr.t.Context(), oneDefinition{source: source}, "t", sr.def.Ref(), map[string]string{"p/child:1": "1.0.0"})
	if err != nil || problem != nil {
		sr.t.Fatalf("%v, %+v", err, problem)
	}
	sr.program = p
	return &p.Program
}

// applyFlow applies a directive about the flow, and reports whether it is one.
func (sr *scriptRunner) applyFlow(verb string, words []string, o map[string]string) bool {
	switch verb {
	case "block": // block NAME [pure] [idempotent] [reversible]: one that the definition names as p/NAME:1
		sr.blocks["p/"+words[0]+":1"] = workflow.Block{
			Package: "p", Name: words[0], Version: "1.0.0", Pool: "default",
			Pure: slices.Contains(words, "pure"), Idempotent: slices.Contains(words, "idempotent"), Reversible: slices.Contains(words, "reversible"),
		}
	case "case": // case LABEL=N: which case of a switch is true from now on, 0 for none
		label, number, _ := strings.Cut(words[0], "=")
		p := &lifecycle.Plan{Jobs: 1}
		if p.Route, _ = strconv.Atoi(number); p.Route == 0 {
			p = &lifecycle.Plan{Cause: workflow.CauseStepFailed, Problem: &workflow.Failure{Code: workflow.FailureNoRoute, Message: "no case is true", Step: label}}
		}
		sr.plans[label] = p
	case "handles": // handles LABEL=N: which case of its onFailure is true from now on
		if sr.handles == nil {
			sr.handles = map[string]int{}
		}
		label, number, _ := strings.Cut(words[0], "=")
		sr.handles[label], _ = strconv.Atoi(number)
	case "join": // join ok|CODE: whether the results of branches can be merged from now on
		if sr.join = words[0]; sr.join == "ok" {
			sr.join = ""
		}
	case "items": // items LABEL=N: how many items the list of a step has
		label, number, _ := strings.Cut(words[0], "=")
		sr.times[label], _ = strconv.Atoi(number)
	case "asks": // asks LABEL: a step that waits for people has a question
		sr.plans[words[0]] = &lifecycle.Plan{Jobs: 1, Title: words[0] + "?", Question: &workflow.Value{Inline: []byte(`{}`)}}
	case "next": // next [sequence=N] [all]: of an operator, who lets the execution enter the next step
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandNext, Actor: "bob", Reason: "go on", Sequence: int64(intOption(o, "sequence")), All: slices.Contains(words, "all")}
		sr.decide()
	case "rewind": // rewind to=LABEL [force]
		sr.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandRewind, Actor: "bob", Reason: "once more", FromStep: o["to"], Force: slices.Contains(words, "force")}
		sr.decide()
	default:
		return false
	}
	return true
}

// goTo gives a report the step that a block has named, as the planner does.
func (sr *scriptRunner) goTo(rep *lifecycle.Report, label string) {
	r := sr.execution.StepRunBySeq(rep.StepRunSeq)
	rep.Next = label
	if rep.Goto = sr.program.TargetNamed(r.StepIndex, label); rep.Goto == nil {
		rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{Code: workflow.FailureUnknownStep, Step: r.Label, Message: fmt.Sprintf("its block names the step %q", label)}
	}
}

// answerFlow answers which case handles a failure, what branches give together, and that an execution which is
// released may begin.
func (sr *scriptRunner) answerFlow(n lifecycle.Need) bool {
	switch n.Kind {
	case lifecycle.NeedReadiness:
		if sr.program == nil {
			return false
		}
		sr.facts.Readiness = &lifecycle.Readiness{Ready: true}
	case lifecycle.NeedRoute:
		if sr.facts.Routes == nil {
			sr.facts.Routes = map[lifecycle.Need]*lifecycle.Route{}
		}
		sr.facts.Routes[n] = &lifecycle.Route{Case: sr.handles[sr.nodes[n.StepIndex].Label], Error: &workflow.Value{Inline: []byte(`{"code":"REFUSED"}`)}}
	case lifecycle.NeedJoin:
		f := &lifecycle.Join{Value: &workflow.Value{Inline: []byte(`{}`)}}
		if sr.join != "" {
			f = &lifecycle.Join{Problem: &workflow.Failure{Code: sr.join, Message: "two branches give a value for one name"}}
		}
		sr.facts.Joins = map[lifecycle.Need]*lifecycle.Join{n: f}
	default:
		return false
	}
	return true
}
