package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var deviceA = workflow.EntityKey{Type: "device", ID: "a"}

// inventoryOf makes a catalog in a world, with one entity.
func inventoryOf(t *testing.T, line string) (*catalog.Catalog, *sim.World) {
	t.Helper()
	w := sim.New(1)
	c := catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
	if _, err := importLines(context.Background(), c, strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	return c, w
}

func expectEntity(t *testing.T, c *catalog.Catalog, version int64, attributes string, groups ...string) {
	t.Helper()
	e, err := c.Entity(context.Background(), ann, deviceA)
	if err != nil || e.Version != version || string(e.Attributes) != attributes || strings.Join(e.Groups, " ") != strings.Join(groups, " ") {
		t.Errorf("%+v %s, %v; want version %d, %s, %v", e, e.Attributes, err, version, attributes, groups)
	}
}

// TestCatalog_ImportMerges: an import sets what its lines say, and keeps what blocks have set. An
// import that replaces keeps nothing. What is already stored with the same content is not written.
func TestCatalog_ImportMerges(t *testing.T) {
	c, w := inventoryOf(t, `{"type":"device","id":"a","attributes":{"site":"zrh","version":"2.0","n":{"x":1,"y":[1.0]}},"groups":["core","edge"]}`)
	ctx := context.Background()
	for _, step := range []struct {
		line      string
		replace   bool
		unchanged int
		version   int64
		stored    string
		groups    string
	}{
		{line: `{"type":"device","id":"a","attributes":{"site":"gva"}}`, version: 2, stored: `{"n":{"x":1,"y":[1.0]},"site":"gva","version":"2.0"}`, groups: "core edge"},
		{line: `{"type":"device","id":"a","attributes":{"site":"gva"}}`, unchanged: 1, version: 2, stored: `{"n":{"x":1,"y":[1.0]},"site":"gva","version":"2.0"}`, groups: "core edge"},
		{line: `{"type":"device","id":"a"}`, unchanged: 1, version: 2, stored: `{"n":{"x":1,"y":[1.0]},"site":"gva","version":"2.0"}`, groups: "core edge"},
		{line: `{"type":"device","id":"a","attributes":{"n": {"y": [1.0], "x": 1}},"groups":["edge","core"]}`, unchanged: 1, version: 2, stored: `{"n":{"x":1,"y":[1.0]},"site":"gva","version":"2.0"}`, groups: "core edge"},
		{line: `{"type":"device","id":"a","attributes":{"n":{"x":1}}}`, version: 3, stored: `{"n":{"x":1},"site":"gva","version":"2.0"}`, groups: "core edge"},
		{line: `{"type":"device","id":"a","attributes":{"n":null},"groups":["lab"]}`, version: 4, stored: `{"n":null,"site":"gva","version":"2.0"}`, groups: "lab"},
		{line: `{"type":"device","id":"a","groups":[]}`, version: 5, stored: `{"n":null,"site":"gva","version":"2.0"}`},
		{line: `{"type":"device","id":"a","attributes":{"site":"zrh"}}`, replace: true, version: 6, stored: `{"site":"zrh"}`},
	} {
		got, err := c.ImportEntities(ctx, ann, strings.NewReader(step.line), step.replace)
		if want := (views.ImportResult{Imported: 1, Unchanged: step.unchanged}); err != nil || got != want {
			t.Errorf("%s: %+v, %v", step.line, got, err)
		}
		expectEntity(t, c, step.version, step.stored, strings.Fields(step.groups)...)
	}
	before := w.CallCount()
	if _, err := importLines(ctx, c, strings.NewReader(`{"type":"device","id":"a","attributes":{"site":"zrh"}}`)); err != nil || w.CallCount() != before+1 {
		t.Errorf("an import that changes nothing made %d calls, want one read: %v", w.CallCount()-before, err)
	}
	long := strings.Repeat("x", 20<<10)
	if _, err := importLines(ctx, c, strings.NewReader(`{"type":"device","id":"a","attributes":{"l":"`+long+`"}}`)); err != nil {
		t.Fatal(err)
	}
	_, err := importLines(ctx, c, strings.NewReader("\n"+`{"type":"device","id":"a","attributes":{"m":"`+long+`"}}`))
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeInvalid || e.Issues[0].Line != 2 || e.Issues[0].Code != "too_large" {
		t.Errorf("attributes that are too large together: %+v", err)
	}
}

// TestCatalog_ConcurrentChangesAreAllMade: patches and imports of one entity, interleaved call by
// call, with writes whose replies are lost: each sets its own attribute, and all are there.
func TestCatalog_ConcurrentChangesAreAllMade(t *testing.T) {
	for seed := range uint64(200) {
		c, w := inventoryOf(t, `{"type":"device","id":"a","attributes":{"kept":1}}`)
		random := rand.New(rand.NewPCG(seed, 0))
		w.Faults = faults.Randomly(random, 6, faults.Repeated)
		ctx := context.Background()
		var tasks []*faults.Task
		for i := range 3 {
			name := fmt.Sprintf("p%d", i)
			tasks = append(tasks, w.StartTask(name, func() {
				if _, err := c.PatchEntity(ctx, ann, deviceA, views.EntityPatch{Set: map[string]json.RawMessage{name: json.RawMessage("1")}, AddGroups: []string{name}}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}))
		}
		tasks = append(tasks, w.StartTask("import", func() {
			if _, err := importLines(ctx, c, strings.NewReader(`{"type":"device","id":"a","attributes":{"i":1}}`)); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}))
		faults.Interleave(random.IntN, tasks...)
		w.Faults = nil
		e, err := c.Entity(ctx, ann, deviceA)
		if err != nil || string(e.Attributes) != `{"i":1,"kept":1,"p0":1,"p1":1,"p2":1}` || len(e.Groups) != 3 || e.Version != 5 {
			t.Fatalf("seed %d: %+v %s, %v", seed, e, e.Attributes, err)
		}
	}
}

// TestCatalog_PatchEntity: a patch names what it changes, and the version if it must be that.
func TestCatalog_PatchEntity(t *testing.T) {
	c, _ := inventoryOf(t, `{"type":"device","id":"a","attributes":{"site":"zrh","rack":7},"groups":["core"]}`)
	ctx, version := context.Background(), func(n int64) *int64 { return &n }
	for _, step := range []struct {
		patch   views.EntityPatch
		code    workflow.Code
		version int64
		stored  string
		groups  string
	}{
		{views.EntityPatch{Set: map[string]json.RawMessage{"site": json.RawMessage(`"gva"`), "v": json.RawMessage(`null`)}, Remove: []string{"rack"}, AddGroups: []string{"edge", "core"}}, "", 2, `{"site":"gva","v":null}`, "core edge"},
		{views.EntityPatch{Set: map[string]json.RawMessage{"site": json.RawMessage(`"bsl"`)}, Version: version(1)}, workflow.CodeConflict, 2, `{"site":"gva","v":null}`, "core edge"},
		{views.EntityPatch{Remove: []string{"v", "none"}, RemoveGroups: []string{"core", "none"}, Version: version(2)}, "", 3, `{"site":"gva"}`, "edge"},
		{views.EntityPatch{Remove: []string{"v", "none"}, RemoveGroups: []string{"core", "none"}, Version: version(2)}, "", 3, `{"site":"gva"}`, "edge"}, // sent again
		{views.EntityPatch{}, "", 3, `{"site":"gva"}`, "edge"},
		{views.EntityPatch{AddGroups: []string{"a/b"}}, workflow.CodeInvalid, 3, `{"site":"gva"}`, "edge"},
		{views.EntityPatch{Set: map[string]json.RawMessage{"l": json.RawMessage(`"` + strings.Repeat("x", 33<<10) + `"`)}}, workflow.CodeInvalid, 3, `{"site":"gva"}`, "edge"},
		{views.EntityPatch{Set: map[string]json.RawMessage{"l": json.RawMessage(`1e999999`)}}, workflow.CodeInvalid, 3, `{"site":"gva"}`, "edge"},
	} {
		e, err := c.PatchEntity(ctx, ann, deviceA, step.patch)
		if workflow.CodeOf(err) != step.code && (err != nil || step.code != "") {
			t.Errorf("%+v: %v, want %q", step.patch, err, step.code)
		}
		if err == nil && (e.Version != step.version || string(e.Attributes) != step.stored) {
			t.Errorf("%+v: answered %+v", step.patch, e)
		}
		expectEntity(t, c, step.version, step.stored, strings.Fields(step.groups)...)
	}
	if _, err := c.PatchEntity(ctx, ann, workflow.EntityKey{Type: "device", ID: "none"}, views.EntityPatch{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("an entity that does not exist: %v", err)
	}
	if _, err := c.PatchEntity(ctx, workflow.Caller{Tenant: "other"}, deviceA, views.EntityPatch{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("an entity of another tenant: %v", err)
	}
}

// TestCatalog_ImportTakesBackWhatIsListed: a listing, written as lines and imported elsewhere,
// gives the same inventory, and importing it again changes nothing.
func TestCatalog_ImportTakesBackWhatIsListed(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 0))
	values := []string{`null`, `1.50`, `-0`, `12345678901234567890`, `"\u2028<&>é"`, `""`, `[]`, `{}`, `{"b":[{"a":null}],"a":1}`, `true`}
	for range 50 {
		var lines strings.Builder
		for i := range 1 + random.IntN(20) {
			attributes := map[string]json.RawMessage{}
			for range random.IntN(5) {
				attributes[fmt.Sprintf("k%d\u2028", random.IntN(9))] = json.RawMessage(values[random.IntN(len(values))])
			}
			raw, err := workflow.EncodeJSON(attributes)
			if err != nil {
				t.Fatal(err)
			}
			groups := []string{`null`, `[]`, `["b","a"]`}[random.IntN(3)]
			fmt.Fprintf(&lines, `{"type":"device","id":"d%d","attributes":%s,"groups":%s}`+"\n", i, raw, groups)
		}
		exported := func(lines string) (*catalog.Catalog, string) {
			c := newCatalog()
			if _, err := importLines(context.Background(), c, strings.NewReader(lines)); err != nil {
				t.Fatal(err)
			}
			l, err := c.Entities(context.Background(), ann, workflow.Selector{Type: "device"}, workflow.Page{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, e := range l.Items {
				e.Version = 0
				raw, err := workflow.EncodeJSON(e)
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString(string(raw) + "\n")
			}
			return c, out.String()
		}
		_, first := exported(lines.String())
		c, second := exported(first)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
		again, err := c.ImportEntities(context.Background(), ann, strings.NewReader(second), false)
		if err != nil || again.Unchanged != again.Imported {
			t.Fatalf("%+v, %v", again, err)
		}
	}
}
