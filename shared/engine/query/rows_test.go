package query_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Rows are listed if the condition is true for them, on pages of every size, each once and in
// order.
func TestService_RowsOfATable(t *testing.T) {
	s := newHarness(t, 1, "\nsteps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n")
	v := s.Open()
	at := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	table := workflow.Table{Name: "log", Columns: []workflow.Column{{Name: "n", Type: workflow.ColumnNumber}, {Name: "at", Type: workflow.ColumnDatetime}, {Name: "name", Type: workflow.ColumnString}, {Name: "ok", Type: workflow.ColumnBoolean}, {Name: "more", Type: workflow.ColumnJSON}}}
	if ok, err := v.Registry.PutTable(t.Context(), harness.Caller.Tenant, table); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i := range 40 {
		values := fmt.Sprintf(`{"n":%d,"at":"2026-11-21T0%d:00:00Z","more":{"even":%v}}`, i, i/10, i%2 == 0)
		if i%10 == 7 {
			values = `{}`
		}
		row := workflow.Row{ID: workflow.RowID("x", 1, i, 0), At: at, Execution: "x", Workflow: "p/w:1.0.0", Step: "one", Values: json.RawMessage(values)}
		if err := v.Rows.PutRow(t.Context(), harness.Caller.Tenant, "log", row, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(where string, limit int) (n int) {
		t.Helper()
		last := ""
		for page := (workflow.Page{Limit: limit}); ; {
			list := must[workflow.List[workflow.Row]](s)(s.Query.Rows(t.Context(), harness.Caller, "log", where, page))
			if len(list.Items) > limit {
				t.Errorf("%q: a page of %d has %d rows", where, limit, len(list.Items))
			}
			for _, r := range list.Items {
				if r.ID <= last {
					t.Errorf("%q: %s after %s", where, r.ID, last)
				}
				last = r.ID
				n++
			}
			if page.Token = list.NextToken; page.Token == "" {
				return n
			}
		}
	}
	for where, want := range map[string]int{
		"": 40, "n >= 30": 9, "n == null": 4, "more.even && n < 10": 5, `timestamp(at) > timestamp("2026-11-21T02:30:00Z")`: 9,
		`row.execution == "x" && row.step == "one" && row.at == timestamp("2026-11-21T05:00:00Z")`: 40, "more.odd": 0, "n > 100": 0,
		"row.n >= 30": 9, "row.n == null": 4, "row.more.even && row.n < 10.0": 5, "has(row.n) && n < 1": 1, `[{"x": 1}].exists(row, row.x == 1)`: 40,
		`n == null || name in ["a"] || name.startsWith("x") && ok == true || more == "12" || n in [1, 2.5]`: 5, `[1].exists(name, name == n)`: 1, `at < "2026-11-21T01:00:00Z"`: 9,
	} {
		for _, limit := range []int{1, 3, 100} {
			if got := count(where, limit); got != want {
				t.Errorf("%q, %d a page: %d rows, want %d", where, limit, got, want)
			}
		}
	}
	for where, want := range map[string]string{"m > 1": "undeclared reference", "n + 1": "not bool", "n >": "unexpected end", "row.amount == 5.0": "no column amount", "has(row.amount)": "no column amount", `row.n == "5"`: "column row.n is of type number", `n == "12"`: "column n is of type number; this compares it with a text", `"12" != n`: "column n is of type number",
		`ok == "true"`: "column ok is of type boolean; this compares it with a text", `n > 1 && (name == 7 || ok)`: "column name is of type string; this compares it with a number",
		`at > timestamp("2026-11-21T02:30:00Z")`: "write timestamp(at)", `row.at > at`: "write timestamp(...)", `row.at > "2026-11-21T02:30:00Z"`: "write timestamp(...)", `row.step == 1`: "column row.step is of type string", `n in [1, "2"]`: "column n is of type number", `n.startsWith("1")`: "column n is of type number",
		`name == n`: "column name is of type string; this compares it with a number", strings.Repeat("n == 1 || ", 500) + "n == 1": "at most"} {
		if _, err := s.Query.Rows(t.Context(), harness.Caller, "log", where, workflow.Page{}); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", where, err)
		}
	}
	for _, c := range []workflow.Caller{{Tenant: "another"}} {
		if _, err := s.Query.Rows(t.Context(), c, "log", "", workflow.Page{}); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("another tenant: %v", err)
		}
	}
	if _, err := s.Query.Rows(t.Context(), harness.Caller, "other", "", workflow.Page{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("no table: %v", err)
	}
}

// A hidden column keeps its values, and neither lists nor conditions have it until it is shown again.
func TestService_HiddenColumns(t *testing.T) {
	s := newHarness(t, 1, "\nsteps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n")
	ctx := t.Context()
	put := func(hidden bool) {
		t.Helper()
		req := views.TableRequest{Columns: []workflow.Column{{Name: "n", Type: workflow.ColumnNumber, Required: true}, {Name: "card", Type: workflow.ColumnString, Required: true, Hidden: hidden}}}
		table, err := s.Catalog.PutTable(ctx, harness.Caller, "log", req)
		if err != nil || table.Columns[1].Hidden != hidden {
			t.Fatalf("hidden %v: %+v, %v", hidden, table, err)
		}
		values, err := table.MakeRow(map[string]json.RawMessage{"n": json.RawMessage("1"), "card": json.RawMessage(`"4242"`)})
		if err != nil {
			t.Fatal(err)
		}
		row := workflow.Row{ID: workflow.RowID("x", 1, int(table.Revision), 0), Execution: "x", Workflow: "p/w:1.0.0", Step: "one", Values: values}
		if err := s.Open().Rows.PutRow(ctx, harness.Caller.Tenant, "log", row, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(where string, rows ...string) {
		t.Helper()
		list, err := s.Query.Rows(ctx, harness.Caller, "log", where, workflow.Page{})
		var got []string
		for _, row := range list.Items {
			got = append(got, string(row.Values))
		}
		if err != nil || !slices.Equal(got, rows) {
			t.Errorf("%q: %s, %v; want %s", where, got, err, rows)
		}
	}
	shown := `{"card":"4242","n":1}`
	put(false)
	want("n == 1", shown)
	put(true)
	want("", `{"n":1}`, `{"n":1}`)
	want("n == 1", `{"n":1}`, `{"n":1}`)
	if _, err := s.Query.Rows(ctx, harness.Caller, "log", `card == "4242"`, workflow.Page{}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a condition over it: %v", err)
	}
	put(false)
	want(`card == "4242"`, shown, shown, shown)
}
