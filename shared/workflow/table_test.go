package workflow_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

var payments = workflow.Table{Name: "payments", Columns: []workflow.Column{
	{Name: "txn", Type: workflow.ColumnString, Required: true}, {Name: "amount", Type: workflow.ColumnNumber}, {Name: "paid", Type: workflow.ColumnBoolean},
	{Name: "at", Type: workflow.ColumnDatetime}, {Name: "more", Type: workflow.ColumnJSON},
}}

func issueTexts(err error) string {
	var all []string
	var e *workflow.Error
	if errors.As(err, &e) {
		for _, i := range e.Issues {
			all = append(all, i.Path+" "+i.Code)
		}
	}
	return strings.Join(all, ", ")
}

func TestTable_MakeRow(t *testing.T) {
	for _, c := range []struct{ name, values, want, issues string }{
		{"all", `{"txn": "t1", "amount": 12.5, "paid": true, "at": "2026-01-31T09:00:00+01:00", "more": {"a": [1]}}`, `{"amount":12.5,"at":"2026-01-31T08:00:00Z","more":{"a":[1]},"paid":true,"txn":"t1"}`, ""},
		{"null is no value", `{"txn": "t1", "amount": null}`, `{"txn":"t1"}`, ""},
		{"a large number stays as it is", `{"txn": "t1", "amount": 12345678901234567890}`, `{"amount":12345678901234567890,"txn":"t1"}`, ""},
		{"nothing of what is required", `{"amount": 1}`, "", " MISSING_REQUIRED"},
		{"null where a value is required", `{"txn": null}`, "", " MISSING_REQUIRED"},
		{"other types", `{"txn": 1, "amount": "1", "paid": "true", "at": "yesterday"}`, "", "amount TYPE_MISMATCH, at TYPE_MISMATCH, paid TYPE_MISMATCH, txn TYPE_MISMATCH"},
		{"a number without end", `{"txn": "t1", "amount": 1e999}`, "", "amount TYPE_MISMATCH"},
		{"a column that is not there", `{"txn": "t1", "amuont": 1}`, "", "amuont COLUMN_NOT_FOUND"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var values map[string]json.RawMessage
			if err := json.Unmarshal([]byte(c.values), &values); err != nil {
				t.Fatal(err)
			}
			got, err := payments.MakeRow(values)
			if string(got) != c.want || issueTexts(err) != c.issues || (err != nil) != (c.issues != "") {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	if _, err := payments.MakeRow(map[string]json.RawMessage{"txn": json.RawMessage(`"` + strings.Repeat("x", workflow.MaxRowBytes) + `"`)}); !workflow.Is(err, workflow.CodeTooLarge) {
		t.Errorf("a row that is too large: %v", err)
	}
}

func TestTable_CheckChange(t *testing.T) {
	columns := func(change func([]workflow.Column) []workflow.Column) *workflow.Table {
		return &workflow.Table{Name: "payments", Columns: change(append([]workflow.Column(nil), payments.Columns...))}
	}
	for _, c := range []struct {
		name, want string
		next       *workflow.Table
	}{
		{"the same", "", columns(func(all []workflow.Column) []workflow.Column { return all })},
		{"one more", "", columns(func(all []workflow.Column) []workflow.Column {
			return append(all, workflow.Column{Name: "note", Type: workflow.ColumnString})
		})},
		{"one that is not required any more", "", columns(func(all []workflow.Column) []workflow.Column { all[0].Required = false; return all })},
		{"one less", "columns required", columns(func(all []workflow.Column) []workflow.Column { return all[:4] })},
		{"another type", "columns[1].type immutable", columns(func(all []workflow.Column) []workflow.Column { all[1].Type = workflow.ColumnString; return all })},
		{"one becomes required", "columns[1].required immutable", columns(func(all []workflow.Column) []workflow.Column { all[1].Required = true; return all })},
		{"a new one is required", "columns[5].required immutable", columns(func(all []workflow.Column) []workflow.Column {
			return append(all, workflow.Column{Name: "note", Type: workflow.ColumnString, Required: true})
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := issueTexts(workflow.Invalid("x", payments.CheckChange(c.next))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestTable_Check(t *testing.T) {
	wrong := workflow.Table{Columns: []workflow.Column{{Name: "a b", Type: "string"}, {Name: "in", Type: "text"}, {Name: "x", Type: "json"}, {Name: "x", Type: "json"}}, Retention: 1}
	got := issueTexts(workflow.Invalid("x", wrong.Check(func(name string) bool { return name == "in" })))
	if want := "columns[0].name format, columns[1].name reserved, columns[1].type enum, columns[3].name duplicate, retention range"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := payments.Check(func(string) bool { return false }); len(got) > 0 {
		t.Error(got)
	}
}
