package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var payments = workflow.Table{Name: "payments", Columns: []workflow.Column{
	{Name: "txn", Type: workflow.ColumnString, Required: true}, {Name: "amount", Type: workflow.ColumnNumber}, {Name: "source", Type: workflow.ColumnString},
	{Name: "at", Type: workflow.ColumnDatetime}, {Name: "more", Type: workflow.ColumnJSON},
}}

func putTable(s *harness.Harness, t workflow.Table) {
	s.Helper()
	s.WithoutFaults(func() {
		if ok, err := s.Open().Registry.PutTable(context.Background(), harness.Caller.Tenant, t); !ok || err != nil {
			s.Fatal(ok, err)
		}
	})
}

// newPiped has the table payments, and the definition w with pipes.
func newPiped(t testing.TB, seed uint64, definition string) *harness.Harness {
	o := harness.Options()
	o.SubscriptionsAge = subscriptionsAge
	s := harness.New(t, seed, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(5)...)
	putTable(s, payments)
	s.Publish("w", definition)
	return s
}

// rowsOf lists the rows of a table.
func rowsOf(s *harness.Harness, table string) (rows []workflow.Row) {
	s.Helper()
	s.WithoutFaults(func() {
		list, err := s.Open().Rows.Rows(context.Background(), harness.Caller.Tenant, table, workflow.Page{Limit: workflow.MaxPageSize})
		if err != nil || list.NextToken != "" {
			s.Fatal(err, list.NextToken)
		}
		rows = list.Items
	})
	return rows
}

func valuesOf(rows []workflow.Row) (values []string) {
	for _, r := range rows {
		values = append(values, string(r.Values))
	}
	return values
}

