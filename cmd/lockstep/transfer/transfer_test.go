package transfer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestDifferences_NamesEachField(t *testing.T) {
	for _, c := range []struct{ stage, file, want string }{
		{`{"a":1,"b":[1,{"c":2}]}`, `{"b":[1,{"c":2}], "a":1}`, ""},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567891}`, "a is 12345678901234567890 in the stage and 12345678901234567891 in the file"},
		{`{"b":[1,{"c":2}]}`, `{"b":[1,{"c":3}]}`, "b[1].c is 2 in the stage and 3 in the file"},
		{`{"b":[1]}`, `{"b":[1,2]}`, "b is [1] in the stage and [1,2] in the file"},
		{`{"a":null}`, `{}`, "a is null in the stage and absent in the file"},
		{`{"a":{"x":1}}`, `{"a":true}`, `a is {"x":1} in the stage and true in the file`},
		{`{"a":"` + strings.Repeat("ä", 60) + `"}`, `{"a":""}`, `a is "` + strings.Repeat("ä", 39) + `... in the stage and "" in the file`},
		{`{}`, `{"a":1,"b":1,"c":1,"d":1,"e":1}`, "a is absent in the stage and 1 in the file; b is absent in the stage and 1 in the file; c is absent in the stage and 1 in the file; and 2 more"},
	} {
		if got := joinDifferences(differences([]byte(c.stage), []byte(c.file))); got != c.want {
			t.Errorf("%s against %s:\n%s\nwant\n%s", c.stage, c.file, got, c.want)
		}
	}
}

// progress prints a note every two seconds and none for quick work.
func TestProgress_ReportsEveryTwoSeconds(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	p := newProgress(&out, func() time.Time { return now })
	for i := range 50 {
		p.report("lines read", i)
		now = now.Add(100 * time.Millisecond)
	}
	if out.String() != "note: 20 lines read\nnote: 40 lines read\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestCompareRefs_OrdersBySemver(t *testing.T) {
	a, b := workflow.Ref{Package: "p", Name: "n", Version: "1.9.0"}, workflow.Ref{Package: "p", Name: "n", Version: "1.10.0"}
	if compareRefs(a, b) >= 0 || compareRefs(b, a) <= 0 || compareRefs(a, a) != 0 {
		t.Error("1.9.0 is not before 1.10.0")
	}
}

// Fields that look secret by name or form are not in a file. The rest of a block is,
// byte for byte.
func TestSecretFields_AreWithheld(t *testing.T) {
	for _, c := range []struct {
		name    string
		url     string
		headers map[string]string
		names   []string
		rest    string
	}{
		{"a secret name", "https://x.test/", map[string]string{"X-Api-Key": "hunter2", "X-Site": "zrh"}, []string{"X-Api-Key"}, "https://x.test/ map[X-Site:zrh]"},
		{"a bearer token", "https://x.test/", map[string]string{"X-Caller": "Bearer hunter2"}, []string{"X-Caller"}, "https://x.test/ map[]"},
		{"a web token", "https://x.test/", map[string]string{"X-Caller": "eyJhbGciOiJI.eyJodW50ZXIyIn.hunter2"}, []string{"X-Caller"}, "https://x.test/ map[]"},
		{"a URL with credentials", "https://x.test/", map[string]string{"X-Proxy": "http://u:hunter2@proxy/"}, []string{"X-Proxy"}, "https://x.test/ map[]"},
		{"a parameter", "https://x.test/?b=%2f&Access_Token=hunter2&a=1", nil, []string{"?Access_Token"}, "https://x.test/?b=%2f&a=1 map[]"},
		{"only a secret parameter", "https://x.test/?sig=hunter2", nil, []string{"?sig"}, "https://x.test/ map[]"},
		{"an escaped name", "https://x.test/?a&%6bey=hunter2", nil, []string{"?key"}, "https://x.test/?a map[]"},
		{"the same parameter twice", "https://x.test/?key=hunter2&key=hunter2&z=", nil, []string{"?key"}, "https://x.test/?z= map[]"},
		{"after a semicolon", "https://x.test/?a=1;password=hunter2&z", nil, []string{"?a"}, "https://x.test/?z map[]"},
		{"a secret value", "https://x.test/?a=Bearer%20hunter2", nil, []string{"?a"}, "https://x.test/ map[]"},
		{"a header and a parameter", "https://x.test/?key=hunter2", map[string]string{"key": "hunter2"}, []string{"key", "?key"}, "https://x.test/ map[]"},
		{"references to secrets", "https://x.test/", map[string]string{"Authorization": "Bearer ${secret.a}", "X-Api-Key": "${secret.a}${secret.b}", "X-Other-Key": "hunter2${secret.a}"}, []string{"X-Other-Key"}, "https://x.test/ map[Authorization:Bearer ${secret.a} X-Api-Key:${secret.a}${secret.b}]"},
		{"nothing secret", "https://x.test/p?site=zrh&", map[string]string{"X-Site": "zrh"}, nil, "https://x.test/p?site=zrh& map[X-Site:zrh]"},
	} {
		b := workflow.Block{Name: "b", HTTP: &workflow.Endpoint{URL: c.url, Headers: c.headers}}
		var out strings.Builder
		w := &writer{out: &out}
		if err := w.writeBlock(b); err != nil || strings.Contains(out.String(), "hunter2") {
			t.Errorf("%s: %s, %v", c.name, out.String(), err)
		}
		names := secretFields(b)
		rest := withholdFields(b, names)
		if got := fmt.Sprint(rest.HTTP.URL, " ", rest.HTTP.Headers); got != c.rest || !slices.Equal(names, c.names) {
			t.Errorf("%s: without %q it is %s", c.name, names, got)
		}
		if b.HTTP.URL != c.url || len(b.HTTP.Headers) != len(c.headers) {
			t.Errorf("%s: the block was modified: %+v", c.name, b.HTTP)
		}
	}
	if secretFields(workflow.Block{}) != nil || withholdFields(workflow.Block{}, []string{"x"}).HTTP != nil {
		t.Error("a block without an endpoint has secrets")
	}
}

// A new block is imported only after every withheld field has been filled in. A block
// that the stage already has is compared without them.
func TestPlan_RequiresWithheldFields(t *testing.T) {
	stored := workflow.Block{Package: "p", Name: "stored", Version: "1.0.0", HTTP: &workflow.Endpoint{URL: "https://x.test/?key=a", Headers: map[string]string{"Cookie": "a"}}}
	missing := stored
	missing.Name = "missing"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []workflow.Block{stored}})
	}))
	defer server.Close()
	api, err := client.New(client.Options{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	file := fileContent{}
	for i, b := range []workflow.Block{stored, missing} {
		names := secretFields(b)
		file.blocks = append(file.blocks, withLine[workflow.Block]{i + 2, withholdFields(b, names), names})
	}
	p, err := (&deployment{api, newProgress(io.Discard, time.Now)}).plan(t.Context(), file, false)
	if err != nil || p.counts[kindBlocks].Unchanged != 1 || len(p.blocks) != 0 || len(p.conflicts) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	for i, want := range []string{"the header Cookie was not exported: add it to http.headers", "add key=VALUE to the query of http.url of the line, and remove \"?key\" from"} {
		if c := p.conflicts[i]; c.Line != 3 || !strings.Contains(c.Message, want) {
			t.Errorf("want %q: %+v", want, c)
		}
	}
}
