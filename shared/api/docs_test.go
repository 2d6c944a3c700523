package api_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

// The page for people names every code, every kind of wait and every verb that
// the document knows.
func TestAPIDocs_NameCodesAndCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	schemas := asObject(asObject(openAPI()["components"])["schemas"])
	names := map[string]string{}
	for schema, field := range map[string]string{"Problem": "code", "Waiting": "kind"} {
		words, ok := asObject(asObject(asObject(schemas[schema])["properties"])[field])["enum"].([]any)
		if !ok {
			t.Fatalf("%s.%s has no words", schema, field)
		}
		for _, w := range words {
			names[w.(string)] = schema
		}
	}
	for pattern, op := range openapi.Load().Operations {
		if verb, ok := strings.CutPrefix(pattern, "POST /workflow-execution/{id}/"); ok && !op.Planned {
			names["/"+verb+"`"] = "verbs"
		}
	}
	if len(names) < 25 {
		t.Fatalf("only %d names were found", len(names))
	}
	for name, source := range names {
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/api.md does not name %s of %s", name, source)
		}
	}
}
