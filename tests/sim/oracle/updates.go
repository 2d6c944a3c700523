package oracle

import (
	"maps"
	"reflect"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// EntityWritten is called on every write of an entity.
func (o *Oracle) EntityWritten(before, after workflow.Entity) {
	attributes, _ := decode(after.Attributes).(map[string]any)
	o.versions[after.ID], o.writtenAt[after.ID] = append(o.versions[after.ID], attributes), append(o.writtenAt[after.ID], o.Now)
	if after.Token == before.Token {
		return // an import
	}
	for _, x := range o.executions {
		h, held := HolderOf(o.locks[after.Key()], x.x.ID, x.x.Epoch)
		if !held || h.Token != after.Token || x.unjudged {
			continue
		}
		want, _ := decode(before.Attributes).(map[string]any)
		want = maps.Clone(want)
		set := x.updatesOf(after.ID)
		maps.Copy(want, set)
		if len(set) == 0 || !reflect.DeepEqual(want, attributes) {
			o.Failf(lawInventory, "%s writes %v to %s, which had %s; its jobs have set %v", x.x.ID, attributes, after.ID, before.Attributes, set)
		}
		x.written[after.ID] = after.Token
	}
}

// updatesOf returns the attributes of an entity that a completed execution has to write.
func (x *execution) updatesOf(id string) map[string]any {
	all := map[string]any{}
	if x.x.Probe || x.x.LockMode == workflow.LockShared || x.entityFailed(id) {
		return all // under shared locks nothing is written; a job that requests an update fails its step
	}
	for i := range x.x.StepRuns {
		r := &x.x.StepRuns[i]
		if !r.Forward() || x.superseded(r, x.x.Try) || x.undone(r, id, x.x.Try) {
			continue
		}
		if f := x.fateOf(r, id); f.ok() {
			maps.Copy(all, f.set)
		}
	}
	return all
}

// entityFailed reports whether an entity has failed in the execution, so that what was executed on
// it is undone, or was pure. An entity that a definition leaves as it is counts as failed only if
// nothing has changed it.
func (x *execution) entityFailed(id string) bool {
	failed, changed := x.failure(id)
	return failed && (!changed || !x.program.definition.LeavesFailed)
}

// failure reports whether an entity has failed in a step that no later try has made again, and whether a step that
// stands has changed it.
func (x *execution) failure(id string) (failed, changed bool) {
	lastTry := map[int]int{} // in which the entity took part, by step
	failedIn := map[int]map[int]bool{}
	for i := range x.x.StepRuns {
		r := &x.x.StepRuns[i]
		if r.Kind != workflow.JobExecute || x.superseded(r, x.x.Try) {
			continue
		}
		n := x.program.find(r.Label)
		f := x.fateOf(r, id)
		if f.part == partNone {
			continue
		}
		lastTry[n] = r.Try
		changed = changed || f.code.executed() && !r.Pure && !x.undone(r, id, x.x.Try)
		ended := f.part == partUnmet || f.code.code == workflow.JobCodeFail || f.code.code == workflow.JobCodeUnknown
		if f.failed() && ended && (x.program.handler(n) < 0 || f.inDoubt(r)) {
			if failedIn[n] == nil {
				failedIn[n] = map[int]bool{}
			}
			failedIn[n][r.Try] = true
		}
	}
	for n, try := range lastTry {
		failed = failed || failedIn[n][try]
	}
	return failed, changed
}

// doubtful are the failures after which nobody knows how far the block was executed.
var doubtful = map[string]bool{
	workflow.FailureTimeout: true, workflow.FailureWorkerCrash: true, workflow.FailureHTTPTimeout: true, workflow.FailureHTTPUnreachable: true,
	workflow.FailureBadGateway: true, workflow.FailureGatewayTimeout: true,
}

// inDoubt reports whether a block that must not be repeated has an unknown outcome.
func (f *fate) inDoubt(r *workflow.StepRun) bool {
	unknown := f.code.code == workflow.JobCodeUnknown || doubtful[f.code.failed]
	return f.code.executed() && unknown && !r.Pure && !(r.Idempotent && r.Reversible)
}

// checkWritten requires that an execution that has completed has written what its jobs have set.
func (x *execution) checkWritten() {
	if why := x.x.Error; why != nil && why.Code == workflow.FailureUpdatesNotApplied {
		return // it reports that it could not
	}
	for _, id := range x.currentTry().entities {
		if _, written := x.written[id]; !written && len(x.updatesOf(id)) > 0 {
			x.Failf(lawInventory, "%s has ended in %s without writing %v to %s", x.x.ID, sm.ExecutionCompletedAck, x.updatesOf(id), id)
		}
	}
}
