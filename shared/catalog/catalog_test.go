package catalog_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var ann = workflow.Caller{Tenant: "acme", Actor: "ann"}

func open() *catalog.Catalog {
	w := sim.New(1)
	return catalog.New(func() catalog.Registry { return w.Open().Registry }, w.Now)
}

func definition(version, description string) []byte {
	return []byte("package: p\nname: w\nversion: " + version + "\ndescription: " + description +
		"\nsteps:\n  - {label: one, functionBlock: p/b:1, runOn: global}\n")
}

// N11: a published version is immutable: the same content again is accepted,
// other content is a conflict. A dry run stores nothing.
func TestN11Publish(t *testing.T) {
	c, ctx := open(), context.Background()
	publish := func(source []byte, dry, created bool, code workflow.Code) {
		t.Helper()
		p, is, err := c.Publish(ctx, ann, source, dry)
		if is != created || workflow.CodeOf(err) != code {
			t.Errorf("created %v, %v; want %v, %q", is, err, created, code)
		}
		if err == nil && (p.Digest == "" || p.PublishedBy != "ann" || p.PublishedAt.IsZero()) {
			t.Errorf("published %+v", p)
		}
	}
	publish(definition("1.0.0", "a"), true, true, "")
	publish(definition("1.0.0", "a"), false, true, "")
	if p, created, err := c.Publish(ctx, workflow.Caller{Tenant: "acme", Actor: "bob"}, definition("1.0.0", "a"), false); err != nil || created || p.PublishedBy != "ann" {
		t.Errorf("published again: %+v, %v, %v", p, created, err)
	}
	publish(definition("1.0.0", "a"), true, false, "")
	publish(definition("1.0.0", "b"), false, false, workflow.CodeConflict)
	publish(definition("1.0.0", "b"), true, false, workflow.CodeConflict)
	publish([]byte("steps: ["), false, false, workflow.CodeInvalid)
	publish(definition("1.10.0", "c"), false, true, "")
	publish(definition("1.9.0", "d"), false, true, "")

	for ref, want := range map[string]string{"p/w": "1.10.0", "p/w:1": "1.10.0", "p/w:1.9": "1.9.0", "p/w:1.0.0": "1.0.0"} {
		r, err := workflow.ParseRef(ref)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Definition(ctx, ann, r); err != nil || p.Ref.Version != want || len(p.Source) == 0 {
			t.Errorf("%s is %s, %v; want %s", ref, p.Ref, err, want)
		}
	}
	if _, err := c.Definition(ctx, ann, workflow.Ref{Package: "p", Name: "w", Version: "2"}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("a version that does not exist: %v", err)
	}
	if l, err := c.Versions(ctx, ann, "p/w", workflow.Page{}); err != nil || len(l.Items) != 3 || l.Items[2].Ref.Version != "1.10.0" {
		t.Errorf("versions %+v, %v", l.Items, err)
	}
	if _, err := c.Versions(ctx, ann, "p/none", workflow.Page{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("versions of nothing: %v", err)
	}
	if l, err := c.Definitions(ctx, workflow.Caller{Tenant: "other"}, workflow.Page{}); err != nil || len(l.Items) != 0 {
		t.Errorf("another tenant sees %+v, %v", l.Items, err)
	}
}

// A block is immutable by meaning: white space and the order of keys do not
// count.
func TestRegisterBlock(t *testing.T) {
	c, ctx := open(), context.Background()
	b := workflow.Block{Package: "p", Name: "b", Version: "1.0.0", ParameterSchema: []byte(`{"type":"object","required":["a"]}`)}
	register := func(b workflow.Block, created bool, code workflow.Code) {
		t.Helper()
		if is, err := c.RegisterBlock(ctx, ann, b); is != created || workflow.CodeOf(err) != code {
			t.Errorf("created %v, %v; want %v, %q", is, err, created, code)
		}
	}
	register(b, true, "")
	register(b, false, "")
	b.Pool, b.ParameterSchema = "default", []byte(`{ "required": ["a"], "type": "object" }`)
	register(b, false, "")
	b.Pure = true
	register(b, false, workflow.CodeConflict)
	b.Version = "one"
	register(b, false, workflow.CodeInvalid)
	if l, err := c.Blocks(ctx, ann, workflow.Page{}); err != nil || len(l.Items) != 1 || l.Items[0].Pool != "default" {
		t.Errorf("blocks %+v, %v", l.Items, err)
	}
}

// An import is all or nothing, and names each bad line.
func TestImport(t *testing.T) {
	c, ctx := open(), context.Background()
	n, err := c.ImportEntities(ctx, ann, strings.NewReader(`
{"type":"device","id":"a","attributes":{"n":1},"groups":["core"]}

{"type":"device","id":"b","version":7,"token":9}
`))
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	bad := `{"type":"device","id":"c"}
{"type":"device","id":"a/b"}
{"type":"device","id":"c"}
{"type":"device","id":"d","attributes":[]}
{"type":"device","id":"e","colour":"red"}
not json
{"type":"device","id":"f"} {"type":"device","id":"g"}`
	_, err = c.ImportEntities(ctx, ann, strings.NewReader(bad))
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeInvalid {
		t.Fatal(err)
	}
	var lines []int
	for _, i := range e.Issues {
		lines = append(lines, i.Line)
	}
	if len(lines) != 6 || lines[0] != 2 || lines[5] != 7 {
		t.Errorf("issues %v", e.Issues)
	}
	if _, err := c.ImportEntities(ctx, ann, strings.NewReader(strings.Repeat("x", 70<<10))); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a line too long: %v", err)
	}
	l, err := c.Entities(ctx, ann, workflow.Selector{Type: "device"}, workflow.Page{})
	if err != nil || len(l.Items) != 2 || l.Items[1].Version != 1 || l.Items[1].Token != 0 || string(l.Items[1].Attributes) != "{}" {
		t.Errorf("stored %+v, %v", l.Items, err)
	}
}

