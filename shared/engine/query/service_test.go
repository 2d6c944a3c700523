package query_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// newHarness publishes a workflow w, and imports a number of devices.
func newHarness(t *testing.T, devices int, definition string) *harness.Harness {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(devices)...)
	s.Publish("w", definition)
	return s
}

// must fails the test on an error.
func must[T any](s *harness.Harness) func(T, error) T {
	return func(v T, err error) T {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return v
	}
}

// readPages reads a list page by page.
func readPages[T any](s *harness.Harness, limit int, read func(workflow.Page) (workflow.List[T], error)) (all []T) {
	s.Helper()
	for page, n := (workflow.Page{Limit: limit}), 0; ; n++ {
		l := must[workflow.List[T]](s)(read(page))
		all = append(all, l.Items...)
		if page.Token = l.NextToken; page.Token == "" {
			return all
		}
		if n > 1000 {
			s.Fatal("still not the last page after 1000 pages")
		}
	}
}

const twoSteps = "steps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n  - {label: two, functionBlock: p/again:1, runOn: device}\n"

// N59: lists, details and status calls agree at any moment, and a terminal status never
// changes.
func TestService_AnswersAgree(t *testing.T) {
	t.Run("step by step", func(t *testing.T) { answersAgree(t, twoSteps) })
	t.Run("pipeline", func(t *testing.T) {
		answersAgree(t, "config: {executionStrategy: {parallel: true}, failureTolerance: 1}\n"+twoSteps+
			"  - {label: three, functionBlock: p/again:1, runOn: device, condition: entity.id != 'd000', assert: entity.id != 'd001'}\n")
	})
}

func answersAgree(t *testing.T, definition string) {
	s := newHarness(t, 3, definition)
	ctx := context.Background()
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Entity == "d002" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	ended := map[string]sm.Status{}
	compare := func() {
		listed := readPages(s, 2, func(p workflow.Page) (workflow.List[views.ExecutionView], error) {
			return s.Query.Executions(ctx, harness.Caller, views.ExecutionFilter{}, p)
		})
		if len(listed) != len(s.States(harness.Caller.Tenant)) {
			t.Fatalf("%d executions are listed of %d", len(listed), len(s.States(harness.Caller.Tenant)))
		}
		for _, l := range listed {
			d := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, l.ID))
			st := must[views.StatusView](s)(s.Query.Status(ctx, harness.Caller, l.ID))
			if l.State != d.State || l.Status != d.Status || st.State != d.Status || l.Version != d.Version ||
				cmp.Diff(l.CurrentStep, d.CurrentStep) != "" || cmp.Diff(st.CurrentStep, d.CurrentStep) != "" ||
				cmp.Diff(l.EndedAt, st.EndedAt) != "" || !l.UpdatedAt.Equal(d.UpdatedAt) || cmp.Diff(d.StartedAt, st.StartedAt) != "" {
				t.Errorf("they disagree:\n%+v\n%+v\n%+v", l, d, st)
			}
			if (st.TerminalEvent != nil) != sm.Terminal(d.State) || st.CompletionInferred {
				t.Errorf("in %s: %+v", d.State, st)
			}
			if before, known := ended[l.ID]; known && before != l.Status {
				t.Errorf("%s changed from %s to %s", l.ID, before, l.Status)
			}
			if sm.Terminal(d.State) {
				ended[l.ID] = l.Status
			}
			c := d.Progress.Jobs
			if sum := *c.Pending + *c.Claimed + *c.Running + c.Completed + c.Failed + *c.Cancelled + *c.Unknown; sum != c.Total {
				t.Errorf("%d jobs in total, %d by state: %+v", c.Total, sum, c)
			}
		}
	}
	s.Start("w", "d000", "d001")
	s.Start("w", "d001", "d002")
	s.Start("w", "d002")
	for compare(); s.Deliver(); {
		compare()
	}
	s.RunUntilIdle(time.Hour)
	compare()
	if len(ended) != 3 {
		t.Errorf("ended: %v", ended)
	}
}

