package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// CheckRerun refuses to repeat an execution that has not ended.
func CheckRerun(x *workflow.Execution) error {
	if sm.Terminal(x.State) {
		return nil
	}
	return &workflow.Error{
		Code:    workflow.CodeIllegalTransition,
		Message: fmt.Sprintf("cannot rerun execution %s in state %s: it has not ended", x.ID, x.State),
	}
}

// recordRerun records that another execution repeats some entities of this one. It changes no
// state, and a repetition changes nothing. Ids are ordered by creation, so a late record does not
// displace a newer one.
func (d *decider) recordRerun(c Command) error {
	if err := CheckRerun(d.execution); err != nil {
		return err
	}
	by := append(slices.Clone(d.execution.RerunBy), c.RerunBy)
	slices.Sort(by)
	by = slices.Compact(by)
	by = by[max(0, len(by)-workflow.MaxReruns):]
	if !slices.Equal(by, d.execution.RerunBy) {
		d.execution.RerunBy, d.changed = by, true
	}
	return nil
}
