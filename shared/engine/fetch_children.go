package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fetchChildren answers NeedChildren, NeedFailedChildren and NeedChildrenClose: the state of the
// children of a step run that starts one for each item.
func (w *workspace) fetchChildren(ctx context.Context, n lifecycle.Need) error {
	r := w.execution.StepRunBySeq(n.StepRunSeq)
	if r == nil || !r.IsSet() {
		return workflow.Errorf(workflow.CodeInternal, "step run %d has no set of children", n.StepRunSeq)
	}
	read := w.readChildren
	switch {
	case n.Kind == lifecycle.NeedChildrenClose:
		read = w.readChildrenToClose
	case r.Child.Mode == workflow.ModeFireAndForget:
		read = w.startFireAndForget
	case n.Kind == lifecycle.NeedFailedChildren:
		read = w.checkFailedChildren
	}
	s, err := read(ctx, r)
	if err != nil {
		return err
	}
	if w.facts.Children == nil {
		w.facts.Children = map[int]*lifecycle.ChildSet{}
	}
	w.facts.Children[r.Seq] = s
	return nil
}

// childLanes holds the lanes of a set of children that are done, and those of them that failed, as
// the done sets say.
type childLanes struct{ done, failed map[int]bool }

func (w *workspace) readChildLanes(ctx context.Context, r *workflow.StepRun) (childLanes, error) {
	sets := make([]workflow.DoneSet, r.Shards())
	err := parallel.Each(ctx, w.e.Parallelism, len(sets), func(ctx context.Context, i int) (err error) {
		sets[i], err = w.ports.Packs.DoneSet(ctx, w.setKey(r), i)
		return err
	})
	lanes := childLanes{map[int]bool{}, map[int]bool{}}
	for i, set := range sets {
		for lane := range set.Done {
			lanes.done[i*workflow.LanesPerShard+lane] = true
		}
		for lane := range set.Unsuccessful {
			lanes.failed[i*workflow.LanesPerShard+lane] = true
		}
	}
	return lanes, err
}

// setKey returns the key of the done sets of a set of children.
func (w *workspace) setKey(r *workflow.StepRun) workflow.StepRunKey {
	return workflow.StepRunKey{Tenant: w.tenant, Execution: w.id, Ordinal: r.Ordinal, Seq: r.Seq}
}

// maxChildrenRead is how many children are read, and kept in memory, at a time.
const maxChildrenRead = 100

// eachChild reads the children in some lanes, maxChildrenRead at a time, and calls visit for each.
// x is nil if the child does not exist.
func (w *workspace) eachChild(ctx context.Context, r *workflow.StepRun, lanes []int, visit func(lane int, x *workflow.Execution) error) error {
	for some := range slices.Chunk(lanes, maxChildrenRead) {
		ids := make([]string, len(some))
		for i, lane := range some {
			ids[i] = r.ChildID(w.id, lane)
		}
		found, newer, err := w.ports.Store.LoadMany(ctx, w.tenant, ids)
		if err != nil {
			return err
		}
		if len(newer) > 0 {
			return workflow.Errorf(workflow.CodeUnavailable, "execution %s was written by a newer release", newer[0])
		}
		byID := make(map[string]*workflow.Execution, len(found))
		for _, x := range found {
			byID[x.ID] = x
		}
		for i, lane := range some {
			if err := visit(lane, byID[ids[i]]); err != nil {
				return err
			}
		}
	}
	return nil
}

// allLanes returns the lanes of a step run.
func allLanes(r *workflow.StepRun) []int {
	lanes := make([]int, r.Jobs)
	for i := range lanes {
		lanes[i] = i
	}
	return lanes
}

