package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func openCatalog(w *sim.World) *catalog.Catalog {
	return catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
}

func newestVersion(t *testing.T, w *sim.World, kind workflow.VersionKind, written string) workflow.IndexedVersion {
	t.Helper()
	ref, err := workflow.ParseRef(written)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := catalog.NewestVersion(t.Context(), w.Open().Registry, ann.Tenant, kind, ref)
	if err != nil {
		t.Fatal(err)
	}
	return newest
}

// Starts find what was published, archived, restored and registered concurrently: no version is
// lost, and none keeps a mark that it no longer has. The schedule is that of the newest version.
func TestCatalog_VersionIndexFollowsConcurrentChanges(t *testing.T) {
	ctx := t.Context()
	source := func(version, cron string) []byte { return append(definition(version, "a"), cron...) }
	for seed := range uint64(400) {
		w := sim.New(seed)
		c := openCatalog(w)
		publish := func(version, cron string) func() {
			return func() {
				if _, _, err := c.Publish(ctx, ann, source(version, cron), false); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		}
		register := func(version string) func() {
			return func() {
				if _, err := c.RegisterBlock(ctx, ann, workflow.Block{Package: "p", Name: "b", Version: version}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		}
		change := func(archive bool, version string) func() {
			set := c.Restore
			if archive {
				set = c.Archive
			}
			return func() {
				if err := set(ctx, ann, workflow.Ref{Package: "p", Name: "w", Version: version}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		}
		publish("1.0.0", "")()
		publish("1.1.0", "cron: {schedule: \"0 4 * * *\"}\n")()
		if seed%2 == 0 {
			change(true, "1.1.0")()
		}
		w.Interleave(
			w.StartTask("archive", change(true, "1.1.0")), w.StartTask("restore", change(false, "1.1.0")),
			w.StartTask("publish", publish("1.0.1", "cron: {schedule: \"0 5 * * *\"}\n")), w.StartTask("again", publish("1.0.1", "cron: {schedule: \"0 5 * * *\"}\n")),
			w.StartTask("b1", register("1.0.0")), w.StartTask("b2", register("1.1.0")),
		)
		registry := w.Open().Registry
		list, err := registry.DefinitionVersions(ctx, ann.Tenant, "p/w", workflow.Page{})
		if err != nil || len(list.Items) != 3 {
			t.Fatalf("seed %d: %d versions, %v", seed, len(list.Items), err)
		}
		newest := ""
		for _, d := range list.Items {
			found := newestVersion(t, w, workflow.DefinitionVersions, d.Ref.String())
			if want := (workflow.IndexedVersion{Version: d.Ref.Version, Archived: d.Archived}); found != want {
				t.Errorf("seed %d: found %+v, want %+v", seed, found, want)
			}
			if !d.Archived {
				newest = d.Ref.Version
			}
		}
		schedule, err := w.Open().Schedules.Schedule(ctx, ann.Tenant, "p/w")
		if err != nil || schedule.Cron == nil || schedule.Workflow.Version != newest {
			t.Errorf("seed %d: the schedule is that of %q (%v), want %s", seed, schedule.Workflow.Version, err, newest)
		}
		for _, version := range []string{"1.0", "1.1"} {
			if found := newestVersion(t, w, workflow.BlockVersions, "p/b:"+version); found.Version != version+".0" {
				t.Errorf("seed %d: found block %q, want %s.0", seed, found.Version, version)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// A request may find the schedule right just before another overwrites it with what it read
// earlier. The request that writes checks again.
func TestCatalog_ScheduleFollowsARestoreDuringAnArchive(t *testing.T) {
	ctx := t.Context()
	w := sim.New(1)
	c := openCatalog(w)
	if _, _, err := c.Publish(ctx, ann, append(definition("1.0.0", "a"), "cron: {schedule: \"0 4 * * *\"}\n"...), false); err != nil {
		t.Fatal(err)
	}
	ref := workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}
	archive := w.StartTask("archive", func() {
		if err := c.Archive(ctx, ann, ref); err != nil {
			t.Error(err)
		}
	})
	if !archive.RunUntil("schedules.put") {
		t.Fatal("the archive does not write the schedule")
	}
	if err := c.Restore(ctx, ann, ref); err != nil {
		t.Fatal(err)
	}
	archive.Finish()
	s, err := w.Open().Schedules.Schedule(ctx, ann.Tenant, "p/w")
	if err != nil || s.Cron == nil || s.Workflow != ref {
		t.Errorf("the schedule of the restored version is %+v, %v", s, err)
	}
}

// A publication that crashes before the index is written got no response, and nobody finds its
// version. Publishing the same content again completes it. The same holds for blocks.
func TestCatalog_PublishingAgainCompletesTheIndex(t *testing.T) {
	ctx := t.Context()
	w := sim.New(1)
	c := openCatalog(w)
	for kind, publish := range map[workflow.VersionKind]func(version string) error{
		workflow.DefinitionVersions: func(version string) error {
			_, _, err := c.Publish(ctx, ann, definition(version, "a"), false)
			return err
		},
		workflow.BlockVersions: func(version string) error {
			_, err := c.RegisterBlock(ctx, ann, workflow.Block{Package: "p", Name: "w", Version: version})
			return err
		},
	} {
		w.Faults = nil
		if err := publish("1.0.0"); err != nil {
			t.Fatal(err)
		}
		w.Faults = func(call faults.Call) faults.Fault {
			if call.Name == "registry.put_version_index" {
				return faults.Throttled
			}
			return faults.None
		}
		if err := publish("1.1.0"); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("%s: %v", kind, err)
		}
		if found := newestVersion(t, w, kind, "p/w"); found.Version != "1.0.0" {
			t.Errorf("%s: found %s, which nobody was told of", kind, found.Version)
		}
		w.Faults = nil
		if err := publish("1.1.0"); err != nil {
			t.Errorf("%s: published again: %v", kind, err)
		}
		if found := newestVersion(t, w, kind, "p/w"); found.Version != "1.1.0" {
			t.Errorf("%s: found %s, want 1.1.0", kind, found.Version)
		}
	}
}

// What an earlier release has published has no index. The first who looks writes it, unless
// somebody else does at that moment; from then on one read finds a version.
func TestNewestVersion_WritesMissingIndex(t *testing.T) {
	ctx := t.Context()
	w := sim.New(1)
	v := w.Open()
	for i := range 100 {
		d := workflow.PublishedDefinition{Ref: workflow.Ref{Package: "p", Name: "w", Version: "1." + strconv.Itoa(i) + ".0"}, Archived: i == 99}
		_, err := v.Registry.PutDefinition(ctx, ann.Tenant, d)
		_, err2 := v.Registry.PutBlock(ctx, ann.Tenant, workflow.Block{Package: "p", Name: "w", Version: d.Ref.Version})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
	}
	for kind, want := range map[workflow.VersionKind]workflow.IndexedVersion{workflow.DefinitionVersions: {Version: "1.98.0"}, workflow.BlockVersions: {Version: "1.99.0"}} {
		reads := func() float64 {
			before := w.Consumed().ReadUnits["registry"]
			if found := newestVersion(t, w, kind, "p/w:1"); found != want {
				t.Errorf("%s: found %+v, want %+v", kind, found, want)
			}
			return w.Consumed().ReadUnits["registry"] - before
		}
		if first, second := reads(), reads(); first != 101 || second != 1 {
			t.Errorf("%s: %v reads and %v, want 101 and 1", kind, first, second)
		}
	}
	// A name without versions gets no index.
	if found := newestVersion(t, w, workflow.DefinitionVersions, "p/none"); found.Version != "" {
		t.Errorf("found %+v", found)
	}
	if index, err := v.Registry.VersionIndex(ctx, ann.Tenant, workflow.DefinitionVersions, "p/none"); err != nil || index.Revision != 0 {
		t.Errorf("index %+v, %v", index, err)
	}
	// Who looks while somebody publishes may write the older list, but not over the newer one.
	for seed := range uint64(200) {
		w := sim.New(seed)
		if _, err := w.Open().Registry.PutDefinition(ctx, ann.Tenant, workflow.PublishedDefinition{Ref: workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}, Source: definition("1.0.0", "a")}); err != nil {
			t.Fatal(err)
		}
		c := openCatalog(w)
		w.Interleave(
			w.StartTask("look", func() { newestVersion(t, w, workflow.DefinitionVersions, "p/w") }),
			w.StartTask("publish", func() {
				if _, _, err := c.Publish(ctx, ann, definition("1.1.0", "a"), false); err != nil {
					t.Error(err)
				}
			}))
		if found := newestVersion(t, w, workflow.DefinitionVersions, "p/w"); found.Version != "1.1.0" {
			t.Fatalf("seed %d: found %s after 1.1.0 was published", seed, found.Version)
		}
	}
}

// An index that has no room for all versions never answers with a wrong one: what only older
// versions match is found by reading all of them.
func TestNewestVersion_FindsVersionsThatTheIndexHasNoRoomFor(t *testing.T) {
	ctx := context.Background()
	w := sim.New(1)
	r := w.Open().Registry
	put := func(version string, archived bool) {
		d := workflow.PublishedDefinition{Ref: workflow.Ref{Package: "p", Name: "w", Version: version}, Archived: archived, Source: definition(version, "a"), Digest: version}
		if _, err := r.PutDefinition(ctx, ann.Tenant, d); err != nil {
			t.Fatal(err)
		}
	}
	put("1.2.0", false)
	put("1.3.0", true)
	for i := range workflow.MaxIndexedVersions {
		put(fmt.Sprintf("2.%d.0", i), false)
	}
	for range 2 {
		for written, want := range map[string]workflow.IndexedVersion{
			"p/w": {Version: "2.999.0"}, "p/w:2.0": {Version: "2.0.0"}, "p/w:1": {Version: "1.2.0"}, "p/w:1.3": {Version: "1.3.0", Archived: true}, "p/w:3": {},
		} {
			if found := newestVersion(t, w, workflow.DefinitionVersions, written); found != want {
				t.Errorf("%s: found %+v, want %+v", written, found, want)
			}
		}
	}
	index, err := r.VersionIndex(ctx, ann.Tenant, workflow.DefinitionVersions, "p/w")
	if err != nil || len(index.Versions) != workflow.MaxIndexedVersions || !index.Older || index.Revision != 1 {
		t.Errorf("%d versions, older %v, revision %d, %v", len(index.Versions), index.Older, index.Revision, err)
	}
	if !index.Has("2.0.0") || !index.Has("1.9.0") || index.Has("2.999.1") || index.Has("3.0.0") {
		t.Error("the index does not know which versions it has")
	}
	slices.Reverse(index.Versions)
	if again := workflow.NewVersionIndex(index.Versions); again.Older || again.Versions[0].Version != "2.999.0" {
		t.Errorf("%d versions, older %v, first %s", len(again.Versions), again.Older, again.Versions[0].Version)
	}
}

// A draft is listed, and found by nothing else: references, schedules and triggers are those of published
// versions. Publishing the same content publishes it, and later drafts of it stay published.
func TestCatalog_DraftIsFoundByItsExactVersionAlone(t *testing.T) {
	w := sim.New(1)
	c, ctx := openCatalog(w), t.Context()
	source := func(version string) []byte {
		return append(triggered("v", version, "t"), "cron: {schedule: '0 3 * * *'}\n"...)
	}
	want := func(newest, triggers, versions string) {
		t.Helper()
		p, err := c.Definition(ctx, ann, workflow.Ref{Package: "p", Name: "v"})
		if p.Ref.Version != newest || (err == nil) != (newest != "") {
			t.Errorf("the newest is %q, %v; want %q", p.Ref.Version, err, newest)
		}
		if got := triggersOf(t, c); got != triggers {
			t.Errorf("triggers: %s, want %s", got, triggers)
		}
		schedules, err := c.Schedules(ctx, ann, workflow.Page{})
		if scheduled := ""; err != nil || len(schedules.Items) > 1 {
			t.Errorf("schedules: %+v, %v", schedules, err)
		} else {
			if len(schedules.Items) == 1 {
				scheduled = schedules.Items[0].Workflow.Version
			}
			if scheduled != newest {
				t.Errorf("the schedule is that of %q, want %q", scheduled, newest)
			}
		}
		list, err := c.Versions(ctx, ann, "p/v", workflow.Page{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range list.Items {
			s := d.Ref.Version
			if d.Draft {
				s += " draft"
			}
			if d.Archived {
				s += " archived"
			}
			all = append(all, s)
		}
		if got := strings.Join(all, ", "); got != versions {
			t.Errorf("versions: %s, want %s", got, versions)
		}
	}
	store := func(do func(context.Context, workflow.Caller, []byte, bool) (workflow.PublishedDefinition, bool, error), version string, draft, created bool) {
		t.Helper()
		w.Advance(time.Second)
		p, made, err := do(ctx, ann, source(version), false)
		if err != nil || p.Draft != draft || made != created {
			t.Fatalf("%s: %+v, created %v, %v", version, p, made, err)
		}
	}
	store(c.PublishDraft, "1.0.0", true, true)
	want("", "", "1.0.0 draft")
	store(c.Publish, "1.0.0", false, false)
	want("1.0.0", "t=v:1.0.0", "1.0.0")
	store(c.PublishDraft, "1.0.0", false, false)
	store(c.PublishDraft, "2.0.0", true, true)
	store(c.PublishDraft, "2.0.0", true, false)
	want("1.0.0", "t=v:1.0.0", "1.0.0, 2.0.0 draft")
	for _, ref := range []workflow.Ref{{Package: "p", Name: "v", Version: "2"}, {Package: "p", Name: "v", Version: "2.0.0"}} {
		if found, err := catalog.NewestVersion(ctx, w.Open().Registry, ann.Tenant, workflow.DefinitionVersions, ref); found.Version != "" || err != nil {
			t.Errorf("%s finds %+v, %v", ref, found, err)
		}
	}
	if p, err := c.Definition(ctx, ann, workflow.Ref{Package: "p", Name: "v", Version: "2.0.0"}); err != nil || !p.Draft || len(p.Source) == 0 {
		t.Errorf("the draft is read as %+v, %v", p, err)
	}
	if _, _, err := c.PublishDraft(ctx, ann, triggered("v", "2.0.0"), false); !workflow.Is(err, workflow.CodeConflict) {
		t.Errorf("a draft with other content: %v", err)
	}
	if p, _, err := c.Publish(ctx, ann, source("2.0.0"), true); err != nil || p.Draft {
		t.Errorf("a dry run of its publication: %+v, %v", p, err)
	}
	draft := workflow.Ref{Package: "p", Name: "v", Version: "2.0.0"}
	for _, change := range []func(context.Context, workflow.Caller, workflow.Ref) error{c.Archive, c.Restore} {
		if err := change(ctx, ann, draft); err != nil {
			t.Fatal(err)
		}
	}
	want("1.0.0", "t=v:1.0.0", "1.0.0, 2.0.0 draft")
	store(c.Publish, "2.0.0", false, false)
	want("2.0.0", "t=v:2.0.0", "1.0.0, 2.0.0")
}

// A publication that dies after it has published the draft, and before the index has it, is completed by the same
// request.
func TestCatalog_PublishingADraftAgainCompletesTheIndex(t *testing.T) {
	w := sim.New(1)
	c, ctx := openCatalog(w), t.Context()
	p, _, err := c.PublishDraft(ctx, ann, triggered("v", "1.0.0", "t"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Open().Registry.PublishDraft(ctx, ann.Tenant, p); err != nil {
		t.Fatal(err)
	}
	w.Advance(time.Second)
	if got := triggersOf(t, c); got != "" {
		t.Errorf("triggers: %s", got)
	}
	if p, created, err := c.Publish(ctx, ann, triggered("v", "1.0.0", "t"), false); err != nil || created || p.Draft {
		t.Fatalf("again: %+v, %v, %v", p, created, err)
	}
	if got := triggersOf(t, c); got != "t=v:1.0.0" {
		t.Errorf("triggers afterwards: %s", got)
	}
}

// A worker registers its blocks at each of its starts. Whoever keeps indexes is told while somebody
// may keep one from before the block, and not after that.
func TestCatalog_TellsOfAKnownBlockForAWhile(t *testing.T) {
	w := sim.New(1)
	c := openCatalog(w)
	for i, step := range []struct {
		after  time.Duration
		raised bool
	}{{0, true}, {time.Minute, true}, {10 * time.Minute, false}, {time.Hour, false}} {
		w.Advance(step.after)
		before, err := w.Open().Registry.VersionsRevision(t.Context(), ann.Tenant)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RegisterBlock(t.Context(), ann, workflow.Block{Package: "p", Name: "b", Version: "1.0.0"}); err != nil {
			t.Fatal(err)
		}
		if after, err := w.Open().Registry.VersionsRevision(t.Context(), ann.Tenant); err != nil || (after > before) != step.raised {
			t.Errorf("registration %d: the revision goes from %d to %d, %v", i+1, before, after, err)
		}
	}
}
