package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The scenarios of timers, start conditions and schedules run in parallel on one stack.
func TestTimers_Scenarios(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*fixture){
		"N07_start_when":     startWhen,
		"N08_start_deadline": startDeadline,
		"N55_schedule":       cronSchedule,
		"not_before":         notBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stack := *s
			stack.t = t
			scenario(&fixture{localStack: &stack, blocks: b, name: strings.ToLower(name)})
		})
	}
}

// setGate sets the attribute open of the fixture's entity gate.
func (c *fixture) setGate(open bool) {
	c.t.Helper()
	e := workflow.Entity{Type: c.entityType(), ID: "gate", Attributes: json.RawMessage(fmt.Sprintf(`{"open":%v}`, open))}
	if _, err := c.PutEntity(c.t.Context(), e); err != nil {
		c.t.Fatal(err)
	}
}

// N7: the execution waits for its condition, names it, and starts when it is true.
func startWhen(c *fixture) {
	c.registerBlock("go", workflow.Block{Pure: true}, nil)
	c.setGate(false)
	c.publishWorkflow(fmt.Sprintf("config: {startWhen: 'entity(%q, \"gate\").open'}\n", c.entityType()), "label: go, block: go, runOn: global")
	id := c.startWorkflow("{}")
	x, err := c.Execution(c.t.Context(), id)
	if err != nil || x.State != sm.ExecutionBlockedWaiting {
		c.t.Fatalf("%+v, %v", x, err)
	}
	if x.Waiting == nil || x.Waiting.Kind != workflow.WaitCondition || x.Waiting.Condition == nil || !strings.Contains(*x.Waiting.Condition, "gate") {
		c.t.Errorf("waits for %+v", x.Waiting)
	}
	c.setGate(true)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if states := fmt.Sprint(c.stateHistory(id)); !strings.HasPrefix(states, "[NEW VALID BLOCKED_WAITING READY RESOURCE_DISCOVERY ") {
		c.t.Errorf("states %s", states)
	}
}

// N8: at its deadline the execution fails safely and names the condition.
func startDeadline(c *fixture) {
	c.registerBlock("go", workflow.Block{Pure: true}, nil)
	c.setGate(false)
	c.publishWorkflow(fmt.Sprintf("config: {startWhen: {condition: 'entity(%q, \"gate\").open', deadline: 2s}}\n", c.entityType()), "label: go, block: go, runOn: global")
	x := c.waitEnded(c.startWorkflow("{}"), sm.ExecutionFailedSafeAck)
	if x.Cause == nil || *x.Cause != workflow.CauseTimeout || !strings.Contains(x.Reason, "gate") {
		c.t.Errorf("%+v", x)
	}
}

// An execution starts at the requested time.
func notBefore(c *fixture) {
	c.registerBlock("go", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("", "label: go, block: go, runOn: global")
	at := time.Now().Add(2 * time.Second).UTC().Truncate(time.Millisecond)
	created, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, NotBefore: at})
	if err != nil {
		c.t.Fatal(err)
	}
	if x := c.waitEnded(created.ID, sm.ExecutionCompletedAck); x.StartedAt == nil || x.StartedAt.Before(at) {
		c.t.Errorf("started at %v, not before %v", x.StartedAt, at)
	}
}

// N55: a schedule starts one execution per fire time. Without concurrency it skips fire
// times while an execution has not ended.
func cronSchedule(c *fixture) {
	requireEmbedded(c.t, "its schedule fires every second, and the deployed sweeper runs every minute")
	release := make(chan struct{})
	c.registerBlock("go", workflow.Block{Pure: true, Timeout: workflow.Duration(time.Minute)}, func(call) blockAnswer {
		<-release
		return okAnswer(nil)
	})
	c.publishWorkflow("cron: {schedule: '* * * * * *'}\n", "label: go, block: go, runOn: global")
	name := "test/w-" + c.name
	find := func() (found views.ScheduleView) {
		for v, err := range c.Schedules(c.t.Context()) {
			if err != nil {
				c.t.Fatal(err)
			}
			if v.Schedule == name {
				found = v
			}
		}
		return found
	}
	count := func() (n int) {
		f := views.ExecutionFilter{Labels: map[string]string{spec.LabelSchedule: name}}
		for x, err := range c.Executions(c.t.Context(), f) {
			if err != nil {
				c.t.Fatal(err)
			}
			if x.CreatedBy != "schedule" {
				c.t.Errorf("execution %s is created by %s", x.ID, x.CreatedBy)
			}
			n++
		}
		return n
	}
	eventually(c.t, "a fire time is skipped", func() bool { return find().Skipped >= 2 })
	if n := count(); n != 1 {
		c.t.Errorf("%d concurrent executions, want 1", n)
	}
	close(release)
	eventually(c.t, "the schedule fires again", func() bool { return count() >= 2 })
	ref := workflow.Ref{Package: "test", Name: "w-" + c.name, Version: "1.0.0"}
	if _, err := c.Archive(c.t.Context(), ref, ""); err != nil || find().Schedule != "" {
		c.t.Errorf("the archived workflow has the schedule %+v, %v", find(), err)
	}
	if _, err := c.Restore(c.t.Context(), ref, ""); err != nil {
		c.t.Fatal(err)
	}
	n := count()
	eventually(c.t, "the restored schedule fires again", func() bool { return count() > n })
	pauseAndFire(c, ref)
}

// pauseAndFire pauses a schedule that fires every second, fires it once by hand, resumes and
// removes it.
func pauseAndFire(c *fixture, ref workflow.Ref) {
	ctx := c.t.Context()
	if v, err := c.PauseSchedule(ctx, ref.Package, ref.Name, "freeze"); err != nil || v.Paused == nil || v.Paused.Reason != "freeze" {
		c.t.Fatalf("%+v, %v", v.Paused, err)
	}
	var fired views.FiredView
	eventually(c.t, "the paused schedule can be fired", func() bool {
		var err error
		if fired, _, err = c.FireSchedule(ctx, ref.Package, ref.Name, "by-hand"); err != nil && !workflow.Is(err, workflow.CodeConflict) { // its last execution may still work
			c.t.Fatal(err)
		}
		return err == nil
	})
	if again, existed, err := c.FireSchedule(ctx, ref.Package, ref.Name, "by-hand"); err != nil || !existed || again != fired {
		c.t.Errorf("fired again as %+v, %v, %v; want %s", again, existed, err, fired.ID)
	}
	c.waitEnded(fired.ID, sm.ExecutionCompletedAck)
	v, err := c.Schedule(ctx, ref.Package, ref.Name)
	if err != nil || len(v.Executions) < 2 || v.Executions[0].ID != fired.ID || *v.Executions[0].State != sm.ExecutionCompletedAck || v.Executions[0].By == nil || v.Executions[1].By != nil {
		c.t.Errorf("%+v, %v", v.Executions, err)
	}
	if _, err := c.ResumeSchedule(ctx, ref.Package, ref.Name, ""); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the resumed schedule fires", func() bool {
		v, err := c.Schedule(ctx, ref.Package, ref.Name)
		return err == nil && v.Executions[0].ID != fired.ID
	})
	if _, err := c.RemoveSchedule(ctx, ref.Package, ref.Name, "done"); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Schedule(ctx, ref.Package, ref.Name); !workflow.Is(err, workflow.CodeNotFound) || !strings.Contains(err.Error(), "removed") {
		c.t.Errorf("removed, and answers %v", err)
	}
}
