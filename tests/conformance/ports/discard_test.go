package ports_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// itemTTLs returns the TTLs of an execution's items by partition and sort key; 0 for
// an item without a TTL.
func itemTTLs(t *testing.T, tableName, execution string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	pages := awsdynamodb.NewScanPaginator(openClient(&faultInjector{}), &awsdynamodb.ScanInput{TableName: &tableName, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			key := it["pk"].(*types.AttributeValueMemberS).Value + " " + it["sk"].(*types.AttributeValueMemberS).Value
			if !strings.Contains(key, execution) {
				continue
			}
			found[key] = 0
			if ttl, ok := it[topology.AttrTTL].(*types.AttributeValueMemberN); ok {
				found[key], _ = strconv.ParseInt(ttl.Value, 10, 64)
			}
		}
	}
	return found
}

// Discard sets a TTL on every item of an execution except its state item, and on no
// other item. A commit without a timer sets the TTL of the state item. All items stay
// readable until they expire.
func TestDynamo_DiscardSetsTTLOnItsItemsOnly(t *testing.T) {
	t.Parallel()
	meter := new(cost.Meter)
	v, ctx := openView(&faultInjector{}, meter), t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	x := &workflow.Execution{
		Schema: workflow.SchemaVersion, Tenant: "acme", ID: uuid.Must(uuid.NewV7()).String(), Version: 1, Commit: "c1",
		State: sm.ExecutionCompletedAck, CreatedAt: at, DueAt: at,
	}
	_, err := v.Store.Create(ctx, x)
	ok(err)
	ok(v.Store.SaveInput(ctx, x.Tenant, x.ID, workflow.Input{Parameters: json.RawMessage(`{"a":1}`)}))
	chunks, _, err := v.Store.SaveScope(ctx, x.Tenant, x.ID, "k", []workflow.ScopeEntity{{Key: workflow.EntityKey{Type: "device", ID: "a"}}})
	ok(err)
	ok(v.Store.SaveEvents(ctx, x.Tenant, x.ID, []workflow.Event{{Sequence: 1, At: at, Type: "execution.created"}}))
	stepRun, other := workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID, Ordinal: 1, Seq: 1}, workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID, Ordinal: 1, Seq: 12}
	for _, r := range []workflow.StepRunKey{stepRun, other} {
		key := r.Pack(300, 1) // in the second shard
		_, err := v.Packs.PutCancelled(ctx, &workflow.Pack{Key: key, State: workflow.PackCancelled, Token: 1, FinishedAt: at, Jobs: []workflow.JobRecord{{Code: workflow.JobCodeNotExecuted}}})
		ok(err)
		_, err = v.Packs.AddDone(ctx, key, workflow.LaneResult{})
		ok(err)
		_, err = v.Packs.SavePayload(ctx, key, []byte(`{"long":"result"}`))
		ok(err)
	}

	for range 2 {
		meter.Take()
		ok(v.Store.Discard(ctx, x.Tenant, x.ID, at))
		ok(v.Packs.Discard(ctx, stepRun, 1, at))
	}
	if again := meter.Take(); again.WriteUnits[topology.TableJobs]+again.WriteUnits[topology.TableExecutions] != 0 {
		t.Errorf("items that have a TTL were written again: %+v", again)
	}
	executions, jobs := tables.Executions, tables.Jobs
	items := itemTTLs(t, executions, x.ID)
	for key, ttl := range itemTTLs(t, jobs, x.ID) {
		items[key] = ttl
	}
	var expiring, kept []string
	for key, ttl := range items {
		switch ttl {
		case at.Unix():
			expiring = append(expiring, key)
		case 0:
			kept = append(kept, key)
		default:
			t.Errorf("%s expires at %d", key, ttl)
		}
	}
	if len(expiring) != 6 || len(kept) != 4 {
		t.Errorf("expiring %q, kept %q: want the payloads and step run 1 to expire, and the state and step run 12 to stay", expiring, kept)
	}

	y := x.Clone()
	y.Version, y.Commit, y.DiscardedAt = 2, "c2", at.Add(-time.Hour)
	for _, want := range []int64{0, y.DiscardedAt.Unix()} { // with a timer and without
		_, done, err := v.Store.Commit(ctx, y.Version-1, y, workflow.CommitOptions{})
		if ok(err); !done {
			t.Fatal("not committed")
		}
		if ttl := itemTTLs(t, executions, x.ID)[table.TenantPrefix(x.Tenant)+x.ID+" state"]; ttl != want {
			t.Errorf("the state item expires at %d, want %d", ttl, want)
		}
		y.Version, y.Commit, y.DueAt = 3, "c3", time.Time{}
	}
	z, err := v.Store.Load(ctx, x.Tenant, x.ID)
	if ok(err); !z.DiscardedAt.Equal(y.DiscardedAt) {
		t.Errorf("DiscardedAt is read back as %v", z.DiscardedAt)
	}
	_, err = v.Store.LoadScope(ctx, x.Tenant, x.ID, "k", 0, chunks)
	ok(err)
	if p, err := v.Packs.Pack(ctx, stepRun.Pack(300, 1)); err != nil || p == nil {
		t.Errorf("pack %v, %v", p, err)
	}
}

// A rate outlives the calls of a trigger, which are stored by the number that it gave them.
func TestDynamo_RateOutlivesTheCallsItNumbers(t *testing.T) {
	t.Parallel()
	v, ctx := openView(&faultInjector{}, new(cost.Meter)), t.Context()
	name, at := uuid.Must(uuid.NewV7()).String(), time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	if _, err := v.Registry.TakeRate(ctx, "acme", "trigger/"+name, workflow.Rate{Count: 1, Per: time.Minute}, 0, at); err != nil {
		t.Fatal(err)
	}
	if err := v.Registry.PutTriggerCall(ctx, "acme", name, "call-001", workflow.TriggerCall{At: at}); err != nil {
		t.Fatal(err)
	}
	var rate, call int64
	for key, ttl := range itemTTLs(t, tables.Registry, name) {
		if strings.Contains(key, "rate#") {
			rate = ttl
		} else {
			call = ttl
		}
	}
	if call <= at.Unix() || rate < call {
		t.Errorf("the rate expires at %d, the call at %d", rate, call)
	}
}
