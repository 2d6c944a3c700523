package httpapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// R24: what the next sweep would do is told, and nothing is done. A worker whose heartbeat comes before the
// sweep, although it was overdue, is left as it is.
func TestSweep_IsToldWithoutBeingDone(t *testing.T) {
	f := newFixture(t, 1)
	for _, id := range []string{"silent", "late"} {
		f.mustDo(nil, "POST", "/workers/register", fmt.Sprintf(`{"id":%q,"blocks":["p/pure:1"]}`, id))
		f.mustDo(nil, "POST", "/workers/"+id+"/heartbeat", "")
	}
	f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: waits\nversion: 1.0.0\nsteps: [{label: a, wait: {for: 2m}}]\n")
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/waits"}`)
	f.Drain()
	f.Advance(harness.LivenessTimeouts.Unreachable + time.Minute)
	state := func(path string) string {
		var v struct{ State string }
		f.mustDo(&v, "GET", path, "")
		return v.State
	}
	for range 2 {
		var told struct {
			Executions []struct{ Execution string }
			Workers    []struct{ Worker, Becomes string }
		}
		f.mustDo(&told, "GET", "/sweep", "")
		if len(told.Executions) != 1 || told.Executions[0].Execution != x.ID || len(told.Workers) != 2 || told.Workers[0].Becomes != string(sm.WorkerUnreachable) {
			t.Fatalf("it tells %+v", told)
		}
		if e, w := state("/workflow-execution/id/"+x.ID), state("/workers/silent"); e != string(sm.ExecutionWaiting) || w != string(sm.WorkerOnline) {
			t.Fatalf("the execution is %s and the worker %s before any sweep", e, w)
		}
	}
	f.mustDo(nil, "POST", "/workers/late/heartbeat", "")
	f.Sweep()
	f.Drain()
	if e, silent, late := state("/workflow-execution/id/"+x.ID), state("/workers/silent"), state("/workers/late"); e != string(sm.ExecutionCompletedAck) || silent != string(sm.WorkerUnreachable) || late != string(sm.WorkerOnline) {
		t.Errorf("after a sweep the execution is %s, the silent worker %s, and the other %s", e, silent, late)
	}
}

// R51: a key starts one execution in its time, and another one after that.
func TestStart_KeyIsFreeAfterItsTime(t *testing.T) {
	f := newFixture(t, 1)
	f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: done\nversion: 1.0.0\nsteps: [{label: a, set: {x: 1}}]\n")
	start := func() (id string, status int) {
		var x struct{ ID string }
		a := f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/done"}`, "Idempotency-Key: k")
		return x.ID, a.status
	}
	first, status := start()
	if status != 202 {
		t.Errorf("status %d", status)
	}
	f.Advance(harness.Options().IdempotencyKeyTTL - time.Second)
	for range 2 {
		if id, status := start(); id != first || status != 200 {
			t.Errorf("%s with status %d in its time, want %s", id, status, first)
		}
	}
	f.Advance(2 * time.Second)
	second, status := start()
	if second == first || status != 202 {
		t.Errorf("%s with status %d after its time", second, status)
	}
	if id, status := start(); id != second || status != 200 {
		t.Errorf("%s with status %d, want %s", id, status, second)
	}
}

// R56: lists by status, workflow, tenant and parent have exactly what matches, the newest first, however
// long their pages are.
func TestLists_AreExact(t *testing.T) {
	f := newFixture(t, 1)
	tenants := []string{f.tenant, "other"}
	for _, f.tenant = range tenants {
		for name, step := range map[string]string{
			"done": "set: {x: 1}", "fails": "set: {x: 1}, assert: 'false'", "waits": "wait: {for: 24h}",
		} {
			f.mustDo(nil, "POST", "/workflow-definition/publish", fmt.Sprintf("package: p\nname: %s\nversion: 1.0.0\nsteps: [{label: a, %s}]\n", name, step))
		}
		f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: parent\nversion: 1.0.0\nsteps:\n  - {label: a, workflowReference: {workflow: 'p/done:1', mode: dispatch}}\n  - {label: b, workflowReference: {workflow: 'p/waits:1', mode: dispatch}}\n")
	}
	for range 3 {
		for _, name := range []string{"done", "parent", "fails", "waits"} {
			for _, f.tenant = range tenants {
				f.mustDo(nil, "POST", "/workflow-execution", fmt.Sprintf(`{"workflow":"p/%s"}`, name))
			}
		}
		f.Drain()
		f.Advance(time.Second)
	}
	for _, f.tenant = range tenants {
		var all []*workflow.Execution
		parent := ""
		for _, id := range slices.Backward(slices.Sorted(maps.Keys(f.States(f.tenant)))) {
			x, err := f.Open().Store.Load(t.Context(), f.tenant, id)
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, x); x.Parent != nil {
				parent = x.Parent.Execution
			}
		}
		if len(all) != 3*(4+2) {
			t.Fatalf("%d executions of %s", len(all), f.tenant)
		}
		for query, matches := range map[string]func(*workflow.Execution) bool{
			"":                                      func(*workflow.Execution) bool { return true },
			"status=COMPLETED":                      func(x *workflow.Execution) bool { return sm.StatusOf(x.State) == sm.StatusCompleted },
			"status=RUNNING":                        func(x *workflow.Execution) bool { return sm.StatusOf(x.State) == sm.StatusRunning },
			"state=WAITING":                         func(x *workflow.Execution) bool { return x.State == sm.ExecutionWaiting },
			"status=FAILED&workflow=p/done":         func(*workflow.Execution) bool { return false },
			"workflow=p/waits":                      func(x *workflow.Execution) bool { return x.Workflow.Name == "waits" },
			"workflow=p/waits:1.0.0&status=RUNNING": func(x *workflow.Execution) bool { return x.Workflow.Name == "waits" },
			"parent=" + parent:                      func(x *workflow.Execution) bool { return x.Parent != nil && x.Parent.Execution == parent },
			"parent=" + parent + "&workflow=p/done": func(x *workflow.Execution) bool {
				return x.Parent != nil && x.Parent.Execution == parent && x.Workflow.Name == "done"
			},
		} {
			var want []string
			for _, x := range all {
				if matches(x) {
					want = append(want, x.ID)
				}
			}
			for _, limit := range []int{1, 2, 5, 1000} {
				if got := f.listAll(query, limit); !slices.Equal(got, want) {
					t.Errorf("%s, %q, %d a page: %v, want %v", f.tenant, query, limit, got, want)
				}
			}
		}
	}
}

// listAll lists the ids of the executions that match a query, page by page.
func (f *fixture) listAll(query string, limit int) (ids []string) {
	f.Helper()
	token := ""
	for range 100 {
		var page struct {
			Items         []struct{ ID string }
			NextPageToken string
		}
		f.mustDo(&page, "GET", "/workflow-execution?"+strings.TrimPrefix(fmt.Sprintf("%s&limit=%d%s", query, limit, token), "&"), "")
		if len(page.Items) > limit {
			f.Errorf("%d on a page of %d", len(page.Items), limit)
		}
		for _, x := range page.Items {
			ids = append(ids, x.ID)
		}
		if page.NextPageToken == "" {
			return ids
		}
		token = "&pageToken=" + url.QueryEscape(page.NextPageToken)
	}
	f.Error("the list has no end")
	return ids
}
