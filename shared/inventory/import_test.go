package inventory_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A line is exactly one object, whatever follows it.
func TestParseLine_RefusesWhatFollowsTheObject(t *testing.T) {
	const entity = `{"type":"device","id":"a"}`
	if _, issues := inventory.ParseLine([]byte(entity + " \t")); len(issues) > 0 {
		t.Errorf("%v", issues)
	}
	for _, rest := range []string{"}", "]", " }", entity, ",", "x", " 1"} {
		if _, issues := inventory.ParseLine([]byte(entity + rest)); len(issues) != 1 || issues[0].Code != "json" {
			t.Errorf("%s%s: %v", entity, rest, issues)
		}
	}
}

// The longest line has MaxLineBytes, however it ends.
func TestReadImport_AcceptsTheLongestLine(t *testing.T) {
	line := func(n int) string {
		const entity = `{"type":"device","id":"a"}`
		return entity + strings.Repeat(" ", n-len(entity))
	}
	for _, end := range []string{"", "\n", "\r\n", "\n" + `{"type":"device","id":"b"}` + "\n"} {
		for n, want := range map[int]int{inventory.MaxLineBytes - 1: 0, inventory.MaxLineBytes: 0, inventory.MaxLineBytes + 1: 1, 2 * inventory.MaxLineBytes: 1} {
			issues, err := inventory.ReadImport(strings.NewReader(line(n)+end), 10, func(int, workflow.Entity) error { return nil })
			if err != nil || len(issues) != want || want == 1 && (issues[0].Code != "too_large" || issues[0].Line != 1) {
				t.Errorf("a line of %d bytes that ends with %q: %v, %v", n, end, issues, err)
			}
		}
	}
}
