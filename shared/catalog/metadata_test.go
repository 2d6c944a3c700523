package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// What a registration says for programs that draw blocks is shown again.
func TestCatalog_KeepsMetadataOfBlocks(t *testing.T) {
	catalog := openCatalog(sim.New(1))
	for metadata, want := range map[string]bool{`{"icon":"road"}`: true, `null`: true, `[1]`: false, `{"a":"` + strings.Repeat("x", workflow.MaxMetadataBytes) + `"}`: false} {
		b := workflow.Block{Package: "p", Name: "b", Version: "1.0.0", Metadata: json.RawMessage(metadata)}
		b.Name += map[bool]string{true: "n"}[metadata == "null"]
		if _, err := catalog.RegisterBlock(t.Context(), ann, b); (err == nil) != want {
			t.Errorf("%.20s: %v", metadata, err)
		}
	}
	list, err := catalog.Blocks(t.Context(), ann, workflow.Page{})
	if err != nil || len(list.Items) != 2 || string(list.Items[0].Metadata) != `{"icon":"road"}` || list.Items[1].Metadata != nil {
		t.Errorf("%+v, %v", list.Items, err)
	}
}
