package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A step puts a row into a table, wherever it stands.
func TestInsert_PutsRows(t *testing.T) {
	const inLoop = "workflow: {steps: [{label: log, insert: {table: payments, row: {txn: \"t-${item}\", amount: \"${index}\"}}}]}"
	for _, c := range []struct {
		name, steps string
		want        []string
	}{
		{"after a block", "  - {label: one, functionBlock: 'p/again:1', runOn: global}\n  - {label: log, insert: {table: payments, row: {txn: '${one.result.id}', amount: '${one.result.amount}', source: shop, more: {by: ['${execution.workflow}']}}}}\n",
			[]string{`{"amount":7,"more":{"by":["p/w:1.0.0"]},"source":"shop","txn":"t-"}`}},
		{"each time of a loop", "  - {label: each, loop: {over: \"${['a', 'b']}\"}, " + inLoop + "}\n", []string{`{"amount":0,"txn":"t-a"}`, `{"amount":1,"txn":"t-b"}`}},
		{"in branches", "  - label: both\n    parallel:\n      branches:\n        - {label: left, insert: {table: payments, row: {txn: a}}}\n        - {label: right, steps: [{label: log, insert: {table: payments, row: {txn: b}}}]}\n",
			[]string{`{"txn":"a"}`, `{"txn":"b"}`}},
		{"in a case", "  - {label: pick, switch: [{when: 1 > 2, steps: [{label: no, insert: {table: payments, row: {txn: a}}}]}, {default: true, steps: [{label: yes, insert: {table: payments, row: {txn: b}}}]}]}\n", []string{`{"txn":"b"}`}},
		{"null is no value, and a condition skips", "  - {label: log, insert: {table: payments, row: {txn: a, amount: '${null}'}}}\n  - {label: no, condition: 1 > 2, insert: {table: payments, row: {txn: b}}}\n", []string{`{"txn":"a"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPiped(t, 1, "steps:\n"+c.steps)
			s.Script = pay
			id := s.Start("w")
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			expectRows(s, c.want...)
			for _, r := range rowsOf(s, "payments") {
				if r.Execution != id || r.Workflow != "p/w:1.0.0" || r.Step == "" || r.At.IsZero() || !strings.HasPrefix(r.ID, id+".") {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// A row that does not fit fails its step, with a code that the definition can handle.
func TestInsert_RowThatDoesNotFit(t *testing.T) {
	const step = "parameters: {type: object}\nsteps:\n  - {label: log, insert: {table: payments, row: {txn: a, amount: '${parameters.amount}'}}%s}\n  - {label: seen, set: {code: '${steps.log.error.code}'}}\noutput: {code: '${vars.code}'}\n"
	start := func(s *harness.Harness, parameters string) *workflow.Execution {
		id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(parameters)})
		settle(s)
		return s.Load(id)
	}
	s := newPiped(t, 1, strings.ReplaceAll(step, "%s", ""))
	if x := start(s, `{"amount":"much"}`); x.State != sm.ExecutionFailedSafeAck || x.Error.Code != "TYPE_MISMATCH" || x.Error.Step != "log" || !strings.Contains(x.Error.Message, "amount") || strings.Contains(x.Error.Message, "much") {
		t.Errorf("%s %+v", x.State, x.Error)
	}
	if x := start(s, `{}`); x.State != sm.ExecutionFailedSafeAck || x.Error.Code != workflow.FailureParameters {
		t.Errorf("%s %+v", x.State, x.Error)
	}
	expectRows(s)
	s = newPiped(t, 1, strings.ReplaceAll(step, "%s", ", onFailure: seen"))
	if x := start(s, `{"amount":[]}`); x.State != sm.ExecutionCompletedAck || string(x.Output.Inline) != `{"code":"TYPE_MISMATCH"}` {
		t.Errorf("%s %+v", x.State, x.Output)
	}
	s = newPiped(t, 1, "parameters: {type: object}\nsteps:\n  - {label: log, continueOnError: true, insert: {table: payments, row: {txn: a, amount: '${parameters.amount}'}}}\n")
	if x := start(s, `{"amount":true}`); x.Outcome() != workflow.OutcomePartial {
		t.Errorf("%s %s", x.State, x.Outcome())
	}
}

// A failed step is executed again by a retry, and then makes another row; rollback removes none.
func TestInsert_RetryAndRollback(t *testing.T) {
	s := newPiped(t, 1, "steps:\n  - {label: log, insert: {table: payments, row: {txn: a}}}\n  - {label: one, functionBlock: 'p/again:1', runOn: global}\n")
	s.Script = failCalls("one EXECUTE")
	id := s.Start("w")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != "REFUSED" {
		t.Errorf("%+v", x.Error)
	}
	expectRows(s, `{"txn":"a"}`)
	s.Script = nil
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{From: "log"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectRows(s, `{"txn":"a"}`, `{"txn":"a"}`)
}

// Whatever call fails, or a process dies before or after, there is one row.
func TestInsert_PutsEachRowOnce(t *testing.T) {
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for n := 1; ; n++ {
			hit := false
			s := newPiped(t, 1, "steps:\n  - {label: log, insert: {table: payments, row: {txn: a}}}\n  - label: both\n    parallel: {branches: [{label: left, insert: {table: payments, row: {txn: b}}}, {label: right, insert: {table: payments, row: {txn: c}}}]}\n")
			at := faults.At(n, fault)
			s.Faults = func(call faults.Call) faults.Fault {
				f := at(call)
				hit = hit || f != faults.None
				return f
			}
			id := s.Start("w")
			s.RunFor(2 * time.Hour)
			s.Faults = nil
			s.RunFor(2 * time.Hour)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			expectRows(s, `{"txn":"a"}`, `{"txn":"b"}`, `{"txn":"c"}`)
			if t.Failed() {
				t.Fatalf("%v at call %d", fault, n)
			}
			if !hit {
				break
			}
		}
	}
}

// While the table cannot be written the step waits for it, and branches beside it go on. A cancellation or the
// time of the step end that.
func TestInsert_StorageDown(t *testing.T) {
	down := func(c faults.Call) faults.Fault {
		if c.Name == "rows.put" {
			return faults.Throttled
		}
		return faults.None
	}
	for _, how := range []string{"it is back", "cancelled", "too late"} {
		t.Run(how, func(t *testing.T) {
			s := newPiped(t, 1, "steps:\n  - label: both\n    parallel:\n      branches:\n        - {label: left, stepTimeout: 10m, insert: {table: payments, row: {txn: a}}}\n        - {label: right, functionBlock: 'p/again:1', runOn: global}\n")
			s.Faults = down
			id := s.Start("w")
			s.RunFor(5 * time.Minute)
			if x := s.ExpectState(id, sm.ExecutionRunning); !s.HasCalled(id, "right EXECUTE") || x.FailureStreak != nil {
				t.Errorf("%v %+v", s.CallsOf(id), x.FailureStreak)
			}
			want, rows := sm.ExecutionCompletedAck, []string{`{"txn":"a"}`}
			switch how {
			case "cancelled":
				if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{}); err != nil {
					t.Fatal(err)
				}
				want, rows = sm.ExecutionCancelledAck, nil
			case "too late":
				s.RunFor(10 * time.Minute)
				want, rows = sm.ExecutionFailedSafeAck, nil
			}
			s.RunFor(time.Minute)
			s.Faults = nil
			settle(s)
			x := s.ExpectState(id, want)
			if how == "too late" && (x.Error.Code != workflow.FailureTimeout || x.Error.Step != "left") {
				t.Errorf("%+v", x.Error)
			}
			expectRows(s, rows...)
		})
	}
}

// A row that was stored before its handler died counts, when the step is closed before it is tried again.
func TestInsert_ClosedAfterTheRow(t *testing.T) {
	for _, how := range []string{"cancelled", "too late", "cancelled, and the table cannot be read"} {
		t.Run(how, func(t *testing.T) {
			s := newPiped(t, 1, "steps:\n  - {label: log, stepTimeout: 10m, insert: {table: payments, row: {txn: a}}}\n")
			s.Faults = faults.Next("rows.put", faults.CrashAfter)
			id := s.Start("w")
			s.Drain()
			s.Faults = nil
			expectRows(s, `{"txn":"a"}`)
			want, state := workflow.Counts{OK: 1}, sm.ExecutionCancelledAck
			switch how {
			case "too late":
				state = sm.ExecutionFailedSafeAck
				s.Faults = faults.Every(faults.Throttled, "rows.put")
			case "cancelled, and the table cannot be read":
				want = workflow.Counts{NotExecuted: 1}
				s.Faults = faults.Every(faults.Throttled, "rows.")
				fallthrough
			default:
				if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			settle(s)
			x := s.ExpectState(id, state)
			if got := x.StepRuns[0].Counts; got.OK != want.OK || got.NotExecuted != want.NotExecuted {
				t.Errorf("%+v", got)
			}
			s.Faults = nil
			expectRows(s, `{"txn":"a"}`)
		})
	}
}

// A row is stored once, whatever becomes of its table before the step is tried again.
func TestInsert_TableChangesAfterTheRow(t *testing.T) {
	s := newPiped(t, 1, "steps:\n  - {label: log, insert: {table: payments, row: {txn: a}}}\n")
	s.Faults = faults.Next("rows.put", faults.CrashAfter)
	id := s.Start("w")
	s.Drain()
	s.WithoutFaults(func() {
		r := s.Open().Registry
		table, err := r.Table(context.Background(), harness.Caller.Tenant, "payments")
		if err != nil {
			t.Fatal(err)
		}
		for i := range table.Columns {
			table.Columns[i].Type = workflow.ColumnNumber
		}
		if ok, err := r.PutTable(context.Background(), harness.Caller.Tenant, table); err != nil || !ok {
			t.Fatal(ok, err)
		}
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectRows(s, `{"txn":"a"}`)
}