// readChildren counts the children that are over and, where that may have changed, finds those
// that wait for a person. If the timer has fired, it also repairs what was lost: it starts children
// that should exist but do not, and adds to the done set those that are over but could not do so
// themselves.
func (w *workspace) readChildren(ctx context.Context, r *workflow.StepRun) (*lifecycle.ChildSet, error) {
	lanes, err := w.readChildLanes(ctx, r)
	if err != nil {
		return nil, err
	}
	timerFired := !w.execution.DueAt.IsZero() && !w.execution.DueAt.After(w.now)
	all := timerFired || w.sawAsks && len(r.Child.Asks) == 0
	var read []int
	for lane := range r.Jobs {
		mayExist := lane < r.Window || lanes.done[lane-r.Window]
		asks := len(w.askingLanes) > 0 && (slices.Contains(w.askingLanes, lane) || slices.Contains(r.Child.Asks, lane))
		if !lanes.done[lane] && mayExist && (all || asks || lane == 0 && len(lanes.done) == 0) {
			read = append(read, lane)
		}
	}
	s := &lifecycle.ChildSet{StepRunSeq: r.Seq, Looked: all || len(w.askingLanes) > 0}
	w.sawAsks = w.sawAsks || s.Looked && len(r.Child.Asks) > 0
	var start []int
	err = w.eachChild(ctx, r, read, func(lane int, x *workflow.Execution) error {
		switch {
		case x == nil && !all:
			start = allLanes(r)[:r.Window] // the handler that committed the step run has not started them
		case x == nil:
			start = append(start, lane)
		case lifecycle.IsOver(x):
			failed := x.State != sm.ExecutionCompletedAck
			if _, err := w.ports.Packs.AddDone(ctx, w.setKey(r).Pack(lane, 1), workflow.LaneResult{Unsuccessful: failed}); err != nil {
				return err
			}
			if lanes.done[lane] = true; failed {
				lanes.failed[lane] = true
			}
			if next := lane + r.Window; next < r.Jobs && !lanes.done[next] {
				start = append(start, next)
			}
		case lifecycle.WaitsForPerson(x):
			s.Asking = append(s.Asking, lane)
			if s.AskingID == "" {
				s.AskingID, s.Asks = x.ID, workflow.Truncate(x.Wait.Reason, workflow.MaxShortMessage)
			}
		}
		return nil
	})
	if err == nil && len(start) > 0 {
		s.Failure, err = w.startLanes(ctx, r, start, &lanes)
		s.Refused = s.Failure != nil
	}
	if len(s.Asking) > workflow.MaxAsks {
		s.Asking = s.Asking[:workflow.MaxAsks]
	}
	s.Done, s.Failed = len(lanes.done), len(lanes.failed)
	return s, err
}

