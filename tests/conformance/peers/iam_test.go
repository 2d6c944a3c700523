package main

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// What the evaluator is asked comes from the rights of the function, and each policy of the page is asked for
// what it allows and for what it does not.
func TestChecks_AskForWhatIsAllowedAndWhatIsNot(t *testing.T) {
	c := &checks{ofResources: map[string]any{}}
	c.addTable("sweeper", topology.FunctionSweeper, nil, topology.TableExecutions, "arn:t")
	for _, want := range []string{"dynamodb:PutItem arn:t Allowed", "dynamodb:Query arn:t ImplicitlyDenied", "dynamodb:DeleteItem arn:t ImplicitlyDenied",
		"dynamodb:Query arn:t/index/due Allowed", "dynamodb:Scan arn:t/index/due ImplicitlyDenied", "dynamodb:Query arn:t/index/by-status ImplicitlyDenied"} {
		if !slices.ContainsFunc(c.all, func(e expectation) bool {
			return fmt.Sprintln(e.simulation.Request.Action, e.simulation.Request.Resource.Resource, e.want) == want+"\n"
		}) {
			t.Errorf("not asked: %s", want)
		}
	}
	page, err := os.ReadFile("../../../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	c = &checks{}
	if err := c.addPage(string(page)); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range c.all {
		count[e.of+" "+e.want]++
	}
	if count["callers "+allowed] != 3 || count["readers "+allowed] != 1 || count["readers "+unstated] != 2 || count["who deploys "+allowed] == 0 || count["who deploys "+unstated] == 0 {
		t.Errorf("asked %v", count)
	}
}

// A reference is resolved as CloudFormation does, also one to another stack.
func TestTemplate_ResolvesReferences(t *testing.T) {
	x := &template{
		Resources: map[string]resource{"Queue": {Type: "AWS::SQS::Queue", Properties: map[string]any{"QueueName": "jobs"}}, "Table": {Type: "AWS::DynamoDB::Table"}},
		exports:   map[string]any{"host:Jobs": "there"},
	}
	got := fmt.Sprint(x.value([]any{
		map[string]any{"Fn::GetAtt": []any{"Queue", "Arn"}}, map[string]any{"Ref": "Table"}, map[string]any{"Fn::ImportValue": "host:Jobs"},
		map[string]any{"Fn::Join": []any{"", []any{"arn:", map[string]any{"Ref": "AWS::Partition"}}}},
	}))
	if want := "[arn:aws:sqs:eu-west-1:123456789012:jobs Table there arn:aws]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