// Lists filter by the current state of each execution.
func TestService_ExecutionFilters(t *testing.T) {
	s := newHarness(t, 3, twoSteps)
	ctx := context.Background()
	a := s.Start("w", "d000")
	s.Drain()
	s.Advance(time.Minute)
	b, c := s.Start("w", "d001"), s.Start("w", "d001")
	for name, test := range map[string]struct {
		filter views.ExecutionFilter
		want   []string
	}{
		"all, newest first":  {views.ExecutionFilter{}, []string{c, b, a}},
		"active":             {views.ExecutionFilter{Active: true}, []string{c, b}},
		"by state":           {views.ExecutionFilter{State: sm.ExecutionScheduled}, []string{c}},
		"by status":          {views.ExecutionFilter{Status: sm.StatusCompleted}, []string{a}},
		"by workflow":        {views.ExecutionFilter{Workflow: workflow.Ref{Package: "p", Name: "w", Version: "1"}}, []string{c, b, a}},
		"of another version": {views.ExecutionFilter{Workflow: workflow.Ref{Package: "p", Name: "w", Version: "2"}}, nil},
		"by parent":          {views.ExecutionFilter{Parent: a}, nil},
		"created after":      {views.ExecutionFilter{CreatedAfter: s.Load(b).CreatedAt}, []string{c, b}}, // each is after or before a time
		"created before":     {views.ExecutionFilter{CreatedBefore: s.Load(b).CreatedAt}, []string{a}},
		"by outcome":         {views.ExecutionFilter{Outcome: workflow.OutcomeSucceeded}, []string{a}},
		"of another outcome": {views.ExecutionFilter{Outcome: workflow.OutcomePartial}, nil},
		"contradictory":      {views.ExecutionFilter{State: sm.ExecutionScheduled, Status: sm.StatusCompleted}, nil},
	} {
		for _, limit := range []int{1, 2, 100} {
			var got []string
			for _, x := range readPages(s, limit, func(p workflow.Page) (workflow.List[views.ExecutionView], error) {
				return s.Query.Executions(ctx, harness.Caller, test.filter, p)
			}) {
				got = append(got, x.ID)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s, page size %d: %v, want %v", name, limit, got, test.want)
			}
		}
	}
	other := workflow.Caller{Tenant: "other", Actor: "eve"}
	if l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(ctx, other, views.ExecutionFilter{}, workflow.Page{})); len(l.Items) != 0 {
		t.Errorf("another tenant sees %v", l.Items)
	}
	if _, err := s.Query.Status(ctx, other, a); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant gets %v", err)
	}
	// A lagging index may hide an execution, but never shows one with a wrong state.
	s.Faults = func(faults.Call) faults.Fault { return faults.Stale }
	for _, x := range readPages(s, 2, func(p workflow.Page) (workflow.List[views.ExecutionView], error) {
		return s.Query.Executions(ctx, harness.Caller, views.ExecutionFilter{Active: true}, p)
	}) {
		if x.Status != sm.StatusPending && x.Status != sm.StatusRunning {
			t.Errorf("listed as active: %s", x.State)
		}
	}
}

