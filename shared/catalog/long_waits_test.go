package catalog_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A publication warns of questions under locks that may wait longer than an hour. Lint warns of each
// once, and by its own limit.
func TestCatalog_PublishWarnsOfLongQuestions(t *testing.T) {
	const block = "functionBlock: p/a:1, runOn: global"
	for name, test := range map[string]struct {
		head, step string
		want       string // of Publish
		lint       string // the same with a limit of 10 hours
	}{
		"input":       {"seedEntity: device", "{label: a, wait: {input: {title: t, deadline: 8h}}}", "steps[0].wait.input.deadline long_wait", ""},
		"no deadline": {"seedEntity: device", "{label: a, wait: {input: {title: t}}}", "steps[0].wait.input long_wait", "steps[0].wait.input long_wait"},
		"approval":    {"seedEntity: device", "{label: a, wait: {approval: {title: t, deadline: 24h}}}", "steps[0].wait.approval.deadline long_wait", "steps[0].wait.approval.deadline long_wait"},
		"acquired":    {"acquire: [{type: device}]", "{label: a, wait: {input: {title: t, deadline: 2h}}}", "steps[0].wait.input.deadline long_wait", ""},
		"rollout": {"seedEntity: device", "{label: a, rollout: {batches: [1], approve: {title: t, deadline: 2h}}, workflow: {steps: [{label: b, set: {x: 1}}]}}",
			"steps[0].rollout.approve.deadline long_wait", ""},
		"callback":    {"seedEntity: device", "{label: a, " + block + ", callback: {deadline: 2h}}", "steps[0].callback.deadline long_wait", ""},
		"short":       {"seedEntity: device", "{label: a, wait: {input: {title: t, deadline: 1h}}}", "", ""},
		"no entities": {"description: x", "{label: a, wait: {input: {title: t, deadline: 8h}}}", "", ""},
		"shared":      {"seedEntity: device\nconfig: {lockMode: shared}", "{label: a, wait: {input: {title: t}}}", "", ""},
		"timer":       {"seedEntity: device", "{label: a, wait: {for: 8h}}", "", ""},
		"signal":      {"seedEntity: device", "{label: a, wait: {signal: {name: s, deadline: 8h}}}", "", ""},
		"condition":   {"seedEntity: device", "{label: a, wait: {when: 'now > now', deadline: 8h}}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog()
			if _, err := c.RegisterBlock(context.Background(), ann, workflow.Block{Package: "p", Name: "a", Version: "1.0.0"}); err != nil {
				t.Fatal(err)
			}
			source := []byte("package: p\nname: w\nversion: 1.0.0\n" + test.head + "\nsteps: [" + test.step + "]\n")
			p, _, err := c.Publish(context.Background(), ann, source, false)
			if err != nil {
				t.Fatal(err)
			}
			issues, err := c.Lint(context.Background(), ann, source, 10*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for what, check := range map[string]struct {
				issues []workflow.Issue
				want   string
			}{"publish": {p.Warnings, test.want}, "lint": {issues, test.lint}} {
				var got, want []string
				for _, i := range check.issues {
					if i.Line == 0 {
						t.Errorf("%s: %+v has no line", what, i)
					}
					got = append(got, i.Path+" "+i.Code)
				}
				if check.want != "" {
					want = []string{check.want}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
		})
	}
}