// Entities are upserted, and found by group or query.
func TestEntities(t *testing.T) {
	c, ctx := open(), context.Background()
	for _, id := range []string{"a", "b", "c", "a"} {
		e := workflow.Entity{Type: "device", ID: id, Attributes: []byte(`{"name":"` + id + `"}`), Groups: []string{"g" + id}}
		if _, err := c.PutEntity(ctx, ann, e); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := c.Entity(ctx, ann, workflow.EntityKey{Type: "device", ID: "a"}); err != nil || e.Version != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := c.Entity(ctx, ann, workflow.EntityKey{Type: "device", ID: "z"}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := c.PutEntity(ctx, ann, workflow.Entity{Type: "device", ID: "a b"}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a bad id: %v", err)
	}
	for name, test := range map[string]struct {
		sel  workflow.Selector
		want string
		code workflow.Code
	}{
		"all":          {sel: workflow.Selector{Type: "device"}, want: "abc"},
		"by group":     {sel: workflow.Selector{Type: "device", Groups: []string{"gb", "gc"}}, want: "bc"},
		"by query":     {sel: workflow.Selector{Type: "device", Query: `entity.name == "c"`}, want: "c"},
		"by either":    {sel: workflow.Selector{Type: "device", Groups: []string{"ga"}, Query: `entity.name == "c"`}, want: "ac"},
		"none":         {sel: workflow.Selector{Type: "device", Groups: []string{"none"}}},
		"another type": {sel: workflow.Selector{Type: "site"}},
		"no type":      {sel: workflow.Selector{}, code: workflow.CodeInvalid},
		"a bad query":  {sel: workflow.Selector{Type: "device", Query: "entity.name =="}, code: workflow.CodeInvalid},
	} {
		for _, limit := range []int{1, 2, 10} {
			got := ""
			for page := (workflow.Page{Limit: limit}); ; {
				l, err := c.Entities(ctx, ann, test.sel, page)
				if workflow.CodeOf(err) != test.code {
					t.Errorf("%s: %v", name, err)
				}
				for _, e := range l.Items {
					got += e.ID
				}
				if page.Token = l.Next; page.Token == "" {
					break
				}
			}
			if got != test.want {
				t.Errorf("%s by %d: %q, want %q", name, limit, got, test.want)
			}
		}
	}
}
