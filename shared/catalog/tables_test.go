package catalog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var log = views.TableRequest{Columns: []workflow.Column{
	{Name: "who", Type: workflow.ColumnString, Required: true}, {Name: "n", Type: workflow.ColumnNumber}, {Name: "at", Type: workflow.ColumnDatetime}, {Name: "more", Type: workflow.ColumnJSON},
}}

// Publishing a definition reports the parts of a pipe that do not fit its table, as far as known.
func TestPublish_ChecksPipes(t *testing.T) {
	for _, c := range []struct{ pipe, want string }{
		{"table: log, map: {who: entity.id, n: result.n, at: job.endedAt, more: result}", ""},
		{"table: log, map: {who: string(result.n), n: 1 + 2, at: string(result.at), more: \"[1]\"}", ""},
		{"table: log, static: {who: a, n: 1, at: \"2030-01-31T08:00:00Z\", more: {a: 1}}", ""},
		{"table: lgo, map: {who: entity.id}", "pipes[0].table TABLE_NOT_FOUND"},
		{"table: log, map: {n: result.n}", "pipes[0] MISSING_REQUIRED"},
		{"table: log, map: {who: entity.id, m: result.n}", "pipes[0].map.m COLUMN_NOT_FOUND"},
		{"table: log, map: {who: entity.id}, static: {m: 1}", "pipes[0].static.m COLUMN_NOT_FOUND"},
		{"table: log, map: {who: 1 + 2, n: \"'a'\", at: \"1 > 2\"}", "pipes[0].map.at TYPE_MISMATCH, pipes[0].map.n TYPE_MISMATCH, pipes[0].map.who TYPE_MISMATCH"},
		{"table: log, static: {who: 7, n: a, at: yesterday, more: null}", "pipes[0].static.at TYPE_MISMATCH, pipes[0].static.more TYPE_MISMATCH, pipes[0].static.n TYPE_MISMATCH, pipes[0].static.who TYPE_MISMATCH"},
	} {
		t.Run(c.pipe, func(t *testing.T) {
			catalog := openCatalog(sim.New(1))
			if _, err := catalog.PutTable(t.Context(), ann, "log", log); err != nil {
				t.Fatal(err)
			}
			source := fmt.Sprintf("package: p\nname: n\nversion: 1.0.0\nsteps: [{label: one, functionBlock: p/b:1, runOn: device}]\npipes: [{step: one, %s}]\n", c.pipe)
			_, _, err := catalog.Publish(t.Context(), ann, []byte(source), true)
			if got := issuesOf(err); got != c.want || (err != nil) != (c.want != "") {
				t.Errorf("%s: %v", got, err)
			}
		})
	}
}

// The same is checked of the rows of steps.
func TestPublish_ChecksInserts(t *testing.T) {
	for _, c := range []struct{ insert, want string }{
		{"{table: log, row: {who: '${parameters.who}', n: '${parameters.n}', at: '${parameters.at}', more: ['${parameters.n}']}}", ""},
		{"{table: log, row: {who: 'a${1}', n: '${1 + 2}', at: \"2030-01-31T08:00:00Z\", more: {a: 1}}}", ""},
		{"{table: lgo, row: {who: a}}", "steps[0].workflow.steps[0].insert.table TABLE_NOT_FOUND"},
		{"{table: log, row: {n: 1}}", "steps[0].workflow.steps[0].insert MISSING_REQUIRED"},
		{"{table: log, row: {who: a, m: 1}}", "steps[0].workflow.steps[0].insert.row.m COLUMN_NOT_FOUND"},
		{"{table: log, row: {who: 1, n: 'a${1}', at: '${1 > 2}', more: null}}", "steps[0].workflow.steps[0].insert.row.at TYPE_MISMATCH, steps[0].workflow.steps[0].insert.row.more TYPE_MISMATCH, steps[0].workflow.steps[0].insert.row.n TYPE_MISMATCH, steps[0].workflow.steps[0].insert.row.who TYPE_MISMATCH"},
	} {
		t.Run(c.insert, func(t *testing.T) {
			catalog := openCatalog(sim.New(1))
			if _, err := catalog.PutTable(t.Context(), ann, "log", log); err != nil {
				t.Fatal(err)
			}
			source := fmt.Sprintf("package: p\nname: n\nversion: 1.0.0\nsteps: [{label: both, workflow: {steps: [{label: one, insert: %s}]}}]\n", c.insert)
			_, _, err := catalog.Publish(t.Context(), ann, []byte(source), true)
			if got := issuesOf(err); got != c.want || (err != nil) != (c.want != "") {
				t.Errorf("%s: %v", got, err)
			}
		})
	}
}

