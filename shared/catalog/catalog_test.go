package catalog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var ann = workflow.Caller{Tenant: "acme", Actor: "ann"}

func newCatalog() *catalog.Catalog {
	w := sim.New(1)
	return catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
}

// importLines merges lines into the inventory.
func importLines(ctx context.Context, c *catalog.Catalog, lines io.Reader) (int, error) {
	result, err := c.ImportEntities(ctx, ann, lines, false)
	return result.Imported, err
}

func definition(version, description string) []byte {
	return []byte("package: p\nname: w\nversion: " + version + "\ndescription: " + description +
		"\nsteps:\n  - {label: one, functionBlock: p/b:1, runOn: global}\n")
}

// TestCatalog_PublishedVersionsAreImmutable is N11: publishing the same content again is accepted,
// other content is a conflict. A dry run stores nothing.
func TestCatalog_PublishedVersionsAreImmutable(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
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
		t.Errorf("a missing version: %v", err)
	}
	if l, err := c.Versions(ctx, ann, "p/w", workflow.Page{}); err != nil || len(l.Items) != 3 || l.Items[2].Ref.Version != "1.10.0" {
		t.Errorf("versions %+v, %v", l.Items, err)
	}
	if _, err := c.Versions(ctx, ann, "p/none", workflow.Page{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("versions of a missing definition: %v", err)
	}
	if l, err := c.Definitions(ctx, workflow.Caller{Tenant: "other"}, nil, workflow.Page{}); err != nil || len(l.Items) != 0 {
		t.Errorf("another tenant sees %+v, %v", l.Items, err)
	}
}

