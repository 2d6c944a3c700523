package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// someSecrets exist, or not; of others it cannot be told.
type someSecrets map[string]bool

func (s someSecrets) Exists(_ context.Context, tenant, name string) (bool, error) {
	if name == "short" {
		return false, workflow.Errorf(workflow.CodeInvalid, "the secret %q is not a text of 8 to 65536 bytes", name)
	}
	exists, known := s[tenant+"/"+name]
	if !known {
		return false, errors.New("the store does not answer")
	}
	return exists, nil
}

// The list has the secrets of the newest versions, with who refers to them and whether they exist. A
// definition that refers to a missing one is published with a warning.
func TestCatalog_ListsSecrets(t *testing.T) {
	world := sim.New(1)
	c := catalog.New(func() catalog.Ports {
		v := world.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Secrets: someSecrets{"acme/a": true, "acme/b/c": false, "acme/old": true}}
	}, time.Now)
	ann := workflow.Caller{Tenant: "acme", Actor: "ann"}
	publish := func(name, version, parameters string) []workflow.Issue {
		t.Helper()
		p, _, err := c.Publish(t.Context(), ann, fmt.Appendf(nil, "package: p\nname: %s\nversion: %s\nsteps: [{label: x, functionBlock: p/x:1, runOn: global, parameters: {%s}}]\n", name, version, parameters), false)
		if err != nil {
			t.Fatal(err)
		}
		return p.Warnings
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		value := map[string]string{"1.0.0": "${secret.old}", "1.1.0": "${secret.a}"}[version]
		if _, err := c.RegisterBlock(t.Context(), ann, workflow.Block{Package: "p", Name: "x", Version: version, HTTP: &workflow.Endpoint{URL: "http://x", Headers: map[string]string{"A": value}}}); err != nil {
			t.Fatal(err)
		}
	}
	publish("w", "1.0.0", `a: "${secret.old}"`)
	if got := fmt.Sprint(publish("w", "1.1.0", `a: "${secret.a}", b: ["${secret.b/c}, ${secret.a}"]`)); strings.Count(got, "no secret") != 1 || !strings.Contains(got, `no secret "b/c"`) {
		t.Errorf("warnings %s", got)
	}
	p, _, err := c.Publish(t.Context(), ann, []byte("package: p\nname: h\nversion: 1.0.0\nsteps:\n- label: x\n  runOn: global\n  http: {method: POST, url: 'http://x', headers: {A: '${secret.b/c}'}}\n"), true)
	if err != nil || len(p.Warnings) != 1 || p.Warnings[0].Path != "steps[0].http" || p.Warnings[0].Line != 7 {
		t.Errorf("of an http step: %v, %v", p.Warnings, err)
	}
	publish("w", "1.2.0", `a: "${secret.archived}"`)
	if err := c.Archive(t.Context(), ann, workflow.Ref{Package: "p", Name: "w", Version: "1.2.0"}); err != nil {
		t.Fatal(err)
	}
	publish("v", "1.0.0", `a: "${secret.a} ${secret.lost} ${secret.short}"`)
	list := func(who workflow.Caller) string {
		v, err := c.Secrets(t.Context(), who)
		if err != nil || !v.Complete {
			t.Errorf("%+v, %v", v, err)
		}
		var lines []string
		for _, s := range v.Items {
			why := ""
			if s.Problem != nil {
				why = *s.Problem
			}
			lines = append(lines, fmt.Sprintf("%s %v %q %v", s.Name, s.Resolves, why, s.UsedBy))
		}
		return strings.Join(lines, "\n")
	}
	const want = `a true "" [workflow p/v:1.0.0 workflow p/w:1.1.0 block p/x:1.1.0]
b/c false "there is no secret of this name" [workflow p/w:1.1.0]
lost false "the store does not answer" [workflow p/v:1.0.0]
short false "the secret \"short\" is not a text of 8 to 65536 bytes" [workflow p/v:1.0.0]`
	if got := list(ann); got != want {
		t.Errorf("secrets:\n%s", got)
	}
	if got := list(workflow.Caller{Tenant: "other"}); got != "" {
		t.Errorf("another tenant sees %s", got)
	}
}

