package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Work goes to the region of its execution, over HTTP, on a local stack that serves one.
func TestRegion_GetsTheWork(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "its regions are not deployed")
	s := startStack(t, stackOptions{config: shortLivenessConfig + "regions: [eu]\n"})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*fixture){
		"R21_nobody_serves_it":      nobodyServesTheRegion,
		"R21_served_by_workers":     regionHasItsWorkers,
		"R45_inherited_by_children": childIsInTheRegion,
		"names_are_checked":         regionNamesAreChecked,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stack := *s
			stack.t = t
			scenario(&fixture{localStack: &stack, blocks: b, name: strings.ToLower(name)})
		})
	}
}

// startIn starts the fixture's workflow with a region.
func (c *fixture) startIn(region string) string {
	c.t.Helper()
	x, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, Region: region})
	if err != nil {
		c.t.Fatal(err)
	}
	return x.ID
}

// nobodyServesTheRegion: the execution says for which pool it waits, and ends UNCLAIMED, although the same
// block is served elsewhere.
func nobodyServesTheRegion(c *fixture) {
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(call) blockAnswer { return okAnswer(1) })
	c.publishWorkflow("", "label: one, block: work:1, runOn: global")
	id := c.startIn("mars")
	c.waitUntil(id, "waits for a worker", func(x views.ExecutionView) bool {
		return x.Waiting != nil && x.Waiting.Kind == workflow.WaitWorker && deref(x.Waiting.Pool) == "default@mars"
	})
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseUnclaimed, workflow.FailureUnclaimed, "one")
	if deref(x.Region) != "mars" || c.countCalls("work", "EXECUTE") != 0 {
		c.t.Errorf("region %v, %d calls", deref(x.Region), c.countCalls("work", "EXECUTE"))
	}
	c.waitEnded(c.startIn("eu"), sm.ExecutionCompletedAck)
	c.waitEnded(c.startIn(""), sm.ExecutionCompletedAck)
	var ids []string
	for x, err := range c.Executions(c.t.Context(), views.ExecutionFilter{Region: "mars"}) {
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	if !slices.Equal(ids, []string{id}) {
		c.t.Errorf("in the region are %v, want %s", ids, id)
	}
}

// regionHasItsWorkers: a worker that polls gets packs of its region only, those of attempts and rollbacks
// too, and GET /blackboard/jobs shows its pool.
func regionHasItsWorkers(c *fixture) {
	c.publishPolledWorkflow("regional", workflow.Block{Idempotent: true, Reversible: true})
	c.publish("package: test\nname: w-" + c.name + "\nversion: 1.0.0\nconfig: {region: eu}\nsteps:\n  - {label: one, functionBlock: test/regional:1, runOn: global, retry: {maxRetries: 1}}\n  - {label: two, set: {x: 1}, assert: 'false'}\n")
	if w, err := c.RegisterWorker(c.t.Context(), views.WorkerRegistration{ID: "w-eu", Pool: "edge-regional", Region: "eu", Blocks: []string{"test/regional"}}); err != nil || w.Pool != "edge-regional@eu" {
		c.t.Fatalf("%+v, %v", w, err)
	}
	id := c.startIn("")
	c.waitForPackInPool("edge-regional@eu")
	poll := func(worker, region string) *views.PackOffer {
		wait := workflow.Duration(time.Second)
		o, err := c.Poll(c.t.Context(), views.JobPoll{Worker: worker, Region: region, Blocks: []string{"test/regional"}, Wait: &wait})
		if err != nil {
			c.t.Fatalf("%s polls: %v", worker, err)
		}
		return o
	}
	for i, want := range []string{"EXECUTE 1", "EXECUTE 2", "ROLLBACK 1"} {
		if o := poll("w-none", ""); o != nil {
			c.t.Fatalf("a worker without a region gets %+v", o)
		}
		var o *views.PackOffer
		eventually(c.t, "a pack", func() bool {
			if _, err := c.HeartbeatWorker(c.t.Context(), "w-eu"); err != nil {
				c.t.Fatal(err)
			}
			o = poll("w-eu", "eu")
			return o != nil
		})
		j := decodeJob(c.t, o.Jobs[0])
		if got := fmt.Sprintf("%s %d", j.Operation, j.Job.Attempt); got != want {
			c.t.Errorf("%s, want %s", got, want)
		}
		outcome, result := "OK", "1"
		if i == 0 {
			outcome, result = "ERROR", `null,"error":{"code":"NO","message":"not yet","retryable":true}`
		}
		if err := c.finishPack(o, outcome, result); err != nil {
			c.t.Fatal(err)
		}
	}
	c.waitEnded(id, sm.ExecutionFailedSafeAck)
}

// childIsInTheRegion is R45: a child has the creator and the region of its parent, unless its step says
// another region.
func childIsInTheRegion(c *fixture) {
	leaf := c.publishExtra("leaf", "", "label: one, set: {x: 1}")
	c.publishWorkflow("", fmt.Sprintf("label: a, workflowReference: {workflow: %q, mode: dispatch}", leaf), fmt.Sprintf("label: b, workflowReference: {workflow: %q, mode: dispatch, region: us}", leaf))
	x := c.waitEnded(c.startIn("eu"), sm.ExecutionCompletedAck)
	if len(x.Children) != 2 || deref(x.Region) != "eu" {
		c.t.Fatalf("%+v", x)
	}
	for i, want := range []string{"eu", "us"} {
		if child := c.getExecution(x.Children[i]); deref(child.Region) != want || child.CreatedBy != x.CreatedBy || child.Tenant != x.Tenant {
			c.t.Errorf("child %d is in %v, by %s", i, deref(child.Region), child.CreatedBy)
		}
	}
}

// regionNamesAreChecked: what cannot be a region is refused with the place, and so is a pool whose queue
// would be that of a region.
func regionNamesAreChecked(c *fixture) {
	c.publishWorkflow("", "label: one, set: {x: 1}")
	for _, region := range []string{"EU", "a b", "x-dlq", "eu--1", "much-too-long-to-be-one"} {
		_, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, Region: region})
		c.wantIssue(err, "region")
		_, err = c.RegisterWorker(c.t.Context(), views.WorkerRegistration{Region: region, Blocks: []string{"test/a"}})
		c.wantIssue(err, "region")
		_, err = c.Poll(c.t.Context(), views.JobPoll{Worker: "w", Region: region, Blocks: []string{"test/a"}})
		c.wantIssue(err, "region")
	}
	_, err := c.RegisterBlock(c.t.Context(), workflow.Block{Package: "test", Name: "a", Version: "1.0.0", Pool: "default--eu"})
	c.wantIssue(err, "pool")
}

// wantIssue checks that a request was refused because of one field.
func (c *fixture) wantIssue(err error, path string) {
	c.t.Helper()
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeInvalid || len(e.Issues) != 1 || e.Issues[0].Path != path {
		c.t.Errorf("want an issue at %s, got %v", path, err)
	}
}
