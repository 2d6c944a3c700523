package mutation_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/tests/simulate/mutation"
)

const root = "../../.."

// TestMutationsApply: every mistake can still be made, and each has a name of its
// own. Whether they are seen is `make mutations`.
func TestMutationsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutation.All() {
		if names[m.Name] {
			t.Errorf("two are called %q", m.Name)
		}
		names[m.Name] = true
		if _, err := m.Apply(root); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 30 {
		t.Errorf("there are only %d", len(names))
	}
}