// checkFailedChildren counts the children that are over now: a child that had failed may have been
// retried since.
func (w *workspace) checkFailedChildren(ctx context.Context, r *workflow.StepRun) (*lifecycle.ChildSet, error) {
	lanes, err := w.readChildLanes(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &lifecycle.ChildSet{StepRunSeq: r.Seq, Done: len(lanes.done), Checked: true}
	var failed []int
	for lane := range lanes.failed {
		failed = append(failed, lane)
	}
	slices.Sort(failed)
	return s, w.eachChild(ctx, r, failed, func(_ int, x *workflow.Execution) error {
		switch {
		case x == nil: // it could not be started
			s.Failed++
		case !lifecycle.IsOver(x):
			s.Done--
		case x.State != sm.ExecutionCompletedAck:
			s.Failed++
		}
		return nil
	})
}

// childResult is the entry of a child in the result of its step.
type childResult struct {
	ID     string            `json:"id"`
	State  sm.ExecutionState `json:"state"`
	Output json.RawMessage   `json:"output,omitempty"`
}

// readChildrenToClose reads every child of a step run that is being closed, and tells the running
// ones that it is closed. It adds children that were never started to the done set, so that this
// execution is woken when the last child is over. If a message is lost, the timer repeats it.
//
// In fire-and-forget mode a child counts as absent if it found the step run closed, and as
// successful otherwise, since the step only has to start it. Both kinds are added to the done set,
// so that the last child that does not begin completes the set.
func (w *workspace) readChildrenToClose(ctx context.Context, r *workflow.StepRun) (*lifecycle.ChildSet, error) {
	s := &lifecycle.ChildSet{StepRunSeq: r.Seq}
	results := make([]json.RawMessage, r.Items)
	for i := range results {
		results[i] = json.RawMessage("null")
	}
	var absent, begun, openLanes []int
	forgotten := r.Child.Mode == workflow.ModeFireAndForget
	var open []workflow.Wakeup
	size := 0
	failed := func(lane int, message string) {
		if s.Failure == nil {
			s.Failure = &workflow.Failure{Code: string(workflow.CauseChildFailed), Step: r.Label, Entity: workflow.ItemKey(r.ItemOf(lane)).Name(), Message: message}
		}
	}
	err := w.eachChild(ctx, r, allLanes(r), func(lane int, x *workflow.Execution) error {
		if x == nil || forgotten && lifecycle.NeverBegins(x) {
			absent = append(absent, lane)
			return nil
		}
		result := childResult{ID: x.ID, State: x.State}
		over, changes := lifecycle.IsOver(x), lifecycle.HasChanges(x)
		if forgotten {
			over, changes = r.Child.Started || x.State != sm.ExecutionNew, false
		}
		if over && !forgotten && x.State != sm.ExecutionCompletedAck {
			why := fmt.Sprintf("execution %s, which step %q started for %s, ended in %s", x.ID, r.Label, workflow.ItemKey(r.ItemOf(lane)).Name(), x.State)
			if x.Error != nil {
				why += ": " + x.Error.Message
			}
			failed(lane, why)
		}
		switch {
		case !over:
			s.Open++
			openLanes = append(openLanes, lane)
			open = append(open, workflow.Wakeup{Tenant: w.tenant, Execution: x.ID, Reason: "its parent does not wait any more", FromParent: true})
		case forgotten:
			s.Counts.OK++
			begun = append(begun, lane)
		case x.State == sm.ExecutionCompletedAck:
			s.Counts.OK++
			s.Partial = s.Partial || x.Outcome() == workflow.OutcomePartial
			if given := x.GivenOutput(); given != nil {
				c := w.e.newWorkspace(w.tenant, x.ID)
				output, err := c.loadValue(ctx, given)
				w.pendingCost.Add(c.ports.Meter.Take())
				if err != nil {
					return err
				}
				result.Output = output
			}
		case changes:
			s.Counts.Failed++
		case x.State == sm.ExecutionCancelledAck:
			s.Counts.NotExecuted++
		default: // it failed and left nothing behind
			s.Counts.Failed++
			s.Counts.Unsent++
		}
		s.HasChanges = s.HasChanges || over && changes
		raw, err := workflow.EncodeJSON(result)
		if size += len(raw); err == nil && size > workflow.MaxSetBytes {
			result.Output = nil // keep the id and state of each child, so that a retry does not start it again
			raw, err = workflow.EncodeJSON(result)
		}
		results[r.ItemOf(lane)] = raw
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := w.countAbsent(ctx, r, s, absent, failed); err != nil {
		return nil, err
	}
	if s.Counts.Failed > 0 {
		s.Counts.Failure = s.Failure
	}
	if !r.LetGo && s.Open > 0 {
		w.sendWakeups(ctx, "children", open)
		return s, w.addLanes(ctx, r, append(absent, begun...), openLanes)
	}
	if size > workflow.MaxSetBytes {
		s.Problem = &workflow.Failure{Code: workflow.FailureLimitValue, Step: r.Label, Message: fmt.Sprintf("the executions that step %q started give %d bytes, the limit is %d", r.Label, size, workflow.MaxSetBytes)}
	}
	raw, err := workflow.EncodeJSON(results)
	if err != nil {
		return s, err
	}
	p, err := w.ensurePlanner(ctx)
	if err == nil && s.Problem == nil && r.Forward() && p.Program.Nodes[r.StepIndex].OutputKey != "" {
		s.Problem = planner.TooDeep(r.Label, "what the executions give together", raw)
	}
	if err == nil {
		s.Results, err = w.offloadValue(ctx, &workflow.Value{Inline: raw})
	}
	return s, err
}

// countAbsent counts the children that do not exist: those that were refused have failed, the
// others were never meant to begin.
func (w *workspace) countAbsent(ctx context.Context, r *workflow.StepRun, s *lifecycle.ChildSet, absent []int, failed func(lane int, message string)) error {
	if len(absent) == 0 {
		return nil
	}
	lanes, err := w.readChildLanes(ctx, r)
	if err != nil {
		return err
	}
	for _, lane := range absent {
		if !lanes.failed[lane] {
			s.Counts.NotExecuted++
			continue
		}
		s.Counts.Failed++
		s.Counts.Unsent++
		if s.Failure != nil {
			continue
		}
		message := fmt.Sprintf("step %q could not start an execution for %s", r.Label, workflow.ItemKey(r.ItemOf(lane)).Name())
		if why := w.whyRefused(ctx, r, lane); why != "" {
			message += ": " + why
		}
		failed(lane, message)
	}
	return nil
}

// whyRefused returns why the child of a lane could not be started; "" if that is unknown.
func (w *workspace) whyRefused(ctx context.Context, r *workflow.StepRun, lane int) string {
	d, err := w.definition(ctx, r.Child.Workflow)
	if err != nil {
		return ""
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return ""
	}
	inputs, err := p.ChildInputs(ctx, w.execution, r, []int{lane})
	if err != nil {
		return ""
	}
	if _, refused := childInput(d, r, inputs[0]); refused != nil {
		return refused.Message
	}
	return ""
}

// addLanes adds lanes to their done sets. Of the lanes in open, the children were not over when they
// were read. One that is over meanwhile has found the set of its shard without the lanes that are
// added now, and has woken nobody: then this execution wakes itself.
func (w *workspace) addLanes(ctx context.Context, r *workflow.StepRun, add, open []int) error {
	for shard := range r.Shards() {
		other := func(lane int) bool { return lane/workflow.LanesPerShard != shard }
		lanes := slices.DeleteFunc(slices.Clone(add), other)
		if len(lanes) == 0 {
			continue
		}
		set, err := w.ports.Packs.AddDoneLanes(ctx, w.setKey(r), shard, lanes)
		if err != nil {
			return err
		}
		full := len(set.Done) >= workflow.LanesOfShard(r.Jobs, shard)
		if here := slices.DeleteFunc(slices.Clone(open), other); full && set.Added && len(here) > 0 {
			w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "children over")})
		}
	}
	return nil
}

