package catalog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A costly query gives a short page rather than all that it may look at, and one
// that nobody waits for any more ends.
func TestCatalog_CostlyQueryGivesShortPage(t *testing.T) {
	c := newCatalog()
	ctx, cancel := context.WithCancel(context.Background())
	var lines strings.Builder
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 2000), ",") + "]"
	for i := range 800 {
		fmt.Fprintf(&lines, `{"type":"device","id":"d%04d","attributes":{"l":%s}}`+"\n", i, list)
	}
	if _, err := c.ImportEntities(ctx, ann, strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
	sel := workflow.Selector{Type: "device", Query: `entity.l.exists(x, x > 1)`}
	page, err := c.Entities(ctx, ann, sel, workflow.Page{Limit: 100})
	if err != nil || page.NextToken == "" {
		t.Errorf("one call looks at everything: %v", err)
	}
	for calls := 0; page.NextToken != ""; calls++ {
		if page, err = c.Entities(ctx, ann, sel, workflow.Page{Limit: 100, Token: page.NextToken}); err != nil || calls > 5 {
			t.Fatal("it does not come to the end:", err)
		}
	}
	cancel()
	if _, err := c.Entities(ctx, ann, sel, workflow.Page{}); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("nobody waits for it: %v", err)
	}
}
