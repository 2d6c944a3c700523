package query

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Children lists the executions that an execution, or one of its steps, has started, with their
// current states. They are in the order in which the steps were entered, and of the items.
func (v *Service) Children(ctx context.Context, c workflow.Caller, id, step string, p workflow.Page) (workflow.List[views.ChildExecutionView], error) {
	var list workflow.List[views.ChildExecutionView]
	after, err := parseChildToken(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, bytes := i.Execution(), 0
	add := func(shown views.ChildExecutionView) bool {
		if bytes += len(shown.Output); len(list.Items) == pageLimit(p) || len(list.Items) > 0 && bytes > maxPageBytes {
			list.NextToken = encodePageToken(after.String())
			return false
		}
		list.Items = append(list.Items, shown)
		return true
	}
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if r.Child == nil || r.Seq < after.seq || step != "" && r.Label != step {
			continue
		}
		read := func(int) (views.ChildExecutionView, error) { return onlyChild(ctx, i, r) }
		if r.IsSet() {
			if read, err = childrenOf(ctx, i, r); err != nil {
				return list, err
			}
		}
		if r.Seq > after.seq {
			after = childToken{r.Seq, 0}
		}
		for lanes := max(1, r.Jobs); after.lane < lanes; after.lane++ {
			shown, err := read(after.lane)
			if err != nil {
				return list, err
			}
			if !add(shown) {
				return list, v.addPresent(ctx, i, list.Items)
			}
		}
	}
	return list, v.addPresent(ctx, i, list.Items)
}

// childToken is the position where a page begins: the step run, and the lane in it.
type childToken struct{ seq, lane int }

func (t childToken) String() string { return strconv.Itoa(t.seq) + "." + strconv.Itoa(t.lane) }

func parseChildToken(p workflow.Page) (t childToken, err error) {
	if p.Token == "" {
		return t, nil
	}
	text, err := decodePageToken(p)
	if err != nil {
		return t, err
	}
	seq, lane, _ := strings.Cut(text, ".")
	t.seq, err = strconv.Atoi(seq)
	if err == nil {
		t.lane, err = strconv.Atoi(lane)
	}
	if err != nil || t.seq < 0 || t.lane < 0 {
		return t, invalidPageToken()
	}
	return t, nil
}

// shownChild returns what the step run of a child knows about it.
func shownChild(id string, r *workflow.StepRun) views.ChildExecutionView {
	return views.ChildExecutionView{
		ID: id, Step: r.Label, Sequence: r.Seq, Try: max(r.Try, 1), Superseded: r.SupersededBy > 0, Workflow: r.Child.Workflow, Mode: r.Child.Mode,
	}
}

func onlyChild(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) (shown views.ChildExecutionView, err error) {
	shown = shownChild(r.Child.ID, r)
	if undone := i.Execution().StepRunBySeq(r.Undoes); undone != nil && undone.Child != nil {
		shown.Compensates = &undone.Child.ID
	}
	if value := r.ChildOutput(); value != nil && r.Status == sm.StepCompleted {
		shown.Output, err = loadValue(ctx, i, r.Seq, value)
	}
	return shown, err
}

// childrenOf reads the items and the results of a set of children, and returns a function that
// shows the child of a lane.
func childrenOf(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) (func(lane int) (views.ChildExecutionView, error), error) {
	items, err := valueList(ctx, i, r.Seq, r.List)
	if err != nil {
		return nil, err
	}
	results, err := childResults(ctx, i, r)
	if err != nil {
		return nil, err
	}
	return func(lane int) (views.ChildExecutionView, error) {
		number := r.ItemOf(lane)
		shown := shownChild(r.ChildID(i.Execution().ID, lane), r)
		shown.Superseded = i.Execution().RetriedForItem(r, number)
		if shown.Item = &number; number < len(items) {
			shown.ItemText = ptr((&workflow.Item{Number: number, Value: items[number]}).Text())
		}
		var result struct {
			Output json.RawMessage `json:"output"`
		}
		if number < len(results) && len(results[number]) > 0 {
			if err := json.Unmarshal(results[number], &result); err != nil {
				return shown, workflow.Errorf(workflow.CodeInternal, "the children of step %q cannot be decoded: %w", r.Label, err)
			}
		}
		shown.Output = result.Output
		return shown, nil
	}, nil
}

