package infra

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateFlag = flag.Bool("update", false, "rewrite the golden files")

// The summary shows a reviewer what a change adds or removes: resources, permissions,
// callers, alarms.
func TestTemplate_MatchesGoldenSummary(t *testing.T) {
	got := summary(t, stacks()["prod"])
	file := filepath.Join("testdata", "prod.golden")
	if *updateFlag {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the template has changed; if that is intended, run go test ./infra -update\n%s", diff)
	}
}

// summary describes a template.
func summary(t *testing.T, x *template) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, r := range x.Resources {
		counts[r.Type]++
	}
	fmt.Fprintf(&b, "%d resources\n", len(x.Resources))
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "  %-36s %d\n", kind, counts[kind])
	}
	name := func(s string) string { return strings.ReplaceAll(stripHashes(s), "${Engine", "${") }
	own := func(r *resource) string { return strings.TrimPrefix(stripHashes(r.ID), "Engine") }
	for _, role := range x.byType(t, "AWS::IAM::Role") {
		fmt.Fprintf(&b, "\n%s\n", own(role))
		for _, s := range x.statementsOf(t, role) {
			fmt.Fprintf(&b, "  %s %s\n    on %s\n", s.effect, strings.Join(s.actions, " "), name(strings.Join(s.resources, " ")))
		}
	}
	b.WriteString("\nqueues\n")
	for _, q := range x.byType(t, "AWS::SQS::Queue") {
		fmt.Fprintf(&b, "  %s: visibility %s, kept %s, redrive %s\n", own(q),
			render(q.property("VisibilityTimeout")), render(q.property("MessageRetentionPeriod")), name(render(q.property("RedrivePolicy"))))
	}
	for _, p := range x.byType(t, "AWS::SQS::QueuePolicy") {
		for _, s := range statements(p.property("PolicyDocument")) {
			fmt.Fprintf(&b, "  %s: %s %s to %s if %s\n", own(p), s.effect, strings.Join(s.actions, " "), s.principal, name(render(s.condition)))
		}
	}
	b.WriteString("\nmappings and routes\n")
	for _, m := range x.byType(t, "AWS::Lambda::EventSourceMapping") {
		fmt.Fprintf(&b, "  %s to %s, at most %s at a time\n", name(render(m.property("EventSourceArn"))), name(render(m.property("FunctionName"))), render(m.property("ScalingConfig", "MaximumConcurrency")))
	}
	for _, r := range x.byType(t, "AWS::ApiGatewayV2::Route") {
		fmt.Fprintf(&b, "  %s: %s\n", render(r.property("RouteKey")), render(r.property("AuthorizationType")))
	}
	b.WriteString("\nfunctions\n")
	for _, f := range x.byType(t, "AWS::Lambda::Function") {
		env := f.environment()
		fmt.Fprintf(&b, "  %s: %s s, %s MB, %s, recursive loop %s\n    %s\n", own(f), render(f.property("Timeout")), render(f.property("MemorySize")),
			render(f.property("Architectures")), render(f.property("RecursiveLoop")), strings.Join(slices.Sorted(maps.Keys(env)), " "))
	}
	b.WriteString("\nalarms\n")
	for _, a := range x.byType(t, "AWS::CloudWatch::Alarm") {
		if all := asList(a.property("Metrics")); all != nil {
			fmt.Fprintf(&b, "  %s: %s,%s, %s x %s s\n", own(a), render(propertyOf(all[len(all)-1], "Expression")), a.alarmCondition(), render(a.property("EvaluationPeriods")), render(propertyOf(all[0], "MetricStat", "Period")))
			continue
		}
		fmt.Fprintf(&b, "  %s: %s %s, %s x %s s\n", own(a), render(a.property("MetricName")), a.alarmCondition(), render(a.property("EvaluationPeriods")), render(a.property("Period")))
	}
	b.WriteString("\noutputs\n")
	for _, id := range slices.Sorted(maps.Keys(x.Outputs)) {
		fmt.Fprintf(&b, "  %s = %s\n", strings.TrimPrefix(stripHashes(id), "Engine"), name(render(x.Outputs[id].Value)))
	}
	return b.String()
}