// Definitions are found by all of the labels that are asked for, page by page, whatever is between them.
func TestCatalog_ListsDefinitionsByLabel(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	var all, network []string
	for i := range 25 {
		labels := "{team: storage, tier: \"1\"}"
		switch {
		case i%7 == 0:
			labels = "{team: network, tier: \"1\"}"
		case i%7 == 1:
			labels = "{team: network, tier: \"2\"}"
		case i%7 == 2:
			labels = "{}"
		}
		name := fmt.Sprintf("w%02d", i)
		source := "package: p\nname: " + name + "\nversion: 1.0.0\nlabels: " + labels + "\nsteps: [{label: one, functionBlock: p/b:1, runOn: global}]\n"
		if _, _, err := c.Publish(ctx, ann, []byte(source), false); err != nil {
			t.Fatal(err)
		}
		if all = append(all, name); i%7 == 0 {
			network = append(network, name)
		}
	}
	for _, limit := range []int{1, 2, 3, 100} {
		for _, test := range []struct {
			labels map[string]string
			want   []string
		}{
			{nil, all},
			{map[string]string{"team": "network", "tier": "1"}, network},
			{map[string]string{"team": "network", "tier": "3"}, nil},
			{map[string]string{"owner": ""}, nil},
		} {
			var got []string
			for page := (workflow.Page{Limit: limit}); ; {
				list, err := c.Definitions(ctx, ann, test.labels, page)
				if err != nil || len(list.Items) > limit {
					t.Fatalf("%d items, %v", len(list.Items), err)
				}
				for _, d := range list.Items {
					if got = append(got, d.Ref.Name); len(d.Source) > 0 || d.Digest == "" || d.PublishedBy != "ann" {
						t.Errorf("listed as %+v", d)
					}
				}
				if page.Token = list.NextToken; page.Token == "" {
					break
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v, pages of %d: %v, want %v", test.labels, limit, got, test.want)
			}
		}
	}
	if list, err := c.Definitions(ctx, workflow.Caller{Tenant: "other"}, map[string]string{"team": "network"}, workflow.Page{}); err != nil || len(list.Items) != 0 {
		t.Errorf("another tenant sees %+v, %v", list.Items, err)
	}
}

// definitionWithReferences is a definition with a step for each reference, given as "p/name" to
// embed it or "p/name MODE".
func definitionWithReferences(name, version string, references ...string) []byte {
	var b strings.Builder
	b.WriteString("package: p\nname: " + name + "\nversion: " + version + "\nsteps:\n  - label: outer\n    workflow:\n      steps:\n        - {label: first, functionBlock: p/b, runOn: global}\n")
	for i, r := range references {
		ref, mode, _ := strings.Cut(r, " ")
		fmt.Fprintf(&b, "        - label: s%d\n          workflowReference: {workflow: %q, mode: %s}\n", i, ref, cmp.Or(mode, "embed"))
	}
	return []byte(b.String())
}

// A definition is stored with the schema that a program needs to read it.
func TestCatalog_PublishNotesTheSchema(t *testing.T) {
	w := sim.New(1)
	for i, c := range []struct {
		rest string
		want int
	}{
		{"steps: [{label: a, functionBlock: p/b:1, runOn: global}]", 1},
		{"steps: [{label: a, functionBlock: p/b:1, runOn: global, outputKey: x}]", 2},
		{"output: {a: 1}\nsteps: [{label: a, functionBlock: p/b:1, runOn: global}]", 2},
		{"steps: [{label: a, workflow: {steps: [{label: b, wait: {for: 1s}}]}}]", 2},
		{"steps: [{label: a, switch: [{when: \"true\", steps: [{label: b, functionBlock: p/b:1, runOn: global}]}]}]", 2},
	} {
		ref := workflow.Ref{Package: "p", Name: "w", Version: fmt.Sprintf("1.%d.0", i)}
		source := fmt.Sprintf("package: p\nname: w\nversion: %s\n%s\n", ref.Version, c.rest)
		if _, _, err := openCatalog(w).Publish(t.Context(), ann, []byte(source), false); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		d, err := w.Open().Registry.Definition(t.Context(), ann.Tenant, ref)
		if err != nil || d.Schema != c.want {
			t.Errorf("%s: schema %d, %v", c.rest, d.Schema, err)
		}
	}
}

// TestCatalog_PublishRefusesCycles: a workflow cannot embed itself, directly or through others. It may
// refer to a workflow that is not published yet. Child executions may start each other.
func TestCatalog_PublishRefusesCycles(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for _, step := range []struct {
		source []byte
		issue  string // line:column path code, "" if it is accepted
	}{
		{definitionWithReferences("self", "1.0.0", "p/self"), "10:41 steps[0].workflow.steps[1].workflowReference.workflow cycle"},
		{definitionWithReferences("self", "1.0.0", "p/self dispatch", "p/self fireAndForget"), ""},
		{definitionWithReferences("self", "2.0.0", "p/self:1"), ""}, // another version
		{definitionWithReferences("a", "1.0.0", "p/b:1"), ""},       // not published yet
		{definitionWithReferences("b", "1.0.0", "p/none", "p/c"), ""},
		{definitionWithReferences("c", "1.0.0", "p/none", "p/a"), "12:41 steps[0].workflow.steps[2].workflowReference.workflow cycle"},
		{definitionWithReferences("c", "1.0.0", "p/a dispatch"), ""},
		{definitionWithReferences("b", "2.0.0", "p/a"), ""}, // a embeds version 1 of b
		{definitionWithReferences("b", "1.1.0", "p/none", "p/a"), "12:41 steps[0].workflow.steps[2].workflowReference.workflow cycle"},
		{definitionWithReferences("d", "1.0.0", "p/a", "p/b", "p/b:1", "p/c"), ""},
	} {
		for _, dry := range []bool{true, false} {
			_, _, err := c.Publish(ctx, ann, step.source, dry)
			got := ""
			var e *workflow.Error
			if errors.As(err, &e) && len(e.Issues) > 0 {
				i := e.Issues[0]
				got = fmt.Sprintf("%d:%d %s %s", i.Line, i.Column, i.Path, i.Code)
			} else if err != nil {
				t.Errorf("%s: %v", step.source, err)
			}
			if got != step.issue {
				t.Errorf("%s: got %q, want %q", step.source, got, step.issue)
			}
		}
	}
}

// TestCatalog_PublishReportsEveryCycle: every step that closes a cycle is reported, also if two close
// the same one.
func TestCatalog_PublishReportsEveryCycle(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	if _, _, err := c.Publish(ctx, ann, definitionWithReferences("b", "1.0.0", "p/a"), false); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Publish(ctx, ann, definitionWithReferences("a", "1.0.0", "p/b", "p/b"), false)
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) != 2 || e.Issues[0].Line != 10 || e.Issues[1].Line != 12 {
		t.Errorf("%v", err)
	}
}

// TestCatalog_ArchiveAndRestore: an archived version is kept and marked. Restoring it removes the mark.
func TestCatalog_ArchiveAndRestore(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	ref := workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}
	if err := c.Archive(ctx, ann, ref); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("archived a missing version: %v", err)
	}
	if _, _, err := c.Publish(ctx, ann, definition("1.0.0", "a"), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, true, false, false} {
		change := c.Restore
		if want {
			change = c.Archive
		}
		if err := change(ctx, ann, ref); err != nil {
			t.Fatal(err)
		}
		if p, err := c.Definition(ctx, ann, ref); err != nil || p.Archived != want {
			t.Errorf("archived %v, %v; want %v", p.Archived, err, want)
		}
	}
	if err := c.Archive(ctx, workflow.Caller{Tenant: "other"}, ref); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant archives: %v", err)
	}
	ref.Version = "1"
	if err := c.Archive(ctx, ann, ref); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("archived a range: %v", err)
	}
}