// Jobs that no worker has claimed are listed, attempts are linked, and filters and all page
// sizes agree.
func TestService_JobsByFilterAndPage(t *testing.T) {
	s := newHarness(t, 5, "steps:\n  - {label: one, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 2, delay: 10s}}\n  - {label: two, functionBlock: p/forever:1, runOn: global}\n")
	ctx := context.Background()
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d003" && c.Attempt < 3 {
			return &harness.Outcome{FailCode: "BUSY", Retryable: true}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(5)...)
	read := func(f views.JobFilter, limit int) []workflow.Job {
		t.Helper()
		return readPages(s, limit, func(p workflow.Page) (workflow.List[workflow.Job], error) {
			return s.Query.Jobs(ctx, harness.Caller, id, f, p)
		})
	}
	for _, j := range read(views.JobFilter{}, 100) {
		if j.State != sm.JobPending || j.Attempt != 1 || j.Worker != nil || j.ClaimedAt != nil || j.CreatedAt.IsZero() || *j.Token == 0 {
			t.Errorf("unclaimed: %+v", j)
		}
	}
	s.Drain()
	waiting := read(views.JobFilter{Entity: workflow.EntityKey{ID: "d003"}}, 100)
	if len(waiting) != 2 || waiting[0].State != sm.JobFailed || waiting[1].State != sm.JobPending || waiting[1].Attempt != 2 {
		t.Errorf("between two attempts: %+v", waiting)
	}
	if w := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id)).Waiting; w == nil || w.Kind != workflow.WaitRetry {
		t.Errorf("waiting %+v", w)
	}
	if !s.RunUntilIdle(time.Hour) {
		t.Fatal("not ended after an hour")
	}
	all := read(views.JobFilter{}, 100)
	if len(all) != 8 {
		t.Fatalf("%d jobs, want 5, 2 more attempts and a global one", len(all))
	}
	ids := map[string]workflow.Job{}
	for _, j := range all {
		ids[j.ID] = j
	}
	for _, j := range all {
		if j.Replaces != nil && *ids[*j.Replaces].ReplacedBy != j.ID {
			t.Errorf("%s replaces %s, which is replaced by %v", j.ID, *j.Replaces, ids[*j.Replaces].ReplacedBy)
		}
		if (j.Replaces != nil) != (j.Attempt > 1) || (j.ReplacedBy != nil) != (j.State == sm.JobFailed) {
			t.Errorf("links of %+v", j)
		}
		if (j.Entity == nil) != (j.Step == "two") || (j.Token == nil) != (j.Entity == nil) || j.Worker == nil || j.EndedAt == nil {
			t.Errorf("job %+v", j)
		}
	}
	for limit := 1; limit <= 9; limit++ {
		if diff := cmp.Diff(all, read(views.JobFilter{}, limit)); diff != "" {
			t.Errorf("page size %d: %s", limit, diff)
		}
	}
	for name, test := range map[string]struct {
		filter views.JobFilter
		want   int
	}{
		"by step":           {views.JobFilter{Step: "one"}, 7},
		"by state":          {views.JobFilter{State: sm.JobFailed}, 2},
		"by kind":           {views.JobFilter{Kind: workflow.JobRollback}, 0},
		"by entity":         {views.JobFilter{Entity: workflow.EntityKey{Type: "device", ID: "d003"}}, 3},
		"by another type":   {views.JobFilter{Entity: workflow.EntityKey{Type: "site", ID: "d003"}}, 0},
		"by step and state": {views.JobFilter{Step: "one", State: sm.JobCompleted}, 5},
		"last attempts":     {views.JobFilter{LastAttempts: true}, 6},
		"failed and last":   {views.JobFilter{LastAttempts: true, State: sm.JobFailed}, 0},
		"finally failed":    {views.JobFilter{FinallyFailed: true}, 0},
	} {
		for _, limit := range []int{1, 3, 100} {
			got := read(test.filter, limit)
			if len(got) != test.want {
				t.Errorf("%s, page size %d: %d jobs, want %d", name, limit, len(got), test.want)
			}
			for _, j := range got {
				if diff := cmp.Diff(ids[j.ID], j); diff != "" {
					t.Errorf("%s, page size %d: a job is not as it is without a filter: %s", name, limit, diff)
				}
			}
		}
	}
}

