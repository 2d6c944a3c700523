package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fastSweepConfig runs the sweeper five times per second.
const fastSweepConfig = `
sweepInterval: 200ms
poll: 500ms
job: {lease: 3s, unclaimed: 20s}
lock: {wait: 60s}
`

// raceBoth calls f concurrently, n times on each of two stacks, and returns how many
// calls succeeded. Every failure must have the code.
func raceBoth(t *testing.T, a, b *client.Client, n int, code workflow.Code, f func(*client.Client) error) int {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	succeeded := 0
	for i := range 2 * n {
		c := a
		if i%2 == 1 {
			c = b
		}
		all.Go(func() {
			err := f(c)
			if err != nil && !workflow.Is(err, code) {
				t.Errorf("failed with %v, want the code %s", err, code)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				succeeded++
			}
		})
	}
	all.Wait()
	return succeeded
}

// Two stacks, each with its own sweeper, use the same tables and queues. When two
// handlers try the same transition, one makes it and the other changes nothing.
func TestConcurrency_TwoStacksShareTables(t *testing.T) {
	t.Parallel()
	d, q := serveTables(t), serveQueues(t)
	options := stackOptions{config: fastSweepConfig, env: []string{d.env(), q.env()}}
	s, second := startStack(t, options), startStack(t, options)
	c := newFixture(t, s, "pair")
	ids := c.importEntities(c.entityType(), 5)
	c.registerBlock("once", workflow.Block{Reversible: true}, nil)
	c.publishWorkflow("", "label: one, block: once, runOn: KIND", "label: two, block: once, runOn: KIND")

	// Many requests with one key to both stacks start one execution.
	var mu sync.Mutex
	started := map[string]int{}
	fresh := 0
	for k := range 3 {
		req := views.StartRequest{Workflow: "test/w-" + c.name, IdempotencyKey: fmt.Sprint("key-", k),
			ExecuteOnParameters: &workflow.Selector{IDs: []string{ids[k], ids[k+1], ids[k+2]}}}
		raceBoth(t, s.Client, second.Client, 3, "", func(api *client.Client) error {
			x, existed, err := api.Start(t.Context(), req)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				if started[x.ID]++; !existed {
					fresh++
				}
			}
			return err
		})
	}
	if len(started) != 3 || fresh != 3 {
		t.Errorf("three keys started %v, %d replies report a new execution", started, fresh)
	}
	for id := range started {
		c.waitEnded(id, sm.ExecutionCompletedAck)
	}
	if n := c.countCalls("once", "EXECUTE"); n != 3*3*2 {
		t.Errorf("%d calls of a block that is not idempotent, want %d", n, 3*3*2)
	}

	// Many requests for one transition.
	g := newBlockGate()
	u := &fixture{localStack: s, blocks: c.blocks, name: "pair-unsafe"}
	ids = u.importEntities(u.entityType(), 1)
	u.registerBlock("fire", workflow.Block{}, nil)
	u.registerBlock("fail", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		g.wait(k)
		return errorAnswer("BROKEN", false)
	})
	u.publishWorkflow("", "label: fire, block: fire, runOn: KIND", "label: fail, block: fail, runOn: KIND")
	id := u.startWorkflow("{}", ids...)
	<-g.entered
	n := raceBoth(t, s.Client, second.Client, 3, workflow.CodeIllegalTransition, func(api *client.Client) error {
		_, err := api.Cancel(t.Context(), id, views.CancelRequest{Reason: "race"})
		return err
	})
	if n != 1 {
		t.Errorf("%d cancels were accepted, want 1", n)
	}
	close(g.open)
	u.waitForState(id, sm.ExecutionCancelled)
	n = raceBoth(t, s.Client, second.Client, 3, workflow.CodeIllegalTransition, func(api *client.Client) error {
		_, err := api.Acknowledge(t.Context(), id, "race")
		return err
	})
	if n != 1 {
		t.Errorf("%d acknowledgements were accepted, want 1", n)
	}
	u.waitEnded(id, sm.ExecutionCancelledAck)
	count := map[string]int{}
	for _, e := range u.history(id) {
		count[e.Type]++
	}
	if count["cancel.requested"] != 1 || count["execution.acknowledged"] != 1 {
		t.Errorf("the history has %v", count)
	}
}

// A worker's last write is delayed until another worker has taken the pack over. When
// the write arrives, it fails because of its token and changes nothing.
func TestWorker_LateFinishIsRefused(t *testing.T) {
	t.Parallel()
	d := serveTables(t)
	s := startStack(t, stackOptions{env: []string{d.env()}})
	c := newFixture(t, s, "late")
	ids := c.importEntities(c.entityType(), 1)
	answered, held, arrives := make(chan struct{}), make(chan struct{}), make(chan struct{})
	takenOver, resume := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		switch calls.Add(1) {
		case 1:
			close(answered)
		case 2:
			close(takenOver)
			<-resume
		}
		return okAnswer(map[string]any{"fence": k.Fence})
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	var once sync.Once
	d.onRequest(func(operation, body string) (wait <-chan struct{}) {
		select {
		case <-answered: // the next write is the result of the first call
		default:
			return nil
		}
		if (operation == "UpdateItem" || operation == "PutItem") && strings.Contains(body, `"lockstep-jobs"`) {
			once.Do(func() { wait = arrives; close(held) })
		}
		return wait
	})
	id := c.startWorkflow("{}", ids...)
	<-held
	<-takenOver
	close(arrives)
	eventually(t, "the late write arrives", func() bool { return len(d.repliesToHeld()) > 0 })
	if reply := d.repliesToHeld()[0]; !strings.HasPrefix(reply, "400 ") || !strings.Contains(reply, "ConditionalCheckFailed") {
		t.Errorf("reply to the late write: %.300s", reply)
	}
	if x, err := c.Execution(t.Context(), id); err != nil || x.State != sm.ExecutionRunning {
		t.Errorf("the late write ended the execution: %s, %v", x.State, err)
	}
	close(resume)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	first, second := c.blocks.allCalls()[0], c.blocks.allCalls()[1]
	r, err := c.Result(t.Context(), id)
	if err != nil || calls.Load() != 2 || first.key != second.key || first.Fence >= second.Fence ||
		!strings.Contains(string(r.Steps["work"].Results[ids[0]]), second.Fence) {
		t.Errorf("%d calls with fences %s and %s, result %s, %v; want the second worker's result and a higher fence", calls.Load(), first.Fence, second.Fence, r.Steps["work"].Results[ids[0]], err)
	}
}

// snapshot is everything that the API returns about an execution and its jobs.
func (c *fixture) snapshot(id string) string {
	c.t.Helper()
	x, err := c.Execution(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	x.Progress.AsOf = nil // changes with every read
	r, err := c.Result(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := json.Marshal([]any{x, r, c.listJobs(id, views.JobFilter{}), c.history(id)})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}
