package workflow_test

import (
	"encoding/json"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// An empty list selects nothing, and a list that is not there says nothing: a selector that is
// encoded and decoded on its way keeps them apart.
func TestSelector_KeepsEmptyLists(t *testing.T) {
	for _, text := range []string{`{"ids":[]}`, `{"type":"device","groups":[]}`, `{"type":"device"}`, `{"type":"device","ids":["a"]}`} {
		var s workflow.Selector
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(s); err != nil || string(got) != text {
			t.Errorf("%s became %s: %v", text, got, err)
		}
	}
}
