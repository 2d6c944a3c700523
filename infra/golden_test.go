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

var update = flag.Bool("update", false, "rewrite the golden files")

// The summary is what a reviewer has to see of a change: what there is, who may do
// what, who may call, what is watched.
func TestSummaryOfTheTemplate(t *testing.T) {
	got := summary(t, stacks()["prod"])
	file := filepath.Join("testdata", "prod.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the template has changed; look whether you mean it, then go test ./infra -update\n%s", diff)
	}
}

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
	name := func(s string) string { return strings.ReplaceAll(plain(s), "${Engine", "${") }
	own := func(r *resource) string { return strings.TrimPrefix(plain(r.ID), "Engine") }
	for _, role := range x.all(t, "AWS::IAM::Role") {
		fmt.Fprintf(&b, "\n%s\n", own(role))
		for _, s := range x.policy(t, role) {
			fmt.Fprintf(&b, "  %s %s\n    on %s\n", s.effect, strings.Join(s.actions, " "), name(strings.Join(s.resources, " ")))
		}
	}
	b.WriteString("\nqueues\n")
	for _, q := range x.all(t, "AWS::SQS::Queue") {
		fmt.Fprintf(&b, "  %s: visibility %s, kept %s, redrive %s\n", own(q),
			text(q.at("VisibilityTimeout")), text(q.at("MessageRetentionPeriod")), name(text(q.at("RedrivePolicy"))))
	}
	for _, p := range x.all(t, "AWS::SQS::QueuePolicy") {
		for _, s := range statements(p.at("PolicyDocument")) {
			fmt.Fprintf(&b, "  %s: %s %s to %s if %s\n", own(p), s.effect, strings.Join(s.actions, " "), s.principal, name(text(s.condition)))
		}
	}
	b.WriteString("\nmappings and routes\n")
	for _, m := range x.all(t, "AWS::Lambda::EventSourceMapping") {
		fmt.Fprintf(&b, "  %s to %s, at most %s at a time\n", name(text(m.at("EventSourceArn"))), name(text(m.at("FunctionName"))), text(m.at("ScalingConfig", "MaximumConcurrency")))
	}
	for _, r := range x.all(t, "AWS::ApiGatewayV2::Route") {
		fmt.Fprintf(&b, "  %s: %s\n", text(r.at("RouteKey")), text(r.at("AuthorizationType")))
	}
	b.WriteString("\nfunctions\n")
	for _, f := range x.all(t, "AWS::Lambda::Function") {
		env := f.env()
		fmt.Fprintf(&b, "  %s: %s s, %s MB, %s, recursive loop %s\n    %s\n", own(f), text(f.at("Timeout")), text(f.at("MemorySize")),
			text(f.at("Architectures")), text(f.at("RecursiveLoop")), strings.Join(slices.Sorted(maps.Keys(env)), " "))
	}
	b.WriteString("\nalarms\n")
	for _, a := range x.all(t, "AWS::CloudWatch::Alarm") {
		fmt.Fprintf(&b, "  %s: %s %s, %s x %s s\n", own(a), text(a.at("MetricName")), a.condition(), text(a.at("EvaluationPeriods")), text(a.at("Period")))
	}
	b.WriteString("\noutputs\n")
	for _, id := range slices.Sorted(maps.Keys(x.Outputs)) {
		fmt.Fprintf(&b, "  %s = %s\n", strings.TrimPrefix(plain(id), "Engine"), name(text(x.Outputs[id].Value)))
	}
	return b.String()
}
