package ports_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

func newExecution(tenant string, state sm.ExecutionState) *workflow.Execution {
	return &workflow.Execution{
		Schema: workflow.SchemaVersion, Tenant: tenant, ID: uuid.Must(uuid.NewV7()).String(), State: state,
		Version: 1, Epoch: 1, Commit: uuid.NewString(), CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
		DueAt: time.Now().Add(time.Hour),
	}
}

func contextWithTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestDynamo_RetriesTransientErrors(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
		"TransactionConflictException", "InternalServerError", "ServiceUnavailable",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f, m := &faultInjector{}, new(cost.Meter)
			v := openView(f, m)
			x := newExecution("t"+uuid.NewString(), sm.ExecutionRunning)
			ctx := contextWithTimeout(t, time.Minute)
			f.failCalls(code, 3)
			if ok, err := v.Store.Create(ctx, x); !ok || err != nil {
				t.Fatalf("created %v: %v", ok, err)
			}
			if n := f.attempts(); n != 4 {
				t.Errorf("%d attempts, want 4", n)
			}
			if c := m.Take(); c.DynamoRequests != 4 {
				t.Errorf("%d requests counted, want 4: every attempt is one", c.DynamoRequests)
			}
			f.failCalls(code, 2)
			if _, err := v.Store.Load(ctx, x.Tenant, x.ID); err != nil {
				t.Error(err)
			}
			f.failCalls(code, 2)
			if _, _, err := v.Store.LoadMany(ctx, x.Tenant, []string{x.ID}); err != nil {
				t.Error(err)
			}
			f.failCalls(code, 2)
			if _, err := v.Store.ListByState(ctx, x.Tenant, x.State, "", workflow.OrderNewest, 5); err != nil {
				t.Error(err)
			}
		})
	}
}

// The alarm on throttles of a table is raised by ten refused requests within five minutes, by those too that
// succeed when they are repeated. What DynamoDB counts as a throttle is what it refuses.
func TestAlarm_TableThrottles(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, read := range map[string]func(context.Context, dynamo.View) error{
		"Executions": func(ctx context.Context, v dynamo.View) error {
			_, _, err := v.Store.LoadMany(ctx, "t", []string{"x"})
			return err
		},
		"Jobs": func(ctx context.Context, v dynamo.View) error {
			_, err := v.Packs.DoneSet(ctx, workflow.StepRunKey{Tenant: "t", Execution: "x"}, 0)
			return err
		},
		"Locks": func(ctx context.Context, v dynamo.View) error {
			_, err := v.Locks.Read(ctx, "t", []workflow.EntityKey{{Type: "device", ID: "x"}}, true)
			return err
		},
		"Registry": func(ctx context.Context, v dynamo.View) error {
			_, err := v.Registry.Entities(ctx, "t", []workflow.EntityKey{{Type: "device", ID: "x"}}, true)
			return err
		},
		"Data": func(ctx context.Context, v dynamo.View) error {
			_, err := v.Rows.HasRow(ctx, "t", "table", "x")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for refused, fires := range map[int]bool{3: false, 4: true} {
				f := &faultInjector{}
				v := openView(f, nil)
				var throttles []testkit.Measured
				for i := range 3 { // 9 or 12 in all
					f.failCalls("ProvisionedThroughputExceededException", refused)
					if err := read(contextWithTimeout(t, time.Minute), v); err != nil {
						t.Fatal(err)
					}
					throttles = append(throttles, testkit.Measured{At: begin.Add(time.Duration(i) * time.Minute), Value: f.attempts() - 1})
				}
				if got := testkit.ReadAlarm(t, "Table"+name+"Throttles").Fires(throttles); got != fires {
					t.Errorf("raised %v, want %v, by %v", got, fires, throttles)
				}
			}
		})
	}
}