// TestCatalog_DefinitionPrefersUnarchived: a reference by major finds the version that an execution would
// use, and an archived one only if there is no other.
func TestCatalog_DefinitionPrefersUnarchived(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for _, v := range []string{"1.0.0", "1.1.0"} {
		if _, _, err := c.Publish(ctx, ann, definition(v, "a"), false); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ archive, found string }{{"1.1.0", "1.0.0"}, {"1.0.0", "1.1.0"}} {
		if err := c.Archive(ctx, ann, workflow.Ref{Package: "p", Name: "w", Version: step.archive}); err != nil {
			t.Fatal(err)
		}
		if p, err := c.Definition(ctx, ann, workflow.Ref{Package: "p", Name: "w", Version: "1"}); err != nil || p.Ref.Version != step.found {
			t.Errorf("%s, %v; want %s", p.Ref, err, step.found)
		}
	}
}

// TestCatalog_RegisterBlock: a registered block is immutable. White space and the order of keys in its
// schemas do not count.
func TestCatalog_RegisterBlock(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
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

// TestCatalog_ImportEntities: an import stores all entities or none, and names each wrong line.
func TestCatalog_ImportEntities(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	n, err := importLines(ctx, c, strings.NewReader(`
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
{"type":"device","id":"f"} {"type":"device","id":"g"}
{"type":"global","id":"h"}
[1]`
	_, err = importLines(ctx, c, strings.NewReader(bad))
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeInvalid {
		t.Fatal(err)
	}
	var lines []int
	for _, i := range e.Issues {
		lines = append(lines, i.Line)
	}
	if len(lines) != 8 || lines[0] != 2 || lines[7] != 9 {
		t.Errorf("issues %v", e.Issues)
	}
	for _, i := range e.Issues {
		if strings.Contains(i.Message, "Go ") || strings.Contains(i.Message, "unmarshal") || strings.Contains(i.Message, "json: ") {
			t.Errorf("the message shows Go internals: %s", i)
		}
	}
	if _, err := importLines(ctx, c, strings.NewReader(strings.Repeat("x", 70<<10))); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a line that is too long: %v", err)
	}
	l, err := c.Entities(ctx, ann, workflow.Selector{Type: "device"}, workflow.Page{})
	if err != nil || len(l.Items) != 2 || l.Items[1].Version != 1 || l.Items[1].Token != 0 || string(l.Items[1].Attributes) != "{}" {
		t.Errorf("stored %+v, %v", l.Items, err)
	}
}

// TestCatalog_Entities: entities are created and updated, and found by group or query.
func TestCatalog_Entities(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
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
		t.Errorf("a missing entity: %v", err)
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
		"no bool":      {sel: workflow.Selector{Type: "device", Query: "entity.name"}, code: workflow.CodeInvalid},
		"no value":     {sel: workflow.Selector{Type: "device", Query: "entity.colour == 1"}, code: workflow.CodeInvalid},
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
				if page.Token = l.NextToken; page.Token == "" {
					break
				}
			}
			if got != test.want {
				t.Errorf("%s by %d: %q, want %q", name, limit, got, test.want)
			}
		}
	}
}

// TestCatalog_CostlyQueryGivesShortPage: a costly query returns a short page before it has read
// everything. It ends when its context is cancelled.
func TestCatalog_CostlyQueryGivesShortPage(t *testing.T) {
	c := newCatalog()
	ctx, cancel := context.WithCancel(context.Background())
	var lines strings.Builder
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 2000), ",") + "]"
	for i := range 600 {
		fmt.Fprintf(&lines, `{"type":"device","id":"d%04d","attributes":{"l":%s}}`+"\n", i, list)
	}
	if _, err := importLines(ctx, c, strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
	sel := workflow.Selector{Type: "device", Query: `entity.l.exists(x, x > 1)`}
	page, err := c.Entities(ctx, ann, sel, workflow.Page{Limit: 100})
	if err != nil || page.NextToken == "" {
		t.Errorf("one call reads everything: %v", err)
	}
	for calls := 0; page.NextToken != ""; calls++ {
		if page, err = c.Entities(ctx, ann, sel, workflow.Page{Limit: 100, Token: page.NextToken}); err != nil || calls > 5 {
			t.Fatal("the pages do not end:", err)
		}
	}
	cancel()
	if _, err := c.Entities(ctx, ann, sel, workflow.Page{}); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("after cancel: %v", err)
	}
}