// A workflow that this release cannot read is an entry with the problem, and not the end of the list; and
// only so many names are looked up.
func TestCatalog_ListOfSecretsIsBounded(t *testing.T) {
	world := sim.New(1)
	known := &countedSecrets{}
	c := catalog.New(func() catalog.Ports {
		v := world.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Secrets: known}
	}, time.Now)
	ann := workflow.Caller{Tenant: "acme", Actor: "ann"}
	for i := range 21 {
		var values []string
		for n := range 10 {
			values = append(values, fmt.Sprintf(`p%d: "${secret.s%03d}"`, n, i*10+n))
		}
		if _, _, err := c.Publish(t.Context(), ann, fmt.Appendf(nil, "package: p\nname: w%d\nversion: 1.0.0\nsteps: [{label: x, functionBlock: p/x:1, runOn: global, parameters: {%s}}]\n", i, strings.Join(values, ", ")), false); err != nil {
			t.Fatal(err)
		}
	}
	known.calls.Store(0)
	if v, err := c.Secrets(t.Context(), ann); err != nil || v.Complete || len(v.Items) != 210 || known.calls.Load() != 200 || v.Items[0].Problem != nil || v.Items[209].Problem == nil {
		t.Errorf("%d names, %d lookups, %v", len(v.Items), known.calls.Load(), err)
	}
	newer := workflow.PublishedDefinition{Ref: workflow.Ref{Package: "p", Name: "newer", Version: "1.0.0"}, Source: []byte(`{"package":"p","name":"newer","version":"1.0.0","steps":[{"label":"x","flies":true}]}`)}
	if _, err := world.Open().Registry.PutDefinition(t.Context(), "acme", newer); err != nil {
		t.Fatal(err)
	}
	v, err := c.Secrets(t.Context(), ann)
	if err != nil || len(v.Items) != 211 || v.Complete {
		t.Fatalf("%d names, %v", len(v.Items), err)
	}
	if first := v.Items[0]; first.Name != "" || first.Problem == nil || !strings.Contains(*first.Problem, "flies") || fmt.Sprint(first.UsedBy) != "[workflow p/newer:1.0.0]" {
		t.Errorf("%+v", first)
	}
}

// countedSecrets are all there, and count who asks.
type countedSecrets struct{ calls atomic.Int64 }

func (s *countedSecrets) Exists(context.Context, string, string) (bool, error) {
	s.calls.Add(1)
	return true, nil
}

// A definition and a block that name an endpoint which this stage does not have are refused, with its
// place and the nearest name.
func TestCatalog_RefusesUnknownEndpoints(t *testing.T) {
	world := sim.New(1)
	c := catalog.New(func() catalog.Ports {
		v := world.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Endpoints: workflow.Endpoints{"inventory": "https://a.test"}}
	}, time.Now)
	ann := workflow.Caller{Tenant: "acme", Actor: "ann"}
	for endpoint, want := range map[string]string{"inventory": "", "inventry": `4:52 steps[0].http.endpoint: this stage has no endpoint "inventry": add it to endpoints in its configuration; did you mean "inventory"?`, "shop": `4:52 steps[0].http.endpoint: this stage has no endpoint "shop"`} {
		_, _, err := c.Publish(t.Context(), ann, fmt.Appendf(nil, "package: p\nname: w\nversion: 1.0.0\nsteps: [{label: x, runOn: global, http: {endpoint: %s}}]\n", endpoint), true)
		got := ""
		var e *workflow.Error
		if errors.As(err, &e) && len(e.Issues) == 1 {
			got = e.Issues[0].String()
		}
		if want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v", endpoint, got, err)
		}
		_, err = c.RegisterBlock(t.Context(), ann, workflow.Block{Package: "p", Name: endpoint, Version: "1.0.0", HTTP: &workflow.Endpoint{Endpoint: endpoint, Path: "/x"}})
		if (err != nil) != (want != "") || err != nil && (!workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "endpoint")) {
			t.Errorf("block of %s: %v", endpoint, err)
		}
	}
	for _, bad := range []workflow.Endpoint{{URL: "http://a", Endpoint: "inventory"}, {URL: "http://a", Path: "/x"}, {Endpoint: "inventory", Path: "x"}, {Endpoint: "inventory", Path: "/../x"}, {Endpoint: "a b"}, {}, {Endpoint: "inventory", Sign: &workflow.Signing{}}, {Endpoint: "inventory", Sign: &workflow.Signing{Secret: "k", Header: "Host"}}} {
		if _, err := c.RegisterBlock(t.Context(), ann, workflow.Block{Package: "p", Name: "bad", Version: "1.0.0", HTTP: &bad}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
