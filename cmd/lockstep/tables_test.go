package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tableJSON = `{"name":"payments","description":null,"columns":[{"name":"txn","type":"string","required":true},{"name":"more","type":"json","required":false},{"name":"card","type":"string","required":false,"hidden":true},{"name":"n","type":"number","required":false}],"retention":"1h0m0s","createdAt":"2026-11-21T05:00:00Z","createdBy":null}`

// A file defines a table, in any format; a file that names something else is not sent.
func TestTablesPut_ReadsAFile(t *testing.T) {
	s := &stubService{status: http.StatusOK, body: tableJSON}
	server := httptest.NewServer(s)
	defer server.Close()
	for _, c := range []struct{ text, want, refused string }{
		{"name: payments\nretention: 1h\ncolumns:\n  - {name: txn, type: string, required: true}\n", `PUT /tables/payments {"columns":[{"name":"txn","type":"string","required":true}],"retention":"1h0m0s"}`, ""},
		{`{"name":"payments","description":"d","columns":[{"name":"n","type":"number"}]}`, `PUT /tables/payments {"description":"d","columns":[{"name":"n","type":"number"}]}`, ""},
		{"columns: []\n", "", "it has no name"},
		{"name: a\ncolumn: []\n", "", `unknown field "column"`},
		{"name: [\n", "", "table.yaml"},
	} {
		file := filepath.Join(t.TempDir(), "table.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.lastRequest = ""
		got := runCommand(t, "tables", "put", file, "--url", server.URL)
		if (got.code != 0) != (c.refused != "") || s.lastRequest != c.want || !strings.Contains(got.stderr, c.refused) {
			t.Errorf("%s: exit %d, %s\n%s%s", c.text, got.code, s.lastRequest, got.stdout, got.stderr)
		}
	}
}

// Rows are written as lines of JSON or of CSV, which contains text as it is.
func TestTablesExport_WritesLines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := tableJSON
		if r.URL.Path == "/tables/payments/rows" {
			if body = `{"items":[{"id":"X.1","at":"2026-11-21T05:00:00Z","execution":"X","workflow":"a/b:1.0.0","step":"s","values":{"txn":"a,\"b\" <c>","more":{"x":[1]}}}],"nextPageToken":"p2"}`; r.URL.Query().Get("pageToken") == "p2" {
				body = `{"items":[{"id":"X.2","at":"2026-11-21T05:00:01Z","execution":"X","workflow":"a/b:1.0.0","step":"s","values":{"txn":"` + r.URL.Query().Get("where") + `","n":1.5}}],"nextPageToken":null}`
			}
		}
		if r.URL.Path == "/tables/payments/deliveries" {
			body = `{"items":[{"at":"2026-11-21T05:00:00Z","delivery":"t","execution":"X","attempts":3,"delivered":false,"error":"no"}],"nextPageToken":null}`
		}
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	export := []string{"tables", "export", "payments", "--where", "n > 1", "--url", server.URL}
	want := "_id,_at,_execution,_workflow,_step,txn,more,n\n" +
		`X.1,2026-11-21T05:00:00Z,X,a/b:1.0.0,s,"a,""b"" <c>","{""x"":[1]}",` + "\n" + "X.2,2026-11-21T05:00:01Z,X,a/b:1.0.0,s,n > 1,,1.5\n"
	if got := runCommand(t, append(export, "--format", "csv")...); got.code != 0 || got.stdout != want {
		t.Errorf("exit %d\n%s%s\nwant\n%s", got.code, got.stdout, got.stderr, want)
	}
	got := runCommand(t, export...)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.code != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], `{"id":"X.1",`) || !strings.Contains(lines[0], `<c>`) {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, append(export, "--format", "xml")...); got.code == 0 || !strings.Contains(got.stderr, "ndjson or csv") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	if got := runCommand(t, "tables", "deliveries", "payments", "--url", server.URL); got.code != 0 || !strings.Contains(got.stdout, "X          3      -       not received: no") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "tables", "deliveries", "payments", "--output", "json", "--url", server.URL); got.code != 0 || verbOutputs["tables deliveries"].differs(got.stdout) != "" {
		t.Errorf("exit %d: %s\n%s%s", got.code, verbOutputs["tables deliveries"].differs(got.stdout), got.stdout, got.stderr)
	}
	if got := runCommand(t, "tables", "payments", "--url", server.URL); got.code != 0 || !strings.Contains(got.stdout, "rows of 1 deliveries are not stored, the newest because: no\n") || !strings.Contains(got.stdout, "lockstep tables retry payments") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "tables", "rows", "payments", "--url", server.URL); got.code != 0 || !strings.Contains(got.stdout, "n\":1.5") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}