// The history of a long execution is paged out, and is read completely with every page size,
// also while it grows.
func TestService_HistoryAcrossPages(t *testing.T) {
	definition := "steps:\n"
	for i := range 40 {
		definition += fmt.Sprintf("  - {label: s%d, functionBlock: p/pure:1, runOn: global}\n", i)
	}
	s := newHarness(t, 0, definition)
	ctx := context.Background()
	id := s.Start("w")
	read := func(limit int) []workflow.Event {
		return readPages(s, limit, func(p workflow.Page) (workflow.List[workflow.Event], error) {
			return s.Query.History(ctx, harness.Caller, id, 0, p)
		})
	}
	for s.Deliver() {
		x := s.Load(id)
		got := read(11)
		if int64(len(got)) != x.Sequence {
			t.Fatalf("%d events of %d, %d paged out", len(got), x.Sequence, x.PagedThrough)
		}
		shown := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id))
		if last := got[len(got)-1]; !shown.UpdatedAt.Equal(last.At) || shown.UpdatedAt.Before(shown.CreatedAt) {
			t.Fatalf("updated at %s, and the last event was at %s", shown.UpdatedAt, last.At)
		}
	}
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.PagedThrough == 0 || len(x.Events) > 60 || x.Sequence < 80 {
		t.Errorf("%d events, %d paged out, %d in the item", x.Sequence, x.PagedThrough, len(x.Events))
	}
	all := read(1000)
	for limit := 1; limit < 45; limit += 6 {
		if diff := cmp.Diff(all, read(limit)); diff != "" {
			t.Errorf("page size %d: %s", limit, diff)
		}
	}
	// From any event on, in a page or in the state item; a token continues from where it is.
	for after := int64(0); after <= x.Sequence+1; after++ {
		list, err := s.Query.History(ctx, harness.Caller, id, after, workflow.Page{Limit: 3})
		if want := all[min(after, x.Sequence):min(after+3, x.Sequence)]; err != nil || len(list.Items) != len(want) || len(want) > 0 && !cmp.Equal(list.Items, want) {
			t.Fatalf("after %d: %v, %v", after, list.Items, err)
		}
		if list.NextToken != "" {
			next, err := s.Query.History(ctx, harness.Caller, id, after, workflow.Page{Limit: 1, Token: list.NextToken})
			if err != nil || len(next.Items) != 1 || next.Items[0].Sequence != after+4 {
				t.Fatalf("the page that follows those after %d: %v, %v", after, next.Items, err)
			}
		}
	}
	s.CheckInvariants()
	for _, token := range []string{"***", "bm90YW51bWJlcg"} {
		if _, err := s.Query.History(ctx, harness.Caller, id, 0, workflow.Page{Token: token}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// Locks are listed with their waiters, with every page size.
func TestService_LocksWithWaiters(t *testing.T) {
	s := newHarness(t, 9, twoSteps)
	ctx := context.Background()
	a := s.Start("w", harness.DeviceIDs(5)...)
	b := s.Start("w", "d006", "d007", "d008")
	c, d := s.Start("w", "d001"), s.Start("w", "d001", "d006")
	read := func(limit int) []views.LockView {
		return readPages(s, limit, func(p workflow.Page) (workflow.List[views.LockView], error) {
			return s.Query.Locks(ctx, harness.Caller, p)
		})
	}
	all := read(100)
	held := map[string]string{}
	for _, l := range all {
		held[l.Entity.ID] = *l.HeldBy
		waiting := 0
		for _, w := range l.Waiting {
			if waiting++; w.Since == nil || (w.Execution != c && w.Execution != d) {
				t.Errorf("%s: waiter %+v", l.Entity, w)
			}
		}
		if want := map[string]int{"d001": 2}[l.Entity.ID]; waiting != want {
			t.Errorf("%s: %d wait, want %d", l.Entity, waiting, want)
		}
		one := must[views.LockView](s)(s.Query.Lock(ctx, harness.Caller, l.Entity))
		if diff := cmp.Diff(l, one); diff != "" {
			t.Errorf("listed and single lock differ: %s", diff)
		}
	}
	want := map[string]string{"d000": a, "d001": a, "d002": a, "d003": a, "d004": a, "d006": b, "d007": b, "d008": b}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Error(diff)
	}
	for limit := 1; limit <= 9; limit++ {
		if diff := cmp.Diff(all, read(limit)); diff != "" {
			t.Errorf("page size %d: %s", limit, diff)
		}
	}
	free := must[views.LockView](s)(s.Query.Lock(ctx, harness.Caller, workflow.EntityKey{Type: "device", ID: "d005"}))
	if free.HeldBy != nil || free.Since != nil || free.Token != 0 || free.Waiting == nil {
		t.Errorf("free: %+v", free)
	}
	if _, err := s.Query.Lock(ctx, harness.Caller, workflow.EntityKey{Type: "device", ID: "none"}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("no such entity: %v", err)
	}
	if !s.RunUntilIdle(time.Hour) {
		t.Fatal("not ended after an hour")
	}
	if all := read(100); len(all) != 0 {
		t.Errorf("after all executions have ended: %+v", all)
	}
	released := must[views.LockView](s)(s.Query.Lock(ctx, harness.Caller, workflow.EntityKey{Type: "device", ID: "d001"}))
	if released.HeldBy != nil || released.ReservedBy != nil || released.Token == 0 {
		t.Errorf("released: %+v", released)
	}
}

// Steps, results and cost of an execution that was rolled back.
func TestService_StepsResultsAndCost(t *testing.T) {
	s := newHarness(t, 2, twoSteps)
	ctx := context.Background()
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Entity == "d001" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return &harness.Outcome{Result: []byte(`"of ` + c.Step + `"`)}
	}
	id := s.Start("w", "d000", "d001")
	if !s.RunUntilIdle(time.Hour) {
		t.Fatal("not ended after an hour")
	}
	read := func(limit int) []views.StepView {
		return readPages(s, limit, func(p workflow.Page) (workflow.List[views.StepView], error) {
			return s.Query.Steps(ctx, harness.Caller, id, p)
		})
	}
	steps := read(100)
	var lines []string
	for i, st := range steps {
		lines = append(lines, fmt.Sprintf("%s %s %s", st.Step, *st.Kind, st.Status))
		if st.Sequence != i+1 || st.EndedAt == nil || (st.Wave != nil) != (*st.Kind == workflow.JobRollback) {
			t.Errorf("step %+v", st)
		}
	}
	want := []string{"one EXECUTE COMPLETED", "two EXECUTE FAILED", "two ROLLBACK COMPLETED", "one ROLLBACK COMPLETED"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if e := steps[1].Error; e == nil || e.Code != "REFUSED" || *e.Entity != "device/d001" {
		t.Errorf("error %+v", e)
	}
	for limit := 1; limit < 5; limit++ {
		if diff := cmp.Diff(steps, read(limit)); diff != "" {
			t.Errorf("page size %d: %s", limit, diff)
		}
	}
	r := must[views.ResultView](s)(s.Query.Result(ctx, harness.Caller, id))
	if len(r.Steps) != 2 || len(r.Steps["one"].Results) != 2 || string(r.Steps["two"].Results["d000"]) != `"of two"` || len(r.Steps["two"].Results) != 1 {
		t.Errorf("results %+v", r.Steps)
	}
	c := must[views.CostView](s)(s.Query.Cost(ctx, harness.Caller, id))
	if c.Dollars <= 0 || c.WriteUnits["locks"] != 2 || c.WriteUnits["jobs"] == 0 || c.WriteUnits["executions"] == 0 {
		t.Errorf("cost %+v", c)
	}
}

// A page of jobs reads only the packs that it shows, and one call reads at most
// maxShardReads shards, whatever it finds.
func TestService_JobReadsAreBounded(t *testing.T) {
	const devices = 3*workflow.LanesPerShard - 20
	s := newHarness(t, devices, "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	id := s.Start("w", harness.DeviceIDs(devices)...)
	s.RunUntilIdle(time.Hour)
	reads := 0
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "packs.shard_packs" {
			reads++
		}
		return faults.None
	}
	one := must[workflow.List[workflow.Job]](s)(s.Query.Jobs(t.Context(), harness.Caller, id, views.JobFilter{}, workflow.Page{Limit: 1}))
	if len(one.Items) != 1 || one.NextToken == "" || reads != 1 {
		t.Errorf("%d jobs after %d reads", len(one.Items), reads)
	}
	reads = 0
	none := must[workflow.List[workflow.Job]](s)(s.Query.Jobs(t.Context(), harness.Caller, id, views.JobFilter{State: sm.JobUnknown}, workflow.Page{}))
	if len(none.Items) != 0 || none.NextToken == "" || reads != 2 {
		t.Errorf("%d jobs after %d reads", len(none.Items), reads)
	}
	last := must[workflow.List[workflow.Job]](s)(s.Query.Jobs(t.Context(), harness.Caller, id, views.JobFilter{State: sm.JobUnknown}, workflow.Page{Token: none.NextToken}))
	if len(last.Items) != 0 || last.NextToken != "" {
		t.Errorf("last page: %d, %q", len(last.Items), last.NextToken)
	}
	n := 0
	for page := (workflow.Page{Limit: 1000}); ; {
		l := must[workflow.List[workflow.Job]](s)(s.Query.Jobs(t.Context(), harness.Caller, id, views.JobFilter{}, page))
		if n += len(l.Items); l.NextToken == "" {
			break
		}
		page.Token = l.NextToken
	}
	if n != devices {
		t.Errorf("%d jobs in total", n)
	}
}

// An execution shows the definition with which it works, and the versions to which it is pinned, whatever is
// published later.
func TestService_ShowsThePinnedDefinition(t *testing.T) {
	s := newHarness(t, 1, "steps:\n  - {label: first, workflowReference: {workflow: \"p/inner:1\"}}\n  - {label: second, workflowReference: {workflow: p/started, mode: fireAndForget}}\n")
	ctx := context.Background()
	s.Publish("started", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
	s.Publish("inner", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	id := s.Start("w")
	shown := must[views.PinnedDefinition](s)(s.Query.PinnedDefinition(ctx, harness.Caller, id))
	published := must[workflow.PublishedDefinition](s)(s.Catalog.Definition(ctx, harness.Caller, s.Load(id).Workflow))
	want := views.PinnedDefinition{
		Workflow: published.Ref, Digest: published.Digest, PublishedAt: published.PublishedAt, Definition: published.Source,
		Workflows: map[string]string{"p/inner:1": "1.0.0", "p/started": "1.0.0"}, Blocks: map[string]string{"p/once:1": "1.0.0"},
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	later := "package: p\nname: inner\nversion: 1.1.0\nseedEntity: device\nsteps: [{label: two, functionBlock: p/again:1, runOn: device}]\n"
	if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte(later), false); err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	if diff := cmp.Diff(want, must[views.PinnedDefinition](s)(s.Query.PinnedDefinition(ctx, harness.Caller, id))); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Query.PinnedDefinition(ctx, workflow.Caller{Tenant: "another"}, id); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
}

// Each attempt of a job shows the parameters of its block. Where only the message has the token of
// a callback, its name is shown.
func TestService_JobsShowTheirParameters(t *testing.T) {
	s := newHarness(t, 2, `steps:
  - {label: one, functionBlock: "p/again:1", runOn: device, parameters: {to: "${entity.id}"}, retry: {maxRetries: 1}}
  - {label: two, functionBlock: "p/forever:1", runOn: global, parameters: {link: "${callback.token}"}, callback: {deadline: 2h}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d001" && c.Attempt < 2 {
			return &harness.Outcome{FailCode: "BUSY", Retryable: true}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	s.Drain()
	var got []string
	for _, j := range must[workflow.List[workflow.Job]](s)(s.Query.Jobs(context.Background(), harness.Caller, id, views.JobFilter{}, workflow.Page{})).Items {
		got = append(got, fmt.Sprintf("%s %d %s", j.Step, j.Attempt, j.Parameters))
	}
	want := []string{`one 1 {"to":"d000"}`, `one 1 {"to":"d001"}`, `one 2 {"to":"d001"}`, `two 1 {"link":"${callback.token}"}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
