package main

import (
	"context"
	"maps"
	"math"
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
	queue         float64 // requests to SQS, without those that receive nothing
}

// usageOf adds up requests, without those of the sweeper, and without those of processes that read
// twice a minute who observes executions, and once what the URL of a queue is: they are no execution's.
func usageOf(calls []call) usage {
	u := usage{writes: map[string]float64{}, reads: map[string]float64{}}
	for _, c := range calls {
		role, _, _ := strings.Cut(c.On, " ")
		switch {
		case c.isPoll(), c.Name == "GetQueueUrl", strings.HasSuffix(c.On, "#subscriptions"):
		case c.Service == "sqs":
			u.queue++
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
	if err := s.prepare(ctx, 30, 250); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Publish(ctx, []byte("package: bench\nname: steps\nversion: 1.0.0\nseedEntity: device\nsteps:\n"+
		"  - {label: first, functionBlock: 'bench/work:1', runOn: device}\n"+
		"  - {label: pause, wait: {for: 1s}}\n"+
		"  - {label: second, functionBlock: 'bench/work:1', runOn: device}\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Publish(ctx, []byte("package: bench\nname: window\nversion: 1.0.0\nseedEntity: device\nconfig: {maxInFlight: 3}\n"+
		"steps: [{label: work, functionBlock: 'bench/work:1', runOn: device}]\n"), false)
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
	if _, _, err := s.runSingle(ctx, 5, 1); err != nil { // all processes have read what versions there are
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		req  views.StartRequest
	}{
		{"one device", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: ids(1)}},
		{"the same device again", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: ids(1)}},
		{"30 devices by group", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}}},
		{"two devices, two steps and a wait", views.StartRequest{Workflow: "bench/steps", ExecuteOnParameters: ids(2)}},
		{"30 devices, three at a time", views.StartRequest{Workflow: "bench/window", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}}},
		{"250 devices in packs of ten", views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: ids(250)}},
	} {
		p.recorder.start()
		x, _, err := s.Start(ctx, c.req)
		if err != nil {
			t.Fatal(err)
		}
		ended := func(c call) bool { return c.ends(x.ID) }
		if err := p.recorder.waitFor(ctx, func(calls []call) bool { return slices.ContainsFunc(calls, ended) && allDeleted(calls) }); err != nil {
			t.Fatalf("%s: the execution does not end: %v", c.what, err)
		}
		calls := p.recorder.stop()
		last := slices.IndexFunc(calls, ended)
		counted, queue := usageOf(calls[:last+1]), usageOf(calls).queue
		bill, err := s.Cost(ctx, x.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(counted.writes, bill.WriteUnits) || !maps.Equal(counted.reads, bill.ReadUnits) || counted.requests != bill.DynamoRequests {
			t.Errorf("%s: the proxy has counted %d requests, writes %v, reads %v; the execution reports %d, %v, %v",
				c.what, counted.requests, counted.writes, counted.reads, bill.DynamoRequests, bill.WriteUnits, bill.ReadUnits)
		}
		if c.what == "the same device again" { // the table of docs/cost.md: all processes have the definition and the block by now
			writes := map[string]float64{topology.TableExecutions: 6, topology.TableJobs: 2, topology.TableLocks: 1}
			reads := map[string]float64{topology.TableExecutions: 1.5, topology.TableJobs: 0.5, topology.TableLocks: 0.5, topology.TableRegistry: 2.5}
			if !maps.Equal(counted.writes, writes) || !maps.Equal(counted.reads, reads) {
				t.Errorf("%s: writes %v, reads %v; want %v, %v", c.what, counted.writes, counted.reads, writes, reads)
			}
		}
		// Shares of a batch are fractions, whose sum may differ in the last digits.
		if math.Abs(bill.QueueRequests-queue) > 1e-6 {
			t.Errorf("%s: the proxy has counted %v, the execution reports %v requests to SQS", c.what, queue, bill.QueueRequests)
		}
		if counted.writes[topology.TableExecutions] == 0 || queue == 0 {
			t.Errorf("%s: the proxy has seen %d requests to DynamoDB, %v to SQS", c.what, counted.requests, queue)
		}
	}
}

// allDeleted reports whether each message that was received has been deleted, maybe after it was
// received again, and with others in one request.
func allDeleted(calls []call) bool {
	received := map[string]string{} // messages by receipt
	held := map[string]bool{}       // messages
	for _, c := range calls {
		for _, r := range c.Receipts {
			switch c.Name {
			case "ReceiveMessage":
				received[r.ReceiptHandle], held[r.MessageId] = r.MessageId, true
			case "DeleteMessageBatch":
				delete(held, received[r.ReceiptHandle])
			}
		}
	}
	return len(held) == 0
}

// An execution over one device makes that many requests one after the other, from the request that starts
// it to the write of its end. Each takes so long that those which are made at the same time overlap.
func TestCost_SequentialRequests(t *testing.T) {
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
	if err := s.prepare(ctx, 1, 3); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.runSingle(ctx, 3, 1); err != nil { // all processes have read the definition and the block
		t.Fatal(err)
	}
	const delay = 250 * time.Millisecond
	p.delay(delay, delay)
	p.recorder.start()
	x, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{IDs: []string{deviceID(0)}}})
	if err != nil {
		t.Fatal(err)
	}
	ended := func(c call) bool { return c.ends(x.ID) }
	if err := p.recorder.waitFor(ctx, func(calls []call) bool { return slices.ContainsFunc(calls, ended) }); err != nil {
		t.Fatalf("the execution does not end: %v", err)
	}
	calls := p.recorder.stop()
	const overlap = delay / 5
	if dynamo, sqs, both := sequential(calls, overlap, "dynamodb"), sequential(calls, overlap, "sqs"), sequential(calls, overlap, "dynamodb", "sqs"); dynamo != 8 || sqs != 2 || both != 10 {
		t.Errorf("%d requests to DynamoDB, %d to SQS, %d in all; docs/cost.md says 8, 2 and 10", dynamo, sqs, both)
		for i, c := range calls {
			t.Logf("%2d %s - %s %s %s", i, c.Begin.Format("05.000"), c.End.Format("05.000"), c.Name, c.On)
		}
	}
}