// startChildren starts the first children of a step run that has just been committed.
func (w *workspace) startChildren(ctx context.Context, r *workflow.StepRun) error {
	lanes := childLanes{map[int]bool{}, map[int]bool{}}
	refused, err := w.startLanes(ctx, r, allLanes(r)[:min(r.Jobs, r.Window)], &lanes)
	if err != nil {
		w.recorder.Warn(ctx, "children not started; the timer will retry", err)
		return nil
	}
	if refused == nil && r.Child.Mode == workflow.ModeDispatch {
		return nil // each child reports when it is over
	}
	return w.ports.Sender.SendWakeups(ctx, 0, wakeup(w.execution, "children started"))
}

// startNext starts the child of one lane, because the child before it in the window is over.
func (w *workspace) startNext(ctx context.Context, r *workflow.StepRun, lane int) error {
	working := w.execution.State == sm.ExecutionRunning || w.execution.State == sm.ExecutionWaiting
	if !working || !r.Open() || r.Closing || lane < 0 || lane >= r.Jobs || w.execution.MinFencingToken != w.e.Policy.MinFencingToken {
		return nil
	}
	lanes := childLanes{map[int]bool{}, map[int]bool{}}
	_, err := w.startLanes(ctx, r, []int{lane}, &lanes)
	return err
}

// startLanes creates the children of some lanes, unless they exist, and wakes them. A refusal of a
// child is final: its lane is done, and the next lane of the window follows. If lane 0 is among the
// lanes, all children of the step run are counted first; refused is set if there are too many.
func (w *workspace) startLanes(ctx context.Context, r *workflow.StepRun, lanes []int, known *childLanes) (refused *workflow.Failure, err error) {
	parent, refused := w.parentOf(r)
	if refused != nil {
		return refused, nil
	}
	if slices.Contains(lanes, 0) {
		if refused, err := w.countChildren(ctx, r, parent.Root, fmt.Sprintf("%s.%d", w.id, r.Seq), r.Jobs); refused != nil || err != nil {
			return refused, err
		}
	}
	d, err := w.definition(ctx, r.Child.Workflow)
	if err != nil {
		return nil, err
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return nil, err
	}
	anyRefused := false
	for len(lanes) > 0 {
		inputs, err := p.ChildInputs(ctx, w.execution, r, lanes)
		if err != nil {
			return nil, err
		}
		children := make([]*workspace, len(lanes))
		err = parallel.Each(ctx, w.e.Parallelism, len(lanes), func(ctx context.Context, i int) error {
			by := *parent
			by.Member = &workflow.SetMember{Lane: lanes[i], Lanes: r.Jobs, Window: r.Window, Ordinal: r.Ordinal, Item: r.ItemOf(lanes[i])}
			in, refused := childInput(d, r, inputs[i])
			if refused != nil {
				return nil
			}
			children[i] = w.e.newWorkspace(w.tenant, r.ChildID(w.id, lanes[i]))
			x, err := children[i].newExecution(ctx, w.newChild(d, r, &by), in)
			if err != nil {
				return err
			}
			return children[i].createOnly(ctx, x)
		})
		wakeups, next := []workflow.Wakeup{}, []int{}
		for i, c := range children {
			if c != nil {
				w.pendingCost.Add(c.ports.Meter.Take())
				wakeups = append(wakeups, workflow.Wakeup{Tenant: w.tenant, Execution: c.id, Reason: "start"})
				continue
			}
			if err != nil {
				continue
			}
			if _, err = w.ports.Packs.AddDone(ctx, w.setKey(r).Pack(lanes[i], 1), workflow.LaneResult{Unsuccessful: true}); err != nil {
				continue
			}
			known.done[lanes[i]], known.failed[lanes[i]], anyRefused = true, true, true
			if after := lanes[i] + r.Window; after < r.Jobs {
				next = append(next, after)
			}
		}
		if err != nil {
			return nil, err
		}
		w.sendWakeups(ctx, "children", wakeups)
		lanes = next
	}
	if anyRefused {
		w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "children refused")})
	}
	return nil, nil
}

