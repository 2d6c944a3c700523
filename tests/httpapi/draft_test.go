package httpapi

import (
	"strings"
	"testing"
)

func TestDraft_IsStartedByItsExactVersion(t *testing.T) {
	f := newFixture(t, 1)
	yaml, json := "Content-Type: application/yaml", "Content-Type: application/json"
	source := "package: p\nname: new\nversion: 1.0.0\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n"
	var d struct{ Draft bool }
	if a := f.mustDo(&d, "POST", "/workflow-definition/publish?draft=true", source, yaml); a.status != 201 || !d.Draft {
		t.Errorf("stored as %s", a)
	}
	var list struct{ Items []struct{ Draft bool } }
	for _, route := range []string{"/workflow-definition", "/workflow-definition/p/new"} {
		if f.mustDo(&list, "GET", route, ""); len(list.Items) != 1 || !list.Items[0].Draft {
			t.Errorf("%s: %+v", route, list)
		}
	}
	if a := f.do("GET", "/workflow-definition/p/new/1", ""); a.status != 404 {
		t.Errorf("its major version: %s", a)
	}
	for _, c := range []struct {
		body   string
		status int
		text   string
	}{
		{`{"workflow":"p/new"}`, 404, "no published workflow matches p/new"},
		{`{"workflow":"p/new","allowDraft":true}`, 404, "no published workflow matches p/new"},
		{`{"workflow":"p/new:1.0.0"}`, 404, "is a draft"},
		{`{"workflow":"p/new:1.0.0","allowDraft":"yes"}`, 400, "allowDraft"},
		{`{"workflow":"p/new:1.0.0","allowDraft":true}`, 202, "id"},
	} {
		if a := f.do("POST", "/workflow-execution", c.body, json); a.status != c.status || !strings.Contains(string(a.body), c.text) {
			t.Errorf("%s: %s, want %d %s", c.body, a, c.status, c.text)
		}
	}
	d.Draft = true
	if a := f.mustDo(&d, "POST", "/workflow-definition/publish", source, yaml); a.status != 200 || d.Draft {
		t.Errorf("published as %s", a)
	}
	f.mustDo(nil, "POST", "/workflow-execution", `{"workflow":"p/new"}`, json)
}
