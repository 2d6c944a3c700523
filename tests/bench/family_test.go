package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// minus returns what a usage has more than another, divided by a number.
func (u usage) minus(o usage, by float64) usage {
	return usage{writes: testkit.Difference(u.writes, o.writes, by), reads: testkit.Difference(u.reads, o.reads, by), queue: (u.queue - o.queue) / by}
}

// counted is a stack behind proxies that count.
type counted struct {
	*testing.T
	*stack
	p *proxiedServices
}

func startCounted(t *testing.T, env ...string) *counted {
	const binary = "../../bin/lockstep"
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	p, err := startProxied(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	s, err := startStack(t.Context(), binary, "", append(p.env, env...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := s.prepare(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	return &counted{t, s, p}
}

func (c *counted) publish(name, body string) {
	c.Helper()
	if _, _, err := c.Publish(c.Context(), []byte("package: bench\nname: "+name+"\nversion: 1.0.0\n"+body), false); err != nil {
		c.Fatal(err)
	}
}

// execute returns what an execution, and all that follows from it, has consumed, and how long it took.
// All has come of it when it has written its end, and done is true.
func (c *counted) execute(req views.StartRequest, done func(id string) bool) (usage, time.Duration) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute)
	defer cancel()
	c.p.recorder.start()
	x, _, err := c.Start(ctx, req)
	if err != nil {
		c.Fatal(err)
	}
	// Nobody asks for its state meanwhile: that is no part of what it consumes.
	ended := func(call call) bool { return call.ends(x.ID) }
	if err := c.p.recorder.waitFor(ctx, func(calls []call) bool { return slices.ContainsFunc(calls, ended) && done(x.ID) && allDeleted(calls) }); err != nil {
		c.Fatalf("not all has come of %s: %v", req.Workflow, err)
	}
	calls := c.p.recorder.stop()
	settled, err := c.Execution(ctx, x.ID)
	if err != nil || settled.State != sm.ExecutionCompletedAck {
		c.Fatalf("%s ended in %s: %+v, %v", req.Workflow, settled.State, settled.Error, err)
	}
	return usageOf(calls), settled.EndedAt.Sub(settled.CreatedAt)
}

// A child in a set takes two write units more than alone, as docs/cost.md says.
func TestCost_OfAChildInASet(t *testing.T) {
	c := startCounted(t)
	c.publish("child", "steps: [{label: each, functionBlock: 'bench/each:1', runOn: global}]\n")
	c.publish("set", "parameters: {type: object}\nsteps: [{label: all, foreach: {items: '${parameters.list}', as: i}, workflowReference: {workflow: 'bench/child:1', mode: dispatch}}]\n")
	always := func(string) bool { return true }
	set := func(n int) (usage, time.Duration) {
		list := "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]"
		return c.execute(views.StartRequest{Workflow: "bench/set", Parameters: json.RawMessage(`{"list":` + list + `}`)}, always)
	}
	c.execute(views.StartRequest{Workflow: "bench/child"}, always) // all processes read the definition and the block
	set(10)
	own, _ := c.execute(views.StartRequest{Workflow: "bench/child"}, always)
	few, _ := set(20)
	many, took := set(120)
	each := many.minus(few, 100)
	t.Logf("alone: writes %v, reads %v, %.1f requests to SQS", own.writes, own.reads, own.queue)
	t.Logf("each in a set: writes %v, reads %v, %.1f requests to SQS; 120 took %s", each.writes, each.reads, each.queue, took.Round(time.Millisecond))
	for table, most := range map[string]float64{topology.TableExecutions: 1.1, topology.TableJobs: 1.1} {
		if more := each.writes[table] - own.writes[table]; more > most {
			t.Errorf("a child in a set takes %v write units of %s more than alone", more, table)
		}
	}
	_, took = set(1000)
	t.Logf("1,000 in a set took %s", took.Round(time.Millisecond))
}

// serveEvents is a webhook. It reports of which executions it has been told the last event.
func serveEvents(t *testing.T) (url string, told func(id string) bool) {
	ended := make(chan string, 1000)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body views.DeliveryBody
		_ = json.NewDecoder(r.Body).Decode(&body) // the service has encoded it
		for _, e := range body.Events {
			if e.Type == string(sm.EventExecutionSettled) {
				ended <- body.Execution
			}
		}
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	all := map[string]bool{}
	return "http://" + listener.Addr().String(), func(id string) bool {
		for {
			select {
			case id := <-ended:
				all[id] = true
			default:
				return all[id]
			}
		}
	}
}

// An execution that a webhook is told of costs more than one that nobody observes, and until it has
// been told as much as docs/cost.md says. What its timer finds to do a minute later is not counted here.
func TestCost_OfAnObservedExecution(t *testing.T) {
	c := startCounted(t, "LOCKSTEP_OBSERVE_AGE=1s")
	one := views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: []string{deviceID(0)}}}
	always := func(string) bool { return true }
	c.execute(one, always)
	plain, _ := c.execute(one, always)
	url, told := serveEvents(t)
	if _, err := c.PutSubscription(t.Context(), "all", views.SubscriptionRequest{URL: url}); err != nil {
		t.Fatal(err)
	}
	for { // until every process knows of it
		x, _, err := c.Start(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context(), x.ID, pollInterval, nil); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(3 * time.Second)
		for !told(x.ID) && time.Now().Before(deadline) {
			time.Sleep(pollInterval)
		}
		if told(x.ID) {
			break
		}
	}
	observed, _ := c.execute(one, told)
	more := observed.minus(plain, 1)
	t.Logf("unobserved: writes %v, reads %v, %.1f requests to SQS", plain.writes, plain.reads, plain.queue)
	t.Logf("observed: writes %v, reads %v, %.1f requests to SQS more", more.writes, more.reads, more.queue)
	// On a slow machine events are published more often.
	if w := more.writes; w[topology.TableExecutions] == 0 || w[topology.TableExecutions] > 5 || w[topology.TableRegistry] > 4 {
		t.Errorf("an observed execution takes write units %v more", w)
	}
}
