package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// usage is what requests have consumed, by table.
type usage struct {
	requests      int
	writes, reads map[string]float64
	sent          int // requests that send messages
}

// usageOf adds up requests, without those of the sweeper, and without those of processes that read
// twice a minute who observes executions: they are no execution's.
func usageOf(calls []call) usage {
	u := usage{writes: map[string]float64{}, reads: map[string]float64{}}
	for _, c := range calls {
		role, _, _ := strings.Cut(c.On, " ")
		switch {
		case c.isPoll(), strings.HasSuffix(c.On, "#subscriptions"):
		case c.Service == "sqs" && c.Name == "SendMessageBatch":
			u.sent++
		case c.Service == "dynamodb":
			u.requests++
			u.writes[role] += c.Write
			u.reads[role] += c.Read
		}
	}
	for _, units := range []map[string]float64{u.writes, u.reads} {
		maps.DeleteFunc(units, func(_ string, n float64) bool { return n == 0 })
	}
	return u
}

// What an execution is said to have consumed is what a proxy between the functions and DynamoDB
// has seen, to the unit: the meter is in the functions and adds up what each of them was told, and
// the proxy knows of no executions.
func TestCost_IsWhatAProxyCounts(t *testing.T) {
	const binary = "../../bin/lockstep"
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := startProxied(ctx, binary)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	s, err := startStack(ctx, binary, "", p.env...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.prepare(ctx, 30, 3); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Publish(ctx, []byte("package: bench\nname: steps\nversion: 1.0.0\nseedEntity: device\nsteps:\n"+
		"  - {label: first, functionBlock: 'bench/work:1', runOn: device}\n"+
		"  - {label: pause, wait: {for: 1s}}\n"+
		"  - {label: second, functionBlock: 'bench/work:1', runOn: device}\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(n int) *workflow.Selector {
		s := &workflow.Selector{}
		for i := range n {
			s.IDs = append(s.IDs, deviceID(i))
		}
		return s
	}
	for _, c := range []struct {
		what string
		req  views.StartRequest
	}{
		{"one device", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: ids(1)}},
		{"the same device again", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: ids(1)}},
		{"30 devices by group", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}}},
		{"two devices, two steps and a wait", views.StartRequest{Workflow: "bench/steps", ExecuteOnParameters: ids(2)}},
	} {
		p.recorder.start()
		x, _, err := s.Start(ctx, c.req)
		if err != nil {
			t.Fatal(err)
		}
		ended := func(c call) bool { return c.ends(x.ID) }
		if err := p.recorder.waitFor(ctx, ended); err != nil {
			t.Fatalf("%s: the execution does not end: %v", c.what, err)
		}
		calls := p.recorder.stop()
		last := slices.IndexFunc(calls, ended)
		counted := usageOf(calls[:last+1])
		bill, err := s.Cost(ctx, x.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(counted.writes, bill.WriteUnits) || !maps.Equal(counted.reads, bill.ReadUnits) || counted.requests != bill.DynamoRequests {
			t.Errorf("%s: the proxy has counted %d requests, writes %v, reads %v; the execution reports %d, %v, %v",
				c.what, counted.requests, counted.writes, counted.reads, bill.DynamoRequests, bill.WriteUnits, bill.ReadUnits)
		}
		if c.what == "the same device again" { // the table of docs/cost.md: all processes have the definition and the block by now
			writes := map[string]float64{topology.TableExecutions: 8, topology.TableJobs: 2, topology.TableLocks: 1}
			reads := map[string]float64{topology.TableExecutions: 2, topology.TableJobs: 1, topology.TableLocks: 0.5, topology.TableRegistry: 3.5}
			if !maps.Equal(counted.writes, writes) || !maps.Equal(counted.reads, reads) {
				t.Errorf("%s: writes %v, reads %v; want %v, %v", c.what, counted.writes, counted.reads, writes, reads)
			}
		}
		if single := len(c.req.ExecuteOnParameters.IDs) == 1; single && bill.QueueRequests != float64(3*counted.sent) {
			t.Errorf("%s: the proxy has counted %d requests that send, the execution reports %v with receiving and deleting", c.what, counted.sent, bill.QueueRequests)
		}
		if counted.writes[topology.TableExecutions] == 0 || counted.sent == 0 {
			t.Errorf("%s: the proxy has seen %d requests, and %d that send", c.what, counted.requests, counted.sent)
		}
	}
}