func issuesOf(err error) string {
	var all []string
	if e := (*workflow.Error)(nil); errors.As(err, &e) {
		for _, i := range e.Issues {
			all = append(all, i.Path+" "+i.Code)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A table is made once, and changed only as its rows allow, whatever fails between.
func TestPutTable(t *testing.T) {
	w := sim.New(1)
	c := openCatalog(w)
	w.Faults = faults.Randomly(rand.New(rand.NewPCG(1, 1)), 3, faults.LostReply, faults.Repeated)
	put := func(name string, req views.TableRequest) (made workflow.Table, err error) {
		for range 50 {
			if made, err = c.PutTable(t.Context(), ann, name, req); !workflow.Is(err, workflow.CodeUnavailable) {
				return made, err
			}
		}
		return made, err
	}
	first, err := put("log", log)
	if err != nil || first.Revision != 1 || first.CreatedBy != ann.Actor || first.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	if same, err := put("log", log); err != nil || !cmp.Equal(same, first) {
		t.Errorf("the same again: %+v, %v", same, err)
	}
	more := log
	more.Retention, more.Columns = workflow.Duration(time.Hour), append(slices.Clone(log.Columns), workflow.Column{Name: "note", Type: workflow.ColumnString})
	second, err := put("log", more)
	if err != nil || second.Revision != 2 || len(second.Columns) != 5 || !second.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("a column more: %+v, %v", second, err)
	}
	if _, err := put("log", log); issuesOf(err) != "columns required" {
		t.Errorf("a column less: %v", err)
	}
	if _, err := put("other", views.TableRequest{Columns: []workflow.Column{{Name: "in", Type: "string"}, {Name: "row", Type: "string"}}}); issuesOf(err) != "columns[0].name reserved, columns[1].name reserved" {
		t.Errorf("names that expressions have: %v", err)
	}
	w.Faults = nil
	for i := range workflow.MaxTables - 1 {
		if _, err := put(fmt.Sprintf("t%d", i), log); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put("one-more", log); !workflow.Is(err, workflow.CodeLimit) {
		t.Errorf("one table more than there may be: %v", err)
	}
	list, err := c.Tables(t.Context(), ann, workflow.Page{})
	if err != nil || len(list.Items) != workflow.MaxTables {
		t.Errorf("%d tables, %v", len(list.Items), err)
	}
	if _, err := c.Table(t.Context(), workflow.Caller{Tenant: "another"}, "log"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
}

// Tables are listed in pages, in order of name.
func TestTables_Pages(t *testing.T) {
	catalog := openCatalog(sim.New(1))
	for _, name := range []string{"c", "a", "d", "b", "e"} {
		if _, err := catalog.PutTable(t.Context(), ann, name, log); err != nil {
			t.Fatal(err)
		}
	}
	var pages []string
	for page := (workflow.Page{Limit: 2}); ; {
		list, err := catalog.Tables(t.Context(), ann, page)
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, one := range list.Items {
			names += one.Name
		}
		pages = append(pages, names)
		if page.Token = list.NextToken; page.Token == "" || len(pages) > 5 {
			break
		}
	}
	if got := strings.Join(pages, " "); got != "ab cd e" {
		t.Errorf("%s", got)
	}
	if list, err := catalog.Tables(t.Context(), ann, workflow.Page{}); err != nil || len(list.Items) != 5 || list.NextToken != "" {
		t.Errorf("%+v, %v", list, err)
	}
}
