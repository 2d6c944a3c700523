package dynamo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// shortExecution is an acknowledged execution of one step over one device, as the
// engine stores it.
func shortExecution() *workflow.Execution {
	start := time.Date(2026, 11, 21, 5, 15, 10, 123_000_000, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	x := &workflow.Execution{
		Schema: 1, EngineVersion: "0.1.0", Tenant: "default", ID: "019aa4b2-6c1f-7d3e-9a41-5be0c6f1d2a7",
		State: sm.ExecutionCompletedAck, Version: 6, Epoch: 1, Try: 1, Commit: "f3b0a7c2-91d4-4e8b-b7a6-2c5d8e9f0a1b",
		Workflow: workflow.Ref{Package: "fleet", Name: "upgrade_firmware", Version: "1.0.0"},
		Blocks:   map[string]string{"fleet/upgrade:1": "1.2.0"},
		Input: workflow.Input{
			Parameters: json.RawMessage(`{"version":"17.3.4","window":"night"}`),
			Selector:   &workflow.Selector{Type: "device", IDs: []string{"sw-007"}},
		},
		CreatedAt: at(0), StartedAt: at(41), EndedAt: at(1873), CreatedBy: "local",
		Scope: workflow.Scope{
			Counts: map[string]int{"device": 1},
			Inline: []workflow.ScopeEntity{{
				Key: workflow.EntityKey{Type: "device", ID: "sw-007"}, Token: 12,
				Attributes: json.RawMessage(`{"address":"http://127.0.0.1:9000/devices/sw-007","model":"C9300-48P","site":"zurich-2","version":"16.9.1"}`),
			}},
			HeldEpoch: 1,
		},
		LockSince: at(13), StepRunSeq: 1,
		StepRuns: []workflow.StepRun{{
			Seq: 1, Label: "upgrade", Ordinal: 1, Kind: workflow.JobExecute, Status: sm.StepCompleted, EnteredAt: at(41), EndedAt: at(1873),
			Block: "fleet/upgrade:1.2.0", Pool: "default", Idempotent: true, Reversible: true,
			Jobs: 1, PackSize: 1, MaxAttempts: 3, DispatchedAt: at(41), Counts: workflow.Counts{OK: 1},
		}},
		Cost: workflow.Cost{
			WriteUnits:     map[string]float64{"executions": 11, "jobs": 2, "locks": 1, "registry": 1},
			ReadUnits:      map[string]float64{"executions": 3, "jobs": 1, "locks": 1, "registry": 2.5},
			DynamoRequests: 19, QueueRequests: 3, Invocations: 2.1,
		},
	}
	add := func(ms int, e sm.Event, from, to, step, actor, data string) {
		x.Sequence++
		layer := "execution"
		if word, _, _ := strings.Cut(string(e), "."); word == "workflow" || word == "step" {
			layer = word
		}
		event := workflow.Event{Sequence: x.Sequence, At: at(ms), Layer: layer, Type: string(e), From: from, To: to, Step: step, Actor: actor}
		if data != "" {
			event.Data = json.RawMessage(data)
		}
		x.Events = append(x.Events, event)
	}
	add(0, sm.EventExecutionCreated, "", "NEW", "", "local", `{"workflow":"fleet/upgrade_firmware:1.0.0"}`)
	add(9, sm.EventExecutionValidated, "NEW", "VALID", "", "", "")
	add(9, sm.EventExecutionReady, "VALID", "READY", "", "", "")
	add(9, sm.EventDiscoveryStarted, "READY", "RESOURCE_DISCOVERY", "", "", "")
	add(13, sm.EventDiscoveryCompleted, "RESOURCE_DISCOVERY", "RESOURCES_DISCOVERED", "", "", `{"entities":1}`)
	add(13, sm.EventExecutionScheduled, "RESOURCES_DISCOVERED", "SCHEDULED", "", "", "")
	add(13, sm.EventLockRequested, "SCHEDULED", "LOCKING", "", "", "")
	add(41, sm.EventLockGranted, "LOCKING", "LOCKED", "", "", "")
	add(41, sm.EventExecutionStarted, "LOCKED", "RUNNING", "", "", "")
	add(41, sm.EventWorkflowInitialized, "PENDING", "RUNNING", "", "", "")
	add(41, sm.EventStepEntered, "PENDING", "RUNNING", "upgrade", "", `{"jobs":1}`)
	add(1873, sm.EventStepExited, "RUNNING", "COMPLETED", "upgrade", "", `{"ok":1}`)
	add(1873, sm.EventWorkflowCompleted, "RUNNING", "COMPLETED", "", "", "")
	add(1873, sm.EventExecutionCompleted, "RUNNING", "COMPLETED", "", "", "")
	add(1890, sm.EventExecutionAcknowledged, "COMPLETED", "COMPLETED_ACK", "", "", "")
	return x
}

// stateItem returns the whole state item of an execution.
func stateItem(t *testing.T, x *workflow.Execution) table.Item {
	t.Helper()
	it, _, err := executionAttributes(x)
	if err != nil {
		t.Fatal(err)
	}
	key := executionKey(x.Tenant, x.ID, skState)
	it[topology.AttrPK], it[topology.AttrSK], it[topology.IndexByStatus.Sort] = table.S(key.PK), table.S(key.SK), table.S(x.ID)
	return it
}

func TestStore_ShortExecutionFitsOneWriteUnit(t *testing.T) {
	x := shortExecution()
	plain, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	it := stateItem(t, x)
	t.Logf("state item %d bytes, document %d, plain JSON %d", it.Size(), len(it.Bytes(attrDocument)), len(plain))
	if it.Size() >= 1024 {
		t.Errorf("%d bytes cost more than one write unit", it.Size())
	}
	back, err := executionOf(it)
	if err != nil {
		t.Fatal(err)
	}
	x.ItemBytes = it.Size() // a read sets it
	if diff := cmp.Diff(x, back); diff != "" {
		t.Error(diff)
	}
}

func TestStore_ReadsLargeState(t *testing.T) {
	x := shortExecution()
	x.Reason = strings.Repeat("because ", 10_000)
	back, err := executionOf(stateItem(t, x))
	if err != nil {
		t.Fatal(err)
	}
	if back.Reason != x.Reason {
		t.Error("the reason has changed")
	}
}

func TestPacks_TenJobsFitOneWriteUnit(t *testing.T) {
	start := time.Date(2026, 11, 21, 5, 15, 10, 123_000_000, time.UTC)
	p := &workflow.Pack{
		Key:   workflow.PackKey{Tenant: "default", Execution: "019aa4b2-6c1f-7d3e-9a41-5be0c6f1d2a7", StepRunOrdinal: 1, StepRunSeq: 2, Lane: 12, Attempt: 1},
		State: workflow.PackFinished, Token: 1, Lease: start.Add(time.Minute), Nonce: uuid.NewString(),
		Worker: "lockstep-worker-8f2c1d", ClaimedAt: start, FinishedAt: start.Add(900 * time.Millisecond),
		Cost: workflow.Cost{WriteUnits: map[string]float64{"jobs": 2}, DynamoRequests: 2, QueueRequests: 0.1},
	}
	for i := range 10 {
		p.Jobs = append(p.Jobs, workflow.JobRecord{
			Index: 120 + i, Code: workflow.JobCodeOK, StartedAt: start.Add(time.Duration(i*3) * time.Millisecond), EndedAt: start.Add(time.Duration(100+i*37) * time.Millisecond),
			Outcome: "OK", Result: json.RawMessage(fmt.Sprintf(`{"version":"17.3.4","boots":%d,"uptime":%d}`, i, 1000+i*i)),
		})
	}
	it, err := packItem(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pack item %d bytes, document %d", it.Size(), len(it.Bytes(attrDocument)))
	if it.Size() >= 1024 {
		t.Errorf("%d bytes cost more than one write unit", it.Size())
	}
}
