package dynamo

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

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
	t.Logf("pack item %d bytes, of which the document %d", it.Size(), len(it.Bytes(attrPackDocument)))
	if it.Size() >= 1024 {
		t.Errorf("%d bytes are more than one write unit", it.Size())
	}
}
