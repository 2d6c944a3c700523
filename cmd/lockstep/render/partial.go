package render

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxReasons bounds how many steps the reasons of a partial outcome name.
const maxReasons = 3

// DescribePartial says why not everything succeeded in an execution that completed: how many entities failed, which
// steps, and by which rule the execution went on. It is "" of any other execution.
func DescribePartial(x views.ExecutionView) string {
	if x.Outcome == nil || *x.Outcome != workflow.OutcomePartial {
		return ""
	}
	var reasons []string
	if n := failedCount(x); n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of its entities failed", n))
	}
	for i, s := range x.FailedSteps {
		if i == maxReasons {
			reasons = append(reasons, fmt.Sprintf("%d more steps", len(x.FailedSteps)-i))
			break
		}
		reasons = append(reasons, failureLeft(s))
	}
	return OneLine(strings.Join(reasons, "; "))
}

// failureLeft says what failed in a step, and by which rule the execution went on.
func failureLeft(s views.FailedStep) string {
	what := "step " + s.Step + " failed"
	if c := s.Child; c != nil {
		what = fmt.Sprintf("execution %s (%s), which step %s has started,", c.ID, c.Workflow, s.Step)
		if s.Because != views.LeftChild && c.State != nil {
			what += fmt.Sprintf(" ended in %s", *c.State)
		} else if s.Because != views.LeftChild {
			what += " failed"
		}
	}
	switch s.Because {
	case views.LeftTolerated:
		return fmt.Sprintf("step %s: %d failed, which failureTolerance allows", s.Step, s.Jobs+s.Unmet)
	case views.LeftContinueOnError:
		return what + ", after which continueOnError goes on"
	case views.LeftBranch:
		return what + ", whose branch allowPartial leaves out"
	case views.LeftRollout:
		return what + ", which stopped the rollout"
	case views.LeftChild:
		if s.Child == nil {
			return "something failed in the executions that step " + s.Step + " has started"
		}
		return what + " completed in part"
	}
	return what
}