// startFireAndForget starts the children of a set in fire-and-forget mode, a window at a time. Each is
// done once it exists.
func (w *workspace) startFireAndForget(ctx context.Context, r *workflow.StepRun) (*lifecycle.ChildSet, error) {
	s := &lifecycle.ChildSet{StepRunSeq: r.Seq, Checked: true}
	lanes, err := w.readChildLanes(ctx, r) // children that were refused
	if err != nil {
		return nil, err
	}
	var start []int
	exist := 0
	err = w.eachChild(ctx, r, allLanes(r), func(lane int, x *workflow.Execution) error {
		if x != nil {
			exist++
		} else if !lanes.done[lane] && len(start) < r.Window {
			start = append(start, lane)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	refusedBefore := len(lanes.failed)
	if len(start) > 0 {
		if s.Failure, err = w.startLanes(ctx, r, start, &lanes); err != nil || s.Failure != nil {
			s.Refused = s.Failure != nil
			return s, err
		}
	}
	exist += len(start) - (len(lanes.failed) - refusedBefore)
	if s.Done, s.Failed = exist+len(lanes.failed), len(lanes.failed); s.Done < r.Jobs {
		w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "more children")})
	}
	return s, nil
}

// memberWakeups returns the wake-ups that follow when a child of a set ends, or starts or stops
// asking a person. When the child ends, it adds it to the done set of its step run. It wakes the
// parent if there may be something to decide, and has the next child of the window started. If any
// of this is lost, the parent's timer makes up for it.
func (w *workspace) memberWakeups(ctx context.Context, from, to *workflow.Execution, ended bool) []workflow.Wakeup {
	by, m := to.Parent, to.Parent.Member
	look := workflow.Wakeup{Tenant: w.tenant, Execution: by.Execution, Reason: "child " + w.id + " is in " + string(to.State)}
	asked := pendingQuestion(from) != pendingQuestion(to)
	if asked {
		look.Children = []int{m.Lane}
	}
	if !ended {
		return []workflow.Wakeup{look}
	}
	var wakeups []workflow.Wakeup
	if next := m.Lane + m.Window; m.Window > 0 && next < m.Lanes {
		wakeups = append(wakeups, workflow.Wakeup{Tenant: w.tenant, Execution: by.Execution, Reason: look.Reason, StepRunSeq: by.StepRunSeq, Lane: &next})
	}
	stepRun := workflow.StepRunKey{Tenant: w.tenant, Execution: by.Execution, Ordinal: m.Ordinal, Seq: by.StepRunSeq}
	failed := to.State != sm.ExecutionCompletedAck && !lifecycle.NeverBegins(to)
	key := stepRun.Pack(m.Lane, 1)
	set, err := w.ports.Packs.AddDone(ctx, key, workflow.LaneResult{Unsuccessful: failed})
	if err != nil {
		w.recorder.Warn(ctx, "the parent does not know that this child is over; its timer will find out", err)
		return wakeups
	}
	if full := len(set.Done) >= workflow.LanesOfShard(m.Lanes, key.Shard()); full || asked || failed && (to.Cancellation == nil || to.Cancellation.Source != workflow.CancelledByParent) {
		wakeups = append(wakeups, look)
	}
	return wakeups
}
