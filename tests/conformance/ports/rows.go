package ports

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Rows tests [port.Rows], and the tables of port.Registry.
func Rows(t *testing.T, open Open) {
	runParallel(t, open, map[string]func(s *fixture){
		"a table is written at the revision that was read": func(s *fixture) {
			one := workflow.Table{Name: "b", Description: "<b>", Columns: []workflow.Column{{Name: "x", Type: workflow.ColumnString, Required: true}}, Retention: workflow.Duration(time.Hour), CreatedAt: baseTime, CreatedBy: "ann"}
			put := func(t workflow.Table, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Registry.PutTable(s.ctx, s.tenant, t))
			}
			if got := must[workflow.Table](s)(s.Registry.Table(s.ctx, s.tenant, "b")); !cmp.Equal(got, workflow.Table{Name: "b"}) {
				s.Errorf("%+v", got)
			}
			put(one, true)
			put(one, true) // its reply was lost
			other := one
			other.Description = ""
			put(other, false)
			other.Name = "a"
			s.loseReply()
			put(other, true)
			one.Revision, one.Columns = 1, append(one.Columns[:1:1], workflow.Column{Name: "y", Type: workflow.ColumnJSON})
			put(one, true)
			one.Revision, other.Revision = 2, 1
			if got := must[workflow.Table](s)(s.Registry.Table(s.ctx, s.tenant, "b")); !cmp.Equal(got, one) {
				s.Errorf("%s", cmp.Diff(one, got))
			}
			if got, want := must[[]workflow.Table](s)(s.Registry.Tables(s.ctx, s.tenant)), []workflow.Table{other, one}; !cmp.Equal(got, want) {
				s.Errorf("%s", cmp.Diff(want, got))
			}
			if got := must[[]workflow.Table](s)(s.Registry.Tables(s.ctx, s.tenant+"x")); len(got) != 0 {
				s.Errorf("another tenant has %v", got)
			}
		},
		"a row is there once, and rows are listed by their ids": func(s *fixture) {
			var want []workflow.Row
			for i := range 12 {
				want = append(want, workflow.Row{ID: workflow.RowID("0190", 1, i, 0), At: baseTime, Execution: "0190", Workflow: "p/w:1.0.0", Step: "a", Values: json.RawMessage(`{"x":"<b>"}`)})
			}
			for i := len(want) - 1; i >= 0; i-- {
				if i == 3 {
					s.loseReply()
				}
				if err := s.Rows.PutRow(s.ctx, s.tenant, "t", want[i], time.Time{}); err != nil {
					s.Fatal(err)
				}
			}
			again := want[5]
			again.Values = json.RawMessage(`{"x":"other"}`)
			if err := s.Rows.PutRow(s.ctx, s.tenant, "t", again, baseTime.Add(time.Hour)); err != nil {
				s.Fatal(err)
			}
			for id, want := range map[string]bool{want[5].ID: true, workflow.RowID("0190", 2, 5, 0): false} {
				if got := must[bool](s)(s.Rows.HasRow(s.ctx, s.tenant, "t", id)); got != want {
					s.Errorf("row %s: %v", id, got)
				}
			}
			if must[bool](s)(s.Rows.HasRow(s.ctx, s.tenant, "t2", want[5].ID)) || must[bool](s)(s.Rows.HasRow(s.ctx, s.tenant+"x", "t", want[5].ID)) {
				s.Error("another table has the row")
			}
			var got []workflow.Row
			for page := (workflow.Page{Limit: 5}); ; {
				list := must[workflow.List[workflow.Row]](s)(s.Rows.Rows(s.ctx, s.tenant, "t", page))
				if len(list.Items) > 5 {
					s.Errorf("a page has %d rows", len(list.Items))
				}
				got = append(got, list.Items...)
				if page.Token = list.NextToken; page.Token == "" {
					break
				}
			}
			if !cmp.Equal(got, want, compareRawJSON) {
				s.Errorf("%s", cmp.Diff(want, got, compareRawJSON))
			}
			for after, from := range map[string]int{want[6].ID: 7, want[6].ID + "!": 7, "0": 0, want[len(want)-1].ID: len(want)} {
				list := must[workflow.List[workflow.Row]](s)(s.Rows.Rows(s.ctx, s.tenant, "t", workflow.Page{Limit: 100, After: after}))
				if len(list.Items)+from != len(want) || from < len(want) && !cmp.Equal(list.Items, want[from:], compareRawJSON) {
					s.Errorf("after %s: %s", after, cmp.Diff(want[from:], list.Items, compareRawJSON))
				}
			}
			for _, other := range [][2]string{{s.tenant, "t2"}, {s.tenant + "x", "t"}} {
				if list := must[workflow.List[workflow.Row]](s)(s.Rows.Rows(s.ctx, other[0], other[1], workflow.Page{})); len(list.Items) > 0 {
					s.Errorf("%v has %v", other, list.Items)
				}
			}
			_, err := s.Rows.Rows(s.ctx, s.tenant, "t", workflow.Page{Token: "%"})
			s.wantCode(err, workflow.CodeInvalid)
		},
	})
}
