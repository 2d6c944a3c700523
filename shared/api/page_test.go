package api_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/api/document"
)

// The page for people names every code, every kind of wait and every verb that
// the document knows.
func TestPageKnowsTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	schemas := object(object(parsed()["components"])["schemas"])
	names := map[string]string{}
	for schema, field := range map[string]string{"Problem": "code", "Waiting": "kind"} {
		words, ok := object(object(object(schemas[schema])["properties"])[field])["enum"].([]any)
		if !ok {
			t.Fatalf("%s.%s has no words", schema, field)
		}
		for _, w := range words {
			names[w.(string)] = schema
		}
	}
	for pattern, op := range document.Open().Operations {
		if verb, ok := strings.CutPrefix(pattern, "POST /workflow-execution/{id}/"); ok && !op.Planned {
			names["/"+verb+"`"] = "verbs"
		}
	}
	if len(names) < 25 {
		t.Fatalf("only %d names were found", len(names))
	}
	for name, of := range names {
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/api.md does not name %s of %s", name, of)
		}
	}
}
