package query_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Lists can be filtered by what executions wait for, page by page, including what a branch waits
// for while others work.
func TestService_ListsByWhatIsWaitedFor(t *testing.T) {
	s := newHarness(t, 2, "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
	ids := map[string]string{"unsafe": s.Start("w", "d000")}
	s.Drain()
	for name, steps := range map[string]string{
		"input":     "[{label: a, wait: {input: {title: a}}}]",
		"timer":     "[{label: a, wait: {for: 1h}}]",
		"signal":    "[{label: a, wait: {signal: {name: x}}}]",
		"condition": "[{label: a, wait: {when: 'now < now'}}]",
		"branch":    "[{label: a, parallel: {branches: [{label: l, steps: [{label: b, functionBlock: p/once:1, runOn: global}]}, {label: r, steps: [{label: c, wait: {input: {title: c}}}]}]}}]",
		"both":      "[{label: a, parallel: {branches: [{label: l, steps: [{label: b, wait: {for: 1h}}]}, {label: r, steps: [{label: c, wait: {input: {title: c}}}]}]}}]",
		"parent":    "[{label: a, workflowReference: {workflow: p/input:1, mode: dispatch}}]",
	} {
		s.Publish(name, "steps: "+steps+"\n")
	}
	for _, name := range []string{"input", "timer", "signal", "condition", "branch", "both", "parent"} {
		ids[name] = s.StartWith(harness.NewStartRequest(name))
	}
	held := harness.NewStartRequest("timer")
	held.Hold = true
	ids["held"] = s.StartWith(held)
	ids["lock"] = s.Start("w", "d000")
	ids["worker"] = s.Start("w", "d001")
	s.DrainWakeups()
	names := map[string]string{}
	for name, id := range ids {
		names[id] = name
	}
	listed := func(f views.ExecutionFilter) (found []string) {
		for _, limit := range []int{1, 3, 100} {
			var page []string
			for _, x := range readPages(s, limit, func(p workflow.Page) (workflow.List[views.ExecutionView], error) {
				return s.Query.Executions(t.Context(), harness.Caller, f, p)
			}) {
				if name := names[x.ID]; name != "" {
					page = append(page, name)
				} else {
					page = append(page, "child")
				}
				if x.Waiting == nil || x.Waiting.Kind != f.Waiting && !slices.ContainsFunc(x.Waiting.All, func(o views.StepWaiting) bool { return o.Kind == f.Waiting }) {
					t.Errorf("%s: listed with %+v", f.Waiting, x.Waiting)
				}
			}
			slices.Sort(page)
			if limit > 1 && !slices.Equal(page, found) {
				t.Errorf("%s: %q on pages of %d, %q on others", f.Waiting, page, limit, found)
			}
			found = page
		}
		return found
	}
	for kind, want := range map[workflow.WaitKind][]string{
		workflow.WaitInput:       {"both", "branch", "child", "input"},
		workflow.WaitTimer:       {"both", "timer"},
		workflow.WaitSignal:      {"signal"},
		workflow.WaitCondition:   {"condition"},
		workflow.WaitChildInput:  {"parent"},
		workflow.WaitChild:       nil,
		workflow.WaitHold:        {"held"},
		workflow.WaitStep:        nil,
		workflow.WaitLock:        {"lock"},
		workflow.WaitAcknowledge: {"unsafe"},
		workflow.WaitEngine:      nil,
	} {
		if got := listed(views.ExecutionFilter{Waiting: kind}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	if got := listed(views.ExecutionFilter{Waiting: workflow.WaitInput, State: sm.ExecutionRunning}); !slices.Equal(got, []string{"branch"}) {
		t.Errorf("running: %q", got)
	}
	s.Advance(20 * time.Second) // longer than workers take, as a rule
	if got := listed(views.ExecutionFilter{Waiting: workflow.WaitWorker}); !slices.Equal(got, []string{"branch", "worker"}) {
		t.Errorf("for a worker: %q", got)
	}
	if got := listed(views.ExecutionFilter{Waiting: workflow.WaitInput}); !slices.Equal(got, []string{"both", "branch", "child", "input"}) {
		t.Errorf("beside a worker: %q", got)
	}
}
