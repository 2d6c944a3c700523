package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// triggered is a definition with a trigger of each name.
func triggered(name, version string, triggers ...string) []byte {
	var list []string
	for _, t := range triggers {
		list = append(list, "{name: "+t+", verify: {scheme: hmac, secret: hooks/a}}")
	}
	return fmt.Appendf(nil, "package: p\nname: %s\nversion: %s\ntriggers: {http: [%s]}\nsteps: [{label: a, set: {b: 1}}]\n", name, version, strings.Join(list, ", "))
}

// triggersOf are the triggers of a tenant: the name, the version and whether it is paused.
func triggersOf(t *testing.T, c *catalog.Catalog) string {
	t.Helper()
	list, err := c.Triggers(t.Context(), ann, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, one := range list.Items {
		s := one.Name + "=" + one.Workflow.Name + ":" + one.Workflow.Version
		if one.Paused != nil {
			s += " paused"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

// The triggers are those of the newest version. Archiving it never silently lets those of an older
// version accept calls, and a name stays with the workflow that has it.
func TestTriggers_FollowTheNewestVersion(t *testing.T) {
	w := sim.New(1)
	c := openCatalog(w)
	ctx := t.Context()
	publish := func(source []byte) error {
		t.Helper()
		_, _, err := c.Publish(ctx, ann, source, false)
		return err
	}
	archive := func(name, version string) error {
		return c.Archive(ctx, ann, workflow.Ref{Package: "p", Name: name, Version: version})
	}
	restore := func(name, version string) error {
		return c.Restore(ctx, ann, workflow.Ref{Package: "p", Name: name, Version: version})
	}
	resume := func(name string) error { _, err := c.ResumeTrigger(ctx, ann, name); return err }
	pause := func(name string) error { _, err := c.PauseTrigger(ctx, ann, name, "why"); return err }
	check := func(what string, err error, want string) {
		t.Helper()
		if got := triggersOf(t, c); err != nil || got != want {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
	check("the first version", publish(triggered("v", "1.0.0", "a", "b")), "a=v:1.0.0, b=v:1.0.0")
	check("an older version", publish(triggered("v", "0.9.0", "z")), "a=v:1.0.0, b=v:1.0.0")
	check("a newer version without one", publish(triggered("v", "2.0.0", "b", "c")), "b=v:2.0.0, c=v:2.0.0")
	check("its name is free", publish(triggered("w", "1.0.0", "a")), "a=w:1.0.0, b=v:2.0.0, c=v:2.0.0")
	if err := publish(triggered("w", "1.1.0", "a", "b")); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "unique in a tenant") {
		t.Errorf("a name that another workflow has: %v", err)
	}
	check("refused", nil, "a=w:1.0.0, b=v:2.0.0, c=v:2.0.0")
	check("the newest is archived", archive("v", "2.0.0"), "a=w:1.0.0, b=v:1.0.0 paused")
	check("resumed by hand", resume("b"), "a=w:1.0.0, b=v:1.0.0")
	check("restored", restore("v", "2.0.0"), "a=w:1.0.0, b=v:2.0.0, c=v:2.0.0")
	check("archived again", archive("v", "2.0.0"), "a=w:1.0.0, b=v:1.0.0 paused")
	check("published again", publish(triggered("v", "2.0.0", "b", "c")), "a=w:1.0.0, b=v:1.0.0 paused")
	check("a version above it", publish(triggered("v", "3.0.0", "b")), "a=w:1.0.0, b=v:3.0.0")
	check("paused by hand", pause("b"), "a=w:1.0.0, b=v:3.0.0 paused")
	check("that stays", publish(triggered("v", "3.1.0", "b")), "a=w:1.0.0, b=v:3.1.0 paused")
	check("no version is left", archive("w", "1.0.0"), "b=v:3.1.0 paused")
	if _, err := c.Trigger(ctx, ann, "a"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("one that is off: %v", err)
	}
	if _, err := c.PauseTrigger(ctx, ann, "a", ""); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("one that is off is paused: %v", err)
	}
}

// If two workflows are published with the same trigger name at the same time, one gets it, and the
// other is refused.
func TestTriggers_NameHasOneWorkflow(t *testing.T) {
	for seed := range uint64(100) {
		w := sim.New(seed)
		c := openCatalog(w)
		var refused [2]error
		var tasks []*faults.Task
		for i, name := range []string{"v", "w"} {
			tasks = append(tasks, w.StartTask("publish", func() { _, _, refused[i] = c.Publish(t.Context(), ann, triggered(name, "1.0.0", "a"), false) }))
		}
		w.Interleave(tasks...)
		if got := triggersOf(t, c); (refused[0] == nil) != (got == "a=v:1.0.0") || (refused[1] == nil) != (got == "a=w:1.0.0") {
			t.Errorf("seed %d: %s, %v", seed, got, refused)
		}
	}
}

// Whatever the order of concurrent changes, the triggers are those of the newest version
// afterwards.
func TestTriggers_FollowConcurrentChanges(t *testing.T) {
	for seed := range uint64(200) {
		w := sim.New(seed)
		c := openCatalog(w)
		if _, _, err := c.Publish(t.Context(), ann, triggered("v", "1.0.0", "a"), false); err != nil {
			t.Fatal(err)
		}
		var tasks []*faults.Task
		for _, source := range [][]byte{triggered("v", "2.0.0", "a", "b"), triggered("v", "3.0.0", "b"), triggered("v", "1.5.0", "c")} {
			tasks = append(tasks, w.StartTask("publish", func() {
				if _, _, err := c.Publish(t.Context(), ann, source, false); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}))
		}
		w.Interleave(tasks...)
		if got := triggersOf(t, c); got != "b=v:3.0.0" {
			t.Errorf("seed %d: %s", seed, got)
		}
	}
}
