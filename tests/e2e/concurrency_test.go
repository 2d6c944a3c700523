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

// fastSweepConfig is a configuration in which the sweeper never rests.
const fastSweepConfig = `
sweepInterval: 200ms
poll: 500ms
job: {lease: 3s, unclaimed: 20s}
lock: {wait: 60s}
`

// raceBoth calls f on two systems at once, n times each, and counts how often it
// went well. Every failure must have the code.
func raceBoth(t *testing.T, a, b *client.Client, n int, code workflow.Code, f func(*client.Client) error) int {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	good := 0
	for i := range 2 * n {
		c := a
		if i%2 == 1 {
			c = b
		}
		all.Go(func() {
			err := f(c)
			if err != nil && !workflow.Is(err, code) {
				t.Errorf("lost the race with %v, want the code %s", err, code)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				good++
			}
		})
	}
	all.Wait()
	return good
}

// TestConcurrency_TwoStacksShareTables: two whole stacks work on the same tables and queues,
// with a sweeper each. Whatever two handlers try at once, one does it and for the
// other nothing happens.
func TestConcurrency_TwoStacksShareTables(t *testing.T) {
	t.Parallel()
	d, q := serveTables(t), serveQueues(t)
	one := stackOptions{config: fastSweepConfig, env: []string{d.env(), q.env()}}
	s, second := startStack(t, one), startStack(t, one)
	c := newFixture(t, s, "pair")
	ids := c.importEntities(c.entityType(), 5)
	c.registerBlock("once", workflow.Block{Reversible: true}, nil)
	c.publishWorkflow("", "label: one, block: once, runOn: KIND", "label: two, block: once, runOn: KIND")

	// One key, many requests at both addresses: one run.
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
		t.Errorf("three keys started %v, %d answers say that they did", started, fresh)
	}
	for id := range started {
		c.waitEnded(id, sm.ExecutionCompletedAck)
	}
	if n := c.countCalls("once", "EXECUTE"); n != 3*3*2 {
		t.Errorf("%d calls of a block that must not run twice, want %d", n, 3*3*2)
	}

	// One transition, many who ask for it.
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
		t.Errorf("%d cancels were taken", n)
	}
	close(g.open)
	u.waitForState(id, sm.ExecutionCancelled)
	n = raceBoth(t, s.Client, second.Client, 3, workflow.CodeIllegalTransition, func(api *client.Client) error {
		_, err := api.Acknowledge(t.Context(), id, "race")
		return err
	})
	if n != 1 {
		t.Errorf("%d acknowledgements were taken", n)
	}
	u.waitEnded(id, sm.ExecutionCancelledAck)
	count := map[string]int{}
	for _, e := range u.history(id) {
		count[e.Type]++
	}
	if count["cancel.requested"] != 1 || count["execution.acknowledged"] != 1 {
		t.Errorf("the history holds %v", count)
	}
}

// TestWorker_LateFinishIsRefused: a worker's last write is on its way for so long that
// another worker has taken the pack over and is at work on it. When the write
// arrives, its token is refused, and nothing is changed by it.
func TestWorker_LateFinishIsRefused(t *testing.T) {
	t.Parallel()
	d := serveTables(t)
	s := startStack(t, stackOptions{env: []string{d.env()}})
	c := newFixture(t, s, "late")
	ids := c.importEntities(c.entityType(), 1)
	answered, held, arrives := make(chan struct{}), make(chan struct{}), make(chan struct{})
	taken, goOn := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		switch calls.Add(1) {
		case 1:
			close(answered)
		case 2:
			close(taken)
			<-goOn
		}
		return okAnswer(map[string]any{"fence": k.Fence})
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	var once sync.Once
	d.onRequest(func(operation, body string) (wait <-chan struct{}) {
		select {
		case <-answered: // what is written now is what came of the first call
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
	<-taken
	close(arrives)
	eventually(t, "the late write arrives", func() bool { return len(d.repliesToHeld()) > 0 })
	if reply := d.repliesToHeld()[0]; !strings.HasPrefix(reply, "400 ") || !strings.Contains(reply, "ConditionalCheckFailed") {
		t.Errorf("the late write is answered %.300s", reply)
	}
	if x, err := c.Execution(t.Context(), id); err != nil || x.State != sm.ExecutionRunning {
		t.Errorf("the late write has ended the run: %s, %v", x.State, err)
	}
	close(goOn)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	first, second := c.blocks.allCalls()[0], c.blocks.allCalls()[1]
	r, err := c.Result(t.Context(), id)
	if err != nil || calls.Load() != 2 || first.key != second.key || first.Fence >= second.Fence ||
		!strings.Contains(string(r.Steps["work"].Results[ids[0]]), second.Fence) {
		t.Errorf("%d calls under %s and %s, result %s, %v: want the second worker's, under a higher fence", calls.Load(), first.Fence, second.Fence, r.Steps["work"].Results[ids[0]], err)
	}
}

// snapshot is everything that is told of a run and its jobs.
func (c *fixture) snapshot(id string) string {
	c.t.Helper()
	x, err := c.Execution(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	x.Progress.AsOf = nil // when it was read
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
