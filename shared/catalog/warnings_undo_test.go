package catalog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A step that cannot be undone, after one that can, keeps an execution that fails from undoing anything. Publishing
// warns of the first, unless no failure can end the execution there or later, or no execution executes both.
func TestCatalog_WarnsOfStepsThatStopTheRollback(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for _, b := range []workflow.Block{
		{Package: "p", Name: "pure", Version: "1.0.0", Pure: true},
		{Package: "p", Name: "undoable", Version: "1.0.0", Reversible: true, Idempotent: true},
		{Package: "p", Name: "forever", Version: "1.0.0"},
	} {
		if _, err := c.RegisterBlock(ctx, ann, b); err != nil {
			t.Fatal(err)
		}
	}
	const (
		pure     = "{label: %s, functionBlock: 'p/pure:1', runOn: global}"
		undoable = "{label: %s, functionBlock: 'p/undoable:1', runOn: global}"
		undone   = "{label: %s, functionBlock: 'p/forever:1', runOn: global, compensate: {functionBlock: 'p/undoable:1'}}"
		forever  = "{label: %s, functionBlock: 'p/forever:1', runOn: global}"
		handled  = "{label: %s, functionBlock: 'p/forever:1', runOn: global, continueOnError: true}"
	)
	list := func(steps ...string) string {
		for i, s := range steps {
			if strings.Contains(s, "%s") {
				steps[i] = fmt.Sprintf(s, string(rune('a'+i)))
			}
		}
		return "[" + strings.Join(steps, ", ") + "]"
	}
	in := func(label, step string) string { return fmt.Sprintf(step, label) }
	for name, test := range map[string]struct {
		config, steps string
		want          string
	}{
		"undoable":            {steps: list(undoable, pure, undone)},
		"last":                {steps: list(undoable, pure, forever), want: "steps[2]: step \"c\" cannot be undone: if the execution fails in it, or later, it ends FAILED_UNSAFE and undoes nothing, not even step \"a\""},
		"only the first":      {steps: list(undone, forever, forever), want: "steps[1]: step \"b\""},
		"first":               {steps: list(forever, undoable)},
		"never":               {config: "config: {rollback: never}\n", steps: list(undoable, forever)},
		"handled, last":       {steps: list(undoable, handled)},
		"handled, then fails": {steps: list(undoable, handled, pure), want: "steps[1]: step \"b\""},
		"another case": {
			steps: list("{label: s, switch: [{when: parameters.a, steps: [" + in("x", undoable) + "]}, {default: true, steps: [" + in("y", forever) + "]}]}"),
		},
		"after a case": {
			steps: list("{label: s, switch: [{when: parameters.a, steps: ["+in("x", undoable)+"]}, {default: end}]}", forever), want: "steps[1]: step \"b\"",
		},
		"a branch": {
			steps: list("{label: s, parallel: {branches: [{label: one, steps: [" + in("x", undoable) + "]}, {label: two, steps: [" + in("y", forever) + "]}]}}"), want: "steps[0].parallel.branches[1].steps[0]: step \"y\"",
		},
		"a handler": {
			steps: list("{label: s, functionBlock: 'p/undoable:1', runOn: global, onFailure: [{steps: [" + in("y", forever) + "]}]}"),
		},
	} {
		p, _, err := c.Publish(ctx, ann, []byte("package: p\nname: w\nversion: 1.0.0\nparameters: {type: object, properties: {a: {type: boolean}}}\n"+test.config+"steps: "+test.steps+"\n"), true)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := ""
		for _, w := range p.Warnings {
			if w.Code == "no_undo" {
				got += w.Path + ": " + w.Message
			}
		}
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