func TestDynamo_PersistentErrorIsUnavailableWithinDeadline(t *testing.T) {
	t.Parallel()
	f := &faultInjector{}
	v := openView(f, nil)
	f.failCalls("ThrottlingException", 1<<30)
	ctx := contextWithTimeout(t, 300*time.Millisecond)
	_, err := v.Store.Load(ctx, "t", "x")
	if !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := f.attempts(); n < 2 {
		t.Errorf("%d attempts, want at least 2", n)
	}

	stopped, stop := context.WithCancel(context.Background())
	stop()
	_, err = v.Store.Load(stopped, "t", "x")
	if !workflow.Is(err, workflow.CodeUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDynamo_BoundsRetries(t *testing.T) {
	t.Parallel()
	f := &faultInjector{}
	f.failCalls("ThrottlingException", 1<<30)
	_, err := openView(f, nil).Store.Load(contextWithTimeout(t, time.Minute), "t", "x")
	if !workflow.Is(err, workflow.CodeUnavailable) || f.attempts() != 8 {
		t.Errorf("after %d attempts: %v", f.attempts(), err)
	}
}

// A rejected call is not retried. An invalid call is an internal error; a missing
// permission makes the service unavailable until somebody grants it.
func TestDynamo_DoesNotRetryRejections(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]workflow.Code{
		"ValidationException":   workflow.CodeInternal,
		"AccessDeniedException": workflow.CodeUnavailable,
	} {
		f := &faultInjector{}
		f.failCalls(code, 1)
		_, err := openView(f, nil).Store.Load(contextWithTimeout(t, time.Minute), "t", "x")
		if !workflow.Is(err, want) || f.attempts() != 1 {
			t.Errorf("%s: after %d attempts: %v", code, f.attempts(), err)
		}
	}
}

// After several lost replies each retry finds the commit id of the first write.
func TestDynamo_RecognisesOwnWriteAfterLostReplies(t *testing.T) {
	t.Parallel()
	f := &faultInjector{}
	v := openView(f, nil)
	ctx := contextWithTimeout(t, time.Minute)
	lose := func() {
		n := 3
		f.set(func(string) (error, bool) {
			if n--; n < 0 {
				return nil, true
			}
			return errReplyLost, true
		})
	}
	x := newExecution("t"+uuid.NewString(), sm.ExecutionRunning)
	lose()
	if ok, err := v.Store.Create(ctx, x); !ok || err != nil {
		t.Fatalf("created %v: %v", ok, err)
	}
	next := x.Clone()
	next.Version, next.Commit = 2, uuid.NewString()
	lose()
	if _, ok, err := v.Store.Commit(ctx, 1, next, workflow.CommitOptions{}); !ok || err != nil {
		t.Fatalf("committed %v: %v", ok, err)
	}
}

func TestDynamo_RetriesUnprocessedKeys(t *testing.T) {
	t.Parallel()
	f := &faultInjector{}
	v := openView(f, nil)
	ctx := contextWithTimeout(t, time.Minute)
	tenant := "t" + uuid.NewString()
	var keys []workflow.EntityKey
	for i := range 120 {
		keys = append(keys, workflow.EntityKey{Type: "device", ID: fmt.Sprint(i)})
		if ok, err := v.Locks.Take(ctx, tenant, keys[i], workflow.LockRequest{Execution: "x", Epoch: 1, Now: time.Now()}, 0); !ok || err != nil {
			t.Fatalf("taken %v: %v", ok, err)
		}
	}
	replies := 0
	f.withhold = func(r *awsdynamodb.BatchGetItemOutput) {
		replies++
		for name, items := range r.Responses {
			if len(items) < 4 {
				continue
			}
			var unprocessed types.KeysAndAttributes
			yes := true
			unprocessed.ConsistentRead = &yes
			for _, it := range items[len(items)/2:] {
				unprocessed.Keys = append(unprocessed.Keys, map[string]types.AttributeValue{"pk": it["pk"], "sk": it["sk"]})
			}
			r.Responses[name] = items[:len(items)/2]
			r.UnprocessedKeys = map[string]types.KeysAndAttributes{name: unprocessed}
		}
	}
	locks, err := v.Locks.Read(ctx, tenant, keys, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if locks[k].Owner != "x" {
			t.Errorf("%s was not read", k)
		}
	}
	if replies < 8 {
		t.Errorf("%d replies: nothing was withheld", replies)
	}

	// Without progress the read fails.
	f.mu.Lock()
	f.withhold = func(r *awsdynamodb.BatchGetItemOutput) {
		for name, items := range r.Responses {
			var unprocessed types.KeysAndAttributes
			for _, it := range items {
				unprocessed.Keys = append(unprocessed.Keys, map[string]types.AttributeValue{"pk": it["pk"], "sk": it["sk"]})
			}
			r.Responses[name] = nil
			r.UnprocessedKeys = map[string]types.KeysAndAttributes{name: unprocessed}
		}
	}
	f.mu.Unlock()
	if _, err := v.Locks.Read(contextWithTimeout(t, 300*time.Millisecond), tenant, keys[:1], true); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("without progress: %v", err)
	}
}
