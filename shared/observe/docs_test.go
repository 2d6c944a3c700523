package observe_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/observe"
)

// textBetween is what stands between two marks, both of which have to stand there.
func textBetween(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, began := strings.Cut(text, from)
	part, _, ended := strings.Cut(rest, to)
	if !began || !ended {
		t.Fatalf("nothing between %q and %q", from, to)
	}
	return strings.TrimSpace(part)
}

// The page lists every field and every key that is kept out, and no other.
func TestObservabilityPage_ListsFieldsAndSecrets(t *testing.T) {
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, keys []string
	for _, f := range observe.Fields {
		rows = append(rows, "| `"+f.Name+"` | "+f.Meaning+" |")
	}
	for _, k := range observe.SecretKeys {
		keys = append(keys, "`"+k+"`")
	}
	if got := textBetween(t, string(page), "| field | meaning |\n| --- | --- |\n", "\n\n"); got != strings.Join(rows, "\n") {
		t.Errorf("the page has\n%s\nwant\n%s", got, strings.Join(rows, "\n"))
	}
	if got := textBetween(t, string(page), "<!-- keys -->", "<!-- end -->"); got != strings.Join(keys, ", ") {
		t.Errorf("the page has\n%s\nwant\n%s", got, strings.Join(keys, ", "))
	}
	ends := "`" + strings.Join(observe.SecretSuffixes, "`, `") + "`"
	if got := textBetween(t, string(page), "<!-- ends -->", "<!-- end of ends -->"); got != ends {
		t.Errorf("the page has\n%s\nwant\n%s", got, ends)
	}
}
