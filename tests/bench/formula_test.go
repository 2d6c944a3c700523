package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// serveRefusals is a block that refuses every twentieth device.
func serveRefusals(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Entity struct{ ID string } }
		_ = json.NewDecoder(r.Body).Decode(&call) // the worker has encoded it
		w.Header().Set("Content-Type", "application/json")
		if last := call.Entity.ID[len(call.Entity.ID)-2:]; last == "00" || last == "20" || last == "40" || last == "60" || last == "80" {
			fmt.Fprint(w, `{"outcome":"ERROR","error":{"code":"REFUSED","message":"not this one"}}`)
			return
		}
		fmt.Fprint(w, `{"outcome":"OK"}`)
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// The formula of docs/cost.md, which is that of the estimate, is what executions consume, and they stay
// below the prices that the page names.
func TestCost_IsThatOfThePage(t *testing.T) {
	const binary, devices = "../../bin/lockstep", 10_000
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	s, err := startStack(ctx, binary, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.prepare(ctx, devices, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RegisterBlock(ctx, workflow.Block{Package: "bench", Name: "brittle", Version: "1.0.0", RunOn: "device", Idempotent: true, HTTP: &workflow.Endpoint{URL: serveRefusals(t)}}); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"two":     "steps: [{label: first, functionBlock: 'bench/work:1', runOn: device}, {label: second, functionBlock: 'bench/work:1', runOn: device}]",
		"brittle": "config: {failureTolerance: 10%}\nsteps: [{label: only, functionBlock: 'bench/brittle:1', runOn: device}]",
	} {
		if _, _, err := s.Publish(ctx, []byte("package: bench\nname: "+name+"\nversion: 1.0.0\nseedEntity: device\n"+body+"\n"), false); err != nil {
			t.Fatal(err)
		}
	}
	execute := func(name string, on workflow.Selector) views.CostView {
		x, _, err := s.Start(ctx, views.StartRequest{Workflow: name, ExecuteOnParameters: &on})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := s.Wait(ctx, x.ID, pollInterval, nil)
		if err != nil {
			t.Fatal(err)
		}
		if name != "bench/brittle" && ended.State != sm.ExecutionCompletedAck {
			t.Fatalf("%s ended in %s", name, ended.State)
		}
		bill, err := s.Cost(ctx, x.ID)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: writes %v, reads %v, %.1f requests to SQS, %.1f invocations, $%.2f a million", name, bill.WriteUnits, bill.ReadUnits, bill.QueueRequests, bill.Invocations, bill.Dollars*1e6)
		return bill
	}

	one := workflow.Selector{IDs: []string{deviceID(1)}}
	want := cost.Estimate(cost.Work{Entities: 1, Steps: 1, Packs: 1})
	single := execute("bench/work", one)
	for range 5 { // until all processes have read the definition, the block, and what versions there are
		if single = execute("bench/work", one); fmt.Sprint(single.ReadUnits) == fmt.Sprint(want.ReadUnits) {
			break
		}
	}
	for _, c := range []struct {
		what      string
		got, want map[string]float64
	}{{"writes", single.WriteUnits, want.WriteUnits}, {"reads", single.ReadUnits, want.ReadUnits}, {"requests to SQS", map[string]float64{"": single.QueueRequests}, map[string]float64{"": want.QueueRequests}}, {"invocations", map[string]float64{"": single.Invocations}, map[string]float64{"": want.Invocations}}} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("an execution over one device takes %s %v, the page says %v", c.what, c.got, c.want)
		}
	}

	fleet := workflow.Selector{Groups: []string{"fleet"}}
	withoutLocks := func(bill views.CostView) float64 {
		locks := cost.NewBill(workflow.Cost{WriteUnits: map[string]float64{topology.TableLocks: bill.WriteUnits[topology.TableLocks]}, ReadUnits: map[string]float64{topology.TableLocks: bill.ReadUnits[topology.TableLocks]}})
		return (bill.Dollars - locks.Total) / devices * 1e6
	}
	steps := map[int]views.CostView{1: execute("bench/work", fleet), 2: execute("bench/two", fleet)}
	for n, bill := range steps {
		want := cost.Estimate(cost.Work{Entities: devices, Steps: n, Packs: n * devices / 10})
		for _, table := range []string{topology.TableJobs, topology.TableLocks} {
			if bill.WriteUnits[table] != want.WriteUnits[table] {
				t.Errorf("%d steps: %v write units of %s, the page says %v", n, bill.WriteUnits[table], table, want.WriteUnits[table])
			}
		}
		// How much the list of entities takes depends on how well it can be compressed, and on a slow
		// machine timers look at what is not done yet.
		if got, want := bill.WriteUnits[topology.TableExecutions], want.WriteUnits[topology.TableExecutions]; math.Abs(got-want) > 0.1*want {
			t.Errorf("%d steps: %v write units of executions, the page says %v", n, got, want)
		}
		if bill.ReadUnits[topology.TableLocks] != want.ReadUnits[topology.TableLocks] {
			t.Errorf("%d steps: %v read units of locks, the page says %v", n, bill.ReadUnits[topology.TableLocks], want.ReadUnits[topology.TableLocks])
		}
		for _, table := range []string{topology.TableRegistry, topology.TableExecutions, topology.TableJobs} {
			if got, want := bill.ReadUnits[table], want.ReadUnits[table]; got > 2*want {
				t.Errorf("%d steps: %v read units of %s, the page says %v", n, got, table, want)
			}
		}
		if got, want := bill.QueueRequests, want.QueueRequests; got < want || got > 1.25*want {
			t.Errorf("%d steps: %v requests to SQS, the page says %v", n, got, want)
		}
	}
	first, second := withoutLocks(steps[1]), withoutLocks(steps[2])-withoutLocks(steps[1])
	reads := steps[1].ReadUnits[topology.TableRegistry] + steps[1].ReadUnits[topology.TableExecutions] + steps[1].ReadUnits[topology.TableJobs] + steps[1].ReadUnits[topology.TableLocks]
	t.Logf("a million jobs of the first step cost $%.3f without locks, of the second $%.3f; %.3f read units a job", first, second, reads/devices)
	if first > 0.25 || second > 0.25 || reads > devices {
		t.Errorf("the page says at most $0.25, $0.25 and 1 read unit")
	}

	const failed = devices / 20
	brittle := execute("bench/brittle", fleet)
	costs, most := (brittle.Dollars-steps[1].Dollars)/failed*1e6, steps[1].Dollars/devices*1e6
	// The set of those that failed is too large for the state item: one unit.
	if got, want := brittle.WriteUnits[topology.TableJobs], steps[1].WriteUnits[topology.TableJobs]+1; got != want {
		t.Errorf("with %d failures the jobs take %v write units, want %v", failed, got, want)
	}
	// It costs in proportion to the failures: each less than a job without its lock does.
	t.Logf("a failure within the tolerance costs $%.3f a million", costs)
	if costs > most {
		t.Errorf("a million failures within the tolerance cost $%.2f, a million jobs $%.2f", costs, most)
	}
}
