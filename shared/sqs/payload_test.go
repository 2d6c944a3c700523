package sqs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A message may hold its jobs or say where they are; one that does neither is none.
func TestEncodePack_OffloadedJobs(t *testing.T) {
	key := workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 2}.Pack(3, 1)
	m := &workflow.PackMessage{Key: key, Work: workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0"}}
	body, err := sqs.EncodePack(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqs.DecodePack(body); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a message without jobs: %v", err)
	}
	stored := workflow.NewPayloadRef([]byte("[]"))
	m.JobsRef = stored.InPack(key)
	if body, err = sqs.EncodePack(m); err != nil {
		t.Fatal(err)
	}
	got, err := sqs.DecodePack(body)
	if diff := cmp.Diff(m, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