// slowRegistry stores so many calls of entities; then its writes last until their context ends.
type slowRegistry struct {
	port.Registry
	calls int
}

func (r *slowRegistry) WriteEntities(ctx context.Context, tenant string, writes []workflow.EntityWrite) ([]bool, []string, error) {
	if r.calls--; r.calls < 0 {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return r.Registry.WriteEntities(ctx, tenant, writes)
}

// TestCatalog_ImportSaysWhereToContinue: an import that has no more time answers before its
// request ends, with the line before which all is stored; the rest completes it.
func TestCatalog_ImportSaysWhereToContinue(t *testing.T) {
	w := sim.New(1)
	slow := &slowRegistry{calls: 2}
	c := catalog.New(func() catalog.Ports {
		v := w.Open()
		slow.Registry = v.Registry
		return catalog.Ports{Registry: slow, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
	lines := []string{"\n"}
	for i := range 1200 {
		lines = append(lines, fmt.Sprintf("{\"type\":\"device\",\"id\":\"d-%04d\"}\n", i))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n, err := importLines(ctx, c, strings.NewReader(strings.Join(lines, "")))
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeUnavailable || n != 1000 || len(e.Issues) != 1 || e.Issues[0].Code != "not_stored" || e.Issues[0].Line != 1002 {
		t.Fatalf("%d, %+v", n, err)
	}
	if ctx.Err() != nil {
		t.Error("the request's time is over: there is none left to answer")
	}
	slow.calls = 100
	if n, err := importLines(context.Background(), c, strings.NewReader(strings.Join(lines[e.Issues[0].Line-1:], ""))); n != 200 || err != nil {
		t.Errorf("the rest: %d, %v", n, err)
	}
	l, err := c.Entities(context.Background(), ann, workflow.Selector{Type: "device"}, workflow.Page{Limit: 1000})
	if err != nil || len(l.Items) != 1000 || l.Items[999].ID != "d-0999" {
		t.Errorf("%d stored, %v", len(l.Items), err)
	}
	for _, e := range l.Items {
		if e.Version != 1 {
			t.Errorf("%s was stored %d times", e.ID, e.Version)
		}
	}
}

// TestCatalog_ImportIsBounded: one request imports what surely fits into its time. One more
// is refused with what to do, and nothing is stored.
func TestCatalog_ImportIsBounded(t *testing.T) {
	var lines strings.Builder
	for i := range 10_001 {
		fmt.Fprintf(&lines, "{\"type\":\"device\",\"id\":\"d-%05d\"}\n", i)
	}
	c := newCatalog()
	_, err := importLines(context.Background(), c, strings.NewReader(lines.String()))
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeTooLarge || len(e.Issues) != 1 || e.Issues[0].Code != "limit" || e.Issues[0].Line != 10_001 || !strings.Contains(e.Issues[0].Message, "lockstep entities import") {
		t.Errorf("%+v", err)
	}
	if l, err := c.Entities(context.Background(), ann, workflow.Selector{Type: "device"}, workflow.Page{}); err != nil || len(l.Items) > 0 {
		t.Errorf("%d stored, %v", len(l.Items), err)
	}
}

// TestCatalog_RefusesInvalidEntities: PutEntity and ImportEntities refuse the same entities.
func TestCatalog_RefusesInvalidEntities(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for name, attributes := range map[string]string{
		"exponent": `{"x":1e9999999}`, "digits": `{"x":` + strings.Repeat("9", 500) + `}`,
		"nested": `{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		"bytes":  "{\"x\":\"\xff\xfe\"}", "twice": `{"x":1,"x":2}`, "twice within": `{"y":[{"x":1,"x":2}]}`,
	} {
		_, err := c.PutEntity(ctx, ann, workflow.Entity{Type: "device", ID: "a", Attributes: json.RawMessage(attributes)})
		if !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s, put: %v", name, err)
		}
		_, err = importLines(ctx, c, strings.NewReader(`{"type":"device","id":"a","attributes":`+attributes+`}`))
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != workflow.CodeInvalid || len(e.Issues) != 1 || e.Issues[0].Line != 1 {
			t.Errorf("%s, imported: %v", name, err)
		}
	}
	for _, line := range []string{
		`{"type":"device","id":"a","id":"b"}`, `{"type":"device","id":"a","ID":"c"}`, `{"Type":"device","id":"a"}`,
	} {
		if _, err := importLines(ctx, c, strings.NewReader(line)); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n, err := importLines(ctx, c, strings.NewReader(`{"type":"device","id":"a","attributes":{"x":{"id":1},"y":{"id":2},"ID":3,"z":[1,1]}}`)); n != 1 || err != nil {
		t.Error(n, err)
	}
}