// childResults returns the results of a set of children, by item; nil if they do not exist yet or
// have been deleted.
func childResults(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) ([]json.RawMessage, error) {
	if r.Status == sm.StepCaseHandled {
		return nil, nil // its value is the failure
	}
	return valueList(ctx, i, r.Seq, r.Value)
}

// valueList loads a value that is a list; nil if there is none, or if it has been deleted.
func valueList(ctx context.Context, i *engine.Inspection, seq int, value *workflow.Value) (list []json.RawMessage, err error) {
	if value == nil {
		return nil, nil
	}
	raw, err := loadValue(ctx, i, seq, value)
	if err != nil || raw == nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "a list cannot be decoded: %w", err)
	}
	return list, nil
}

// addPresent adds the current state of the executions. If a newer release has written an execution,
// only its state is known.
func (v *Service) addPresent(ctx context.Context, i *engine.Inspection, items []views.ChildExecutionView) error {
	if len(items) == 0 {
		return nil
	}
	ids := make([]string, len(items))
	for n := range items {
		ids[n] = items[n].ID
	}
	store, tenant := i.Ports().Store, i.Execution().Tenant
	found, newer, err := store.LoadMany(ctx, tenant, ids)
	if err != nil {
		return err
	}
	now, waits := map[string]*workflow.Execution{}, map[string]*views.Waiting{}
	listed, err := v.listedWaits(ctx, tenant, found)
	if err != nil {
		return err
	}
	for i, child := range found {
		now[child.ID] = child
		waits[child.ID] = listed[i]
	}
	heads, err := store.Heads(ctx, tenant, newer)
	if err != nil {
		return err
	}
	for n := range items {
		shown := &items[n]
		if head := heads[shown.ID]; head.State != "" {
			shown.State, shown.Status = &head.State, ptr(sm.StatusOf(head.State))
		}
		child := now[shown.ID]
		if child == nil || !child.DiscardedAt.IsZero() {
			continue // it never began, or its retention is over
		}
		shown.State, shown.Status = &child.State, ptr(sm.StatusOf(child.State))
		if outcome := child.Outcome(); outcome != "" {
			shown.Outcome = &outcome
		}
		if shown.Parameters = child.Input.Shown(); child.Input.Offloaded {
			shown.Parameters = nil
		}
		shown.Waiting, shown.Started = waits[child.ID], ptr(startedBy(child))
	}
	return nil
}

// startedBy returns how many executions an execution has started or will start.
func startedBy(x *workflow.Execution) (n int) {
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.IsSet() {
			n += r.Jobs
		} else if r.Child != nil && !r.LacksChild() {
			n++
		}
	}
	return n
}

// childSetView returns the set of children of a step run; nil if it has none. The number of
// finished children is filled in once the step run has ended.
func childSetView(r *workflow.StepRun) *views.ChildSetView {
	if !r.IsSet() {
		return nil
	}
	s := &views.ChildSetView{Step: r.Label, Sequence: r.Seq, Workflow: r.Child.Workflow, Mode: r.Child.Mode, Total: r.Jobs, AtATime: r.Window, Asking: len(r.Child.Asks)}
	if !r.Open() {
		s.Done, s.Failed = ptr(r.Jobs-r.Counts.NotExecuted), ptr(r.Counts.Failed)
	}
	return s
}

// countChildren counts the children of a set that are over, by the done sets that they wrote when
// they ended.
func countChildren(ctx context.Context, i *engine.Inspection, r *workflow.StepRun, s *views.ChildSetView) error {
	if s == nil || s.Done != nil {
		return nil
	}
	done, failed, err := i.ChildLanes(ctx, r)
	if err != nil {
		return err
	}
	s.Done, s.Failed = ptr(len(done)), ptr(len(failed))
	return nil
}