func expectRows(s *harness.Harness, want ...string) {
	s.Helper()
	if got := valuesOf(rowsOf(s, "payments")); !slices.Equal(got, want) {
		s.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const chargePipe = "pipes:\n  - {step: one, table: payments, map: {txn: result.id, amount: result.amount}, static: {source: shop}}\n"

// pay succeeds for each device with a payment of its own.
func pay(c harness.BlockCall) *harness.Outcome {
	return &harness.Outcome{Result: json.RawMessage(fmt.Sprintf(`{"id":"t-%s","amount":7}`, c.Entity))}
}

// What a pipe sees of a job, and for which jobs it makes rows.
func TestPipe_MakesRowsOfJobs(t *testing.T) {
	for _, c := range []struct {
		name, definition string
		script           func(harness.BlockCall) *harness.Outcome
		want             []string
	}{
		{"of entities", stepsYAML("one again device") + chargePipe, pay, []string{`{"amount":7,"source":"shop","txn":"t-d000"}`, `{"amount":7,"source":"shop","txn":"t-d001"}`}},
		{"of a global step", stepsYAML("one again global") + "pipes:\n  - {step: one, table: payments, map: {txn: execution.workflow, more: '[entity, item, error, job.attempt]'}}\n", nil, []string{`{"more":[null,null,null,1],"txn":"p/w:1.0.0"}`}},
		{"of items", "steps:\n  - {label: one, functionBlock: p/again:1, runOn: item, foreach: {items: '${[3, 4]}'}}\npipes:\n  - {step: one, table: payments, map: {txn: string(item), amount: item}}\n", nil, []string{`{"amount":3,"txn":"3"}`, `{"amount":4,"txn":"4"}`}},
		{"of failures", stepsYAML("one again device, failureTolerance: 100%") + "pipes:\n  - {step: one, on: failure, table: payments, map: {txn: 'entity.type + \"/\" + entity.id', more: '[error.code, job.status]'}}\n", failCalls("one EXECUTE d001"),
			[]string{`{"more":["REFUSED","FAILED"],"txn":"device/d001"}`}},
		{"of all", stepsYAML("one again device, failureTolerance: 100%") + "pipes:\n  - {step: one, on: any, table: payments, map: {txn: entity.id, more: job.status}}\n", failCalls("one EXECUTE d001"),
			[]string{`{"more":"COMPLETED","txn":"d000"}`, `{"more":"FAILED","txn":"d001"}`}},
		{"two pipes of one step", stepsYAML("one again global") + "pipes:\n  - {step: one, table: payments, static: {txn: a}}\n  - {step: one, table: payments, static: {txn: b}}\n", nil, []string{`{"txn":"a"}`, `{"txn":"b"}`}},
		{"what is not executed has no row", stepsYAML("one again device, condition: entity.id == 'd001'") + "pipes:\n  - {step: one, on: any, table: payments, map: {txn: entity.id}}\n", nil, []string{`{"txn":"d001"}`}},
		{"a job that was never called has none", "config: {maxInFlight: 1}\n" + stepsYAML("one again device") + "pipes:\n  - {step: one, on: any, table: payments, map: {txn: entity.id}}\n", failCalls("one EXECUTE d000"), []string{`{"txn":"d000"}`}},
		{"each repetition has its own", stepsYAML("one again global, repeat: {count: 2}") + "pipes:\n  - {step: one, table: payments, static: {txn: a}}\n", nil, []string{`{"txn":"a"}`, `{"txn":"a"}`}},
		{"of a pipeline", "config: {executionStrategy: {parallel: true}}\n" + stepsYAML("one again device", "two again device") + "pipes:\n  - {step: two, table: payments, map: {txn: result.id}}\n", pay, []string{`{"txn":"t-d000"}`, `{"txn":"t-d001"}`}},
		{"a rollback has none", stepsYAML("one again device", "two pure global") + chargePipe, func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "two" {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return pay(c)
		}, []string{`{"amount":7,"source":"shop","txn":"t-d000"}`, `{"amount":7,"source":"shop","txn":"t-d001"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPiped(t, 1, c.definition)
			s.Script = c.script
			id := s.Start("w", harness.DeviceIDs(2)...)
			settle(s)
			expectRows(s, c.want...)
			for _, r := range rowsOf(s, "payments") {
				if r.Execution != id || r.Workflow != "p/w:1.0.0" || !strings.HasPrefix(r.ID, id+".") || r.At.IsZero() {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// The pipes of an embedded definition make rows of its steps.
func TestPipe_OfAnEmbeddedDefinition(t *testing.T) {
	s := newPiped(t, 1, stepsYAML("one again global")+chargePipe)
	s.Publish("outer", "steps:\n  - {label: inner, workflowReference: {workflow: 'p/w:1', mode: embed}}\n")
	s.Script = pay
	s.Start("outer")
	settle(s)
	if rows := rowsOf(s, "payments"); len(rows) != 1 || rows[0].Step != "inner.one" {
		t.Errorf("%+v", rows)
	}
}

// Whatever call fails, or a process dies before or after, each row is there, and once.
func TestPipe_StoresEachRowOnce(t *testing.T) {
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for n := 1; ; n++ {
			hit := false
			s := newPiped(t, 1, stepsYAML("one again device", "two pure global")+chargePipe)
			s.Script = pay
			at := faults.At(n, fault)
			s.Faults = func(call faults.Call) faults.Fault {
				f := at(call)
				hit = hit || f != faults.None
				return f
			}
			id := s.Start("w", harness.DeviceIDs(2)...)
			s.RunFor(2 * time.Hour)
			s.Faults = nil
			s.RunFor(2 * time.Hour)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			expectRows(s, `{"amount":7,"source":"shop","txn":"t-d000"}`, `{"amount":7,"source":"shop","txn":"t-d001"}`)
			if t.Failed() {
				t.Fatalf("%v at call %d", fault, n)
			}
			if !hit {
				break
			}
		}
	}
}

// The same with faults at random, announcements that are lost, messages that come twice, late and in
// any order, and retries.
func TestPipe_StoresEachRowOnceUnderManyFaults(t *testing.T) {
	for seed := range uint64(100) {
		s := newPiped(t, seed, stepsYAML("one again device, failureTolerance: 100%", "two pure global")+"pipes:\n  - {step: one, on: any, table: payments, map: {txn: entity.id}}\n")
		random := rand.New(rand.NewPCG(seed, 9))
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if random.IntN(5) == 0 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		s.QueueFaults.Shuffle, s.QueueFaults.DuplicateOneIn, s.QueueFaults.LoseOneIn = true, 3, 4
		s.Faults = faults.Randomly(random, 15, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		id := s.Start("w", harness.DeviceIDs(4)...)
		s.RunFor(6 * time.Hour)
		faults.CatchCrash(func() {
			_, _ = s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}) // as far as its state allows
		})
		s.RunFor(6 * time.Hour)
		s.Faults, s.QueueFaults.LoseOneIn = nil, 0
		s.RedriveDeliveries()
		s.RunFor(48 * time.Hour)
		var want, got []string // jobs that were executed, by id
		for _, j := range s.Jobs(id) {
			if j.Kind == workflow.JobExecute && j.Step == "one" && (j.State == sm.JobCompleted || j.State == sm.JobFailed || j.State == sm.JobUnknown) && j.ReplacedBy == nil {
				var seq, index, attempt int
				if _, err := fmt.Sscanf(strings.TrimPrefix(j.ID, id), ".%d.%d.%d", &seq, &index, &attempt); err != nil {
					t.Fatal(j.ID, err)
				}
				want = append(want, workflow.RowID(id, seq, index, 0)+" "+j.Entity.ID)
			}
		}
		for _, r := range rowsOf(s, "payments") {
			var values struct{ Txn string }
			if err := json.Unmarshal(r.Values, &values); err != nil {
				t.Fatal(err)
			}
			got = append(got, r.ID+" "+values.Txn)
		}
		if slices.Sort(want); len(want) == 0 || !slices.Equal(got, want) {
			t.Fatalf("seed %d: rows\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// R60: while the storage of rows is down, the execution continues as if it were up. Rows that could
// not be stored become dead letters, and are stored when these are redriven.
func TestPipe_StorageDown(t *testing.T) {
	run := func(down bool) (s *harness.Harness, id string, history []string) {
		s = newPiped(t, 1, stepsYAML("one again device", "two pure global")+chargePipe)
		s.Script = pay
		if down {
			s.Faults = faults.Every(faults.Throttled, "rows.put")
		}
		id = s.Start("w", harness.DeviceIDs(3)...)
		s.RunFor(5 * time.Minute)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		for _, e := range s.History(id) {
			history = append(history, fmt.Sprintf("%s %s %s %s %s", e.At.Format(time.StampMilli), e.Type, e.From, e.To, e.Data))
		}
		return s, id, history
	}
	_, _, want := run(false)
	s, _, got := run(true)
	if !slices.Equal(got, want) {
		t.Errorf("the execution was\n%s\nwith its table\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	expectRows(s)
	s.RunFor(36 * time.Hour)
	if expectRows(s); len(s.DeadDeliveries) != 1 {
		t.Fatalf("%d dead letters", len(s.DeadDeliveries))
	}
	attempts, err := s.Open().Registry.DeliveryAttempts(context.Background(), harness.Caller.Tenant, workflow.TableSubscriber("payments"))
	if err != nil || len(attempts) != 1 || attempts[0].Delivered || attempts[0].Attempts < 9 || attempts[0].Error == "" {
		t.Errorf("%+v, %v", attempts, err)
	}
	s.Faults = nil
	s.RedriveDeliveries()
	s.RunFor(time.Minute)
	expectRows(s, `{"amount":7,"source":"shop","txn":"t-d000"}`, `{"amount":7,"source":"shop","txn":"t-d001"}`, `{"amount":7,"source":"shop","txn":"t-d002"}`)
	s.CheckInvariants()
}

// A row that does not fit is neither stored nor lost: the others are stored, the reason is
// recorded, and the row is kept among the dead letters.
func TestPipe_RowsThatDoNotFit(t *testing.T) {
	s := newPiped(t, 1, stepsYAML("one again device")+"pipes:\n  - {step: one, table: payments, map: {txn: result.id, source: result.amount}}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d001" {
			return &harness.Outcome{Result: json.RawMessage(`{"id":"t-d001","amount":null}`)}
		}
		return pay(c)
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	s.RunFor(48 * time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectRows(s, `{"txn":"t-d001"}`)
	attempts, err := s.Open().Registry.DeliveryAttempts(context.Background(), harness.Caller.Tenant, workflow.TableSubscriber("payments"))
	if err != nil || len(attempts) != 1 || !strings.Contains(attempts[0].Error, `column "source" of table payments: want a value of type string`) || len(s.DeadDeliveries) != 1 {
		t.Fatalf("%+v, %v; %d dead letters", attempts, err, len(s.DeadDeliveries))
	}
}

// A table that is not there, as after it was left out of a restore, keeps its rows waiting, and so
// does a result that makes no row.
func TestPipe_WithoutItsTable(t *testing.T) {
	s := newPiped(t, 1, stepsYAML("one again global"))
	v := s.Open()
	any := catalog.New(func() catalog.Ports {
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, AnyTable: true}
	}, s.Now)
	source := "package: p\nname: later\nversion: 1.0.0\n" + stepsYAML("one again global") + "pipes:\n  - {step: one, table: later, static: {txn: a}}\n  - {step: one, table: payments, map: {txn: result.nowhere}}\n"
	if _, _, err := any.Publish(context.Background(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	s.Start("later")
	s.RunFor(5 * time.Minute)
	expectRows(s)
	later := payments
	later.Name = "later"
	putTable(s, later)
	s.RunFor(48 * time.Hour)
	if got := valuesOf(rowsOf(s, "later")); !slices.Equal(got, []string{`{"txn":"a"}`}) || len(s.DeadDeliveries) != 1 {
		t.Errorf("%v; %d dead letters", got, len(s.DeadDeliveries))
	}
}

// Rows that could not be stored are retried on request: at once, in whatever parts, each once, and
// the outcome is recorded. A later redelivery finds nothing to do.
func TestPipe_RetryNow(t *testing.T) {
	for _, items := range []int{2, 1201} {
		s := newPiped(t, 1, stepsYAML("one again global"))
		v := s.Open()
		anyTable := catalog.New(func() catalog.Ports {
			return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, AnyTable: true}
		}, s.Now)
		var all []int
		for i := range items {
			all = append(all, i)
		}
		parameters, err := json.Marshal(map[string]any{"items": all})
		if err != nil {
			t.Fatal(err)
		}
		source := "package: p\nname: later\nversion: 1.0.0\nsteps:\n  - {label: one, functionBlock: p/again:1, runOn: item, foreach: {items: '${parameters.items}'}}\npipes:\n  - {step: one, table: later, map: {txn: string(item)}}\n"
		if _, _, err := anyTable.Publish(context.Background(), harness.Caller, []byte(source), false); err != nil {
			t.Fatal(err)
		}
		retry := func() views.RowsRetry {
			t.Helper()
			v, err := s.Engine.RetryRows(t.Context(), harness.Caller.Tenant, "later")
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		id := s.StartWith(views.StartRequest{Workflow: "p/later:1", Parameters: parameters})
		s.RunFor(20 * time.Minute)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if _, err := s.Engine.RetryRows(t.Context(), harness.Caller.Tenant, "later"); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("without a table: %v", err)
		}
		later := payments
		later.Name = "later"
		putTable(s, later)
		stored := func() (n int) {
			t.Helper()
			for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
				list, err := s.Open().Rows.Rows(t.Context(), harness.Caller.Tenant, "later", page)
				if err != nil {
					t.Fatal(err)
				}
				if n, page.Token = n+len(list.Items), list.NextToken; page.Token == "" {
					return n
				}
			}
		}
		if got := retry(); got != (views.RowsRetry{Retried: 1}) || stored() != 0 {
			t.Errorf("%d: %+v, %d rows", items, got, stored())
		}
		s.Drain()
		if n := stored(); n != items {
			t.Errorf("%d: %d rows", items, n)
		}
		attempts, err := s.Open().Registry.DeliveryAttempts(t.Context(), harness.Caller.Tenant, workflow.TableSubscriber("later"))
		if err != nil || len(attempts) == 0 || slices.ContainsFunc(attempts, func(a workflow.DeliveryAttempt) bool { return !a.Delivered }) {
			t.Errorf("%d: %+v, %v", items, attempts, err)
		}
		if got := retry(); got != (views.RowsRetry{}) {
			t.Errorf("%d: %+v", items, got)
		}
		s.RunFor(48 * time.Hour)
		if n := stored(); n != items || len(s.DeadDeliveries) != 0 {
			t.Errorf("%d: %d rows, %d dead letters", items, n, len(s.DeadDeliveries))
		}
	}
}

// A result that is stored separately from its pack is read from there.
func TestPipe_LargeResult(t *testing.T) {
	s := newPiped(t, 1, stepsYAML("one again device")+"pipes:\n  - {step: one, table: payments, map: {txn: result.id}}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: json.RawMessage(`{"id":"` + c.Entity + `","more":"` + strings.Repeat("y", 300_000) + `"}`)}
	}
	s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	expectRows(s, `{"txn":"d000"}`, `{"txn":"d001"}`, `{"txn":"d002"}`)
}

// A step over many items is delivered in parts, and each of these in time.
func TestPipe_ManyJobs(t *testing.T) {
	const items = 1201
	s := newPiped(t, 1, "steps:\n  - {label: one, functionBlock: p/again:1, runOn: item, foreach: {items: '${parameters.items}'}}\npipes:\n  - {step: one, table: payments, map: {txn: string(item), amount: item}}\n")
	var all []int
	for i := range items {
		all = append(all, i)
	}
	parameters, err := json.Marshal(map[string]any{"items": all})
	if err != nil {
		t.Fatal(err)
	}
	deliveries := 0
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "registry.table" {
			deliveries++
		}
		return faults.None
	}
	s.StartWith(views.StartRequest{Workflow: "p/w:1", Parameters: parameters})
	settle(s)
	rows, next := 0, ""
	for {
		list, err := s.Open().Rows.Rows(context.Background(), harness.Caller.Tenant, "payments", workflow.Page{Limit: workflow.MaxPageSize, Token: next})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Items {
			if want := fmt.Sprintf(`{"amount":%d,"txn":"%d"}`, rows, rows); string(r.Values) != want {
				t.Fatalf("row %d is %s", rows, r.Values)
			}
			rows++
		}
		if next = list.NextToken; next == "" {
			break
		}
	}
	if rows != items {
		t.Errorf("%d rows of %d jobs", rows, items)
	}
	if deliveries != 3 {
		t.Errorf("%d deliveries", deliveries)
	}
}

// A row costs one write. An execution with pipes costs no more than one with a subscription.
func TestCost_OfRows(t *testing.T) {
	run := func(pipes string, observed bool) workflow.Cost {
		s := newPiped(t, 1, stepsYAML("one again device")+pipes)
		s.Script = pay
		if observed {
			subscribe(s, workflow.Subscription{Name: "all", To: webhook})
		}
		before := s.Consumed()
		s.Start("w", harness.DeviceIDs(3)...)
		settle(s)
		used := s.Consumed()
		for table, n := range before.WriteUnits {
			used.WriteUnits[table] -= n
		}
		return used
	}
	piped, observed := run(chargePipe, false), run("", true)
	if got := piped.WriteUnits["data"]; got != 3 {
		t.Errorf("3 rows cost %v write units", got)
	}
	if got, want := piped.WriteUnits["executions"], observed.WriteUnits["executions"]; got > want {
		t.Errorf("an execution with a pipe costs %v write units, one that is observed %v", got, want)
	}
}
