package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The text is read once for all warnings, not once for each: what publishing
// asks of memory grows with the text, and not with the text times the warnings.
func TestCatalog_PublishMemoryIsBounded(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	if _, err := c.RegisterBlock(ctx, ann, workflow.Block{Package: "p", Name: "b", Version: "1.0.0",
		ParameterSchema: json.RawMessage(`{"type":"object","required":["target"]}`)}); err != nil {
		t.Fatal(err)
	}
	source := func(block string) []byte {
		var b strings.Builder
		b.WriteString("package: p\nname: n\nversion: 1.0.0\nseedEntity: device\nsteps:\n")
		list := strings.TrimSuffix(strings.Repeat("1,", 80), ",")
		for i := range 100 {
			fmt.Fprintf(&b, "  - {label: a%d, functionBlock: %s, runOn: device, rawParameters: {x: [%s]}}\n", i, block, list)
		}
		return []byte(b.String())
	}
	asks := func(block string) (mib int, warnings []workflow.Issue) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, _, err := c.Publish(ctx, ann, source(block), true)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return int(after.TotalAlloc-before.TotalAlloc) >> 20, p.Warnings
	}
	mib, warnings := asks("p/b")
	if mib > 200 {
		t.Errorf("it asks for %d MiB", mib)
	}
	if len(warnings) != 100 || warnings[99].Line != 105 || warnings[99].Path != "steps[99].parameters.target" {
		t.Errorf("%d warnings, the last %+v", len(warnings), warnings[len(warnings)-1])
	}
}
