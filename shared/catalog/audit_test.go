package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestCatalog_AuditIsListedNewestFirst: entries of many months, in pages of any size, by every filter.
func TestCatalog_AuditIsListedNewestFirst(t *testing.T) {
	w := sim.New(1)
	c := catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
	ctx := context.Background()
	var stored []workflow.AuditEntry
	for i := range 40 {
		caller := workflow.Caller{Tenant: ann.Tenant, Actor: []string{"ann", "bob"}[i%2]}
		entry := workflow.AuditEntry{Verb: []string{"cancelExecution", "archiveDefinition", "retryExecution"}[i%3], Target: fmt.Sprint(i)}
		if i%4 == 0 {
			entry.Execution = &entry.Verb
		}
		e, err := c.BeginAudit(ctx, caller, entry)
		if err != nil {
			t.Fatal(err)
		}
		if i%5 > 0 {
			if err := c.EndAudit(ctx, caller, e, 202); err != nil {
				t.Fatal(err)
			}
			if err := c.EndAudit(ctx, caller, e, 500); err != nil { // what was set stays
				t.Fatal(err)
			}
		}
		stored = append(stored, e)
		w.Advance(100 * time.Hour)
		if i == 20 {
			w.Advance(200 * 24 * time.Hour) // months without an entry
		}
	}
	if _, err := c.BeginAudit(ctx, workflow.Caller{Tenant: "other", Actor: "ann"}, workflow.AuditEntry{Verb: "cancelExecution"}); err != nil {
		t.Fatal(err)
	}
	first, now := stored[0].At, w.Now()
	for name, f := range map[string]workflow.AuditFilter{
		"all": {After: first}, "the last 31 days": {}, "by an actor": {After: first, Actor: "bob"}, "a verb": {After: first, Verb: "archiveDefinition"},
		"an execution": {After: first, Execution: "cancelExecution"}, "a time": {After: stored[7].At, Before: stored[30].At}, "nothing": {After: first, Actor: "carol"},
	} {
		since, until := f.After, f.Before
		if since.IsZero() {
			since = now.Add(time.Minute).AddDate(0, 0, -31)
		}
		var want []string
		for i, e := range slices.Backward(stored) {
			if !e.At.Before(since) && (until.IsZero() || e.At.Before(until)) && f.Matches(e) {
				want = append(want, fmt.Sprint(i))
			}
		}
		for _, limit := range []int{1, 3, 1000} {
			var got []string
			for page, reads := (workflow.Page{Limit: limit}), 0; ; reads++ {
				l, err := c.AuditEntries(ctx, ann, f, page)
				if err != nil || reads > 200 {
					t.Fatal(name, err, reads)
				}
				for _, e := range l.Items {
					got = append(got, e.Target)
					if i := slices.IndexFunc(stored, func(s workflow.AuditEntry) bool { return s.ID == e.ID }); (e.Status != nil) != (i%5 > 0) || e.Status != nil && *e.Status != 202 {
						t.Errorf("entry %d has status %v", i, e.Status)
					}
				}
				if page.Token = l.NextToken; page.Token == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, in pages of %d: %v, want %v", name, limit, got, want)
			}
		}
	}
	if _, err := c.AuditEntries(ctx, ann, workflow.AuditFilter{}, workflow.Page{Token: "nonsense"}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Error(err)
	}
}

// A list reads the entries between the two times only, however many others there are.
func TestCatalog_AuditReadsOnlyWhatIsAskedFor(t *testing.T) {
	w := sim.New(1)
	c := catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
	ctx, first := context.Background(), w.Now()
	for range 500 {
		if _, err := c.BeginAudit(ctx, ann, workflow.AuditEntry{Verb: "cancelExecution"}); err != nil {
			t.Fatal(err)
		}
		w.Advance(10 * time.Minute)
	}
	for name, f := range map[string]workflow.AuditFilter{
		"the last hour":  {After: w.Now().Add(-time.Hour)},
		"the first hour": {Before: first.Add(time.Hour)},
		"the wrong way":  {After: first.Add(2 * time.Hour), Before: first.Add(time.Hour)},
	} {
		before := reads(w)
		list, err := c.AuditEntries(ctx, ann, f, workflow.Page{Limit: 10})
		want := 6
		if f.After.Equal(first.Add(2 * time.Hour)) {
			want = 0
		}
		if read := reads(w) - before; err != nil || len(list.Items) != want || read > 8 {
			t.Errorf("%s: %d entries, %v reads, %v", name, len(list.Items), read, err)
		}
	}
}

// reads is how much has been read so far.
func reads(w *sim.World) (n float64) {
	for _, units := range w.Consumed().ReadUnits {
		n += units
	}
	return n
}
