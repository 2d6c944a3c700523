package chaos

import (
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// blockCall is a call of a block of this package, as the server of the blocks has got it.
type blockCall struct {
	block     string // its name
	operation string // EXECUTE, ROLLBACK
	job       string
	entity    string
}

// callLog collects the calls of the blocks. It outlives everything that is killed.
type callLog struct {
	mu    sync.Mutex
	calls []blockCall
}

func (l *callLog) add(c blockCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

func (l *callLog) all() []blockCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// calledSteps are the steps of each definition whose blocks are called over HTTP. The others are
// served by the polling worker, whose calls only the devices see.
var calledSteps = map[string][]string{
	"chaos/upgrade":  {"check"},
	"chaos/mixed":    {"read", "first", "set", "check"},
	"chaos/pipeline": {"read", "bump", "check"},
	"chaos/once":     {"read", "set", "touch", "check"},
	"chaos/asked":    {"read", "bump", "set", "check"},
	"chaos/audit":    {"read", "check"},
	"chaos/crowd":    {"read"},
}

// blockFailures are the codes of failures that the server of the blocks answers.
var blockFailures = []string{"CHOSEN", "DEVICE", "UNREACHABLE", "INTERRUPTED", "ANSWER"}

// checkCalls compares the calls of the blocks with the jobs that the service tells of, in both
// directions: each call is of a job that may have begun, and each job that was executed was called.
// A block that is not idempotent was called once for a job at most.
func (v *checker) checkCalls() {
	called := map[string]int{}
	for _, c := range v.calls {
		j, known := v.jobs[c.job]
		called[c.job]++
		switch {
		case !known:
			v.violate("block %s was called for job %q, which is unknown", c.block, c.job)
			continue
		case !slices.Contains(calledSteps[j.execution.Workflow.FullName()], j.Step):
			v.violate("block %s was called for job %s of %s", c.block, c.job, j.Step)
		case j.Entity == nil || j.Entity.ID != c.entity:
			v.violate("block %s was called for %s by job %s, which belongs to %v", c.block, c.entity, c.job, j.Entity)
		case (j.Kind == workflow.JobRollback) != (c.operation == "ROLLBACK"):
			v.violate("block %s was called to %s by job %s, which is to %s", c.block, c.operation, c.job, j.Kind)
		}
		pure := c.block == "read" || c.block == "check" // the end of a step and the call may be at the same time, and nothing remains
		if !pure && (j.State == sm.JobCancelled || j.State == sm.JobPending) {
			v.violate("block %s was called for job %s, which is %s", c.block, c.job, j.State)
		}
		if once := c.block == "touch" || c.block == "bump"; once && c.operation == "EXECUTE" && called[c.job] == 2 {
			v.violate("block %s, which is not idempotent, was called twice for job %s", c.block, c.job)
		}
	}
	for _, j := range v.jobs {
		if !slices.Contains(calledSteps[j.execution.Workflow.FullName()], j.Step) || called[j.ID] > 0 {
			continue
		}
		if j.State == sm.JobCompleted || j.State == sm.JobFailed && j.Error != nil && slices.Contains(blockFailures, j.Error.Code) {
			v.violate("job %s, %s of %s on %s, is %s and was never called", j.ID, j.Kind, j.Step, j.Entity, j.State)
		}
	}
}
