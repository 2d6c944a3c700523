package infra

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// nameProperties are the properties with the physical name, by type.
var nameProperties = map[string]string{
	"AWS::DynamoDB::Table": "TableName", "AWS::SQS::Queue": "QueueName", "AWS::Lambda::Function": "FunctionName",
	"AWS::Logs::LogGroup": "LogGroupName", "AWS::CloudWatch::Alarm": "AlarmName", "AWS::CloudWatch::Dashboard": "DashboardName",
	"AWS::Events::Rule": "Name", "AWS::IAM::Role": "RoleName", "AWS::SNS::Topic": "TopicName",
}

func TestNames_AreGeneratedByDefault(t *testing.T) {
	for _, stack := range []string{"prod", "dev", "pair"} {
		for id, r := range stacks()[stack].Resources {
			if name := nameProperties[r.Type]; name != "" && r.property(name) != nil && !r.hasID("ApiAccessLogs") {
				t.Errorf("%s is named %s", id, render(r.property(name)))
			}
		}
	}
}

func TestNames_StartWithPrefix(t *testing.T) {
	x, names := stacks()["options"], map[string]bool{}
	for id, r := range x.Resources {
		property := nameProperties[r.Type]
		if property == "" || r.Type == "AWS::IAM::Role" || !strings.HasPrefix(id, "Engine") || r.hasID("ApiAccessLogs") {
			continue // a role's name is global to all regions, so it stays generated
		}
		name := render(r.property(property))
		if (name != "acme" && !strings.HasPrefix(name, "acme-")) || names[r.Type+name] {
			t.Errorf("%s is named %q, which lacks the prefix or is not unique", id, name)
		}
		names[r.Type+name] = true
	}
	for _, name := range []string{
		"AWS::DynamoDB::Tableacme-executions", "AWS::SQS::Queueacme-jobs-default", "AWS::SQS::Queueacme-jobs-reports-dlq",
		"AWS::Lambda::Functionacme-worker-reports", "AWS::CloudWatch::Dashboardacme", "AWS::Events::Ruleacme-sweep",
	} {
		if !names[name] {
			t.Errorf("no resource is named %s", name)
		}
	}
	// The engine finds a queue with this prefix that somebody else creates.
	if got := x.byID(t, "ApiFunction").environment()[topology.EnvQueueJobsPrefix]; got != "acme-jobs-" {
		t.Errorf("pools are looked up under %q", got)
	}
}

func TestNames_TwoEnginesInOneStack(t *testing.T) {
	x := stacks()["pair"]
	prefixes := map[string]bool{}
	for _, f := range x.byType(t, "AWS::Lambda::Function") {
		engine := f.ID[:4]
		if p := f.environment()[topology.EnvQueueJobsPrefix]; p != "" && f.hasID("ApiFunction") {
			prefixes[p] = true
		}
		for key, value := range f.environment() {
			for _, m := range referenceRE.FindAllStringSubmatch(value, -1) {
				if m[1][:4] != engine {
					t.Errorf("%s: %s is %s, of the other engine", f.ID, key, value)
				}
			}
		}
	}
	if len(prefixes) != 2 {
		t.Errorf("the engines look up pools under %v", prefixes)
	}
}

// With this prefix the access log's group takes no space in the account's resource policy
// for log delivery. The stack's own id at the end lets a stack be created again while the
// group of its predecessor still exists.
func TestAccessLog_UsesVendedLogsPrefix(t *testing.T) {
	const stack = "/api-access/Fn::Select=2 Fn::Split=/ ${AWS::StackId}"
	seen := map[string]bool{}
	forEngineStacks(t, func(t *testing.T, x *template) {
		deployments := map[string]bool{}
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			if name := f.environment()[topology.EnvDeployment]; name != "" {
				deployments["/aws/vendedlogs/lockstep/"+name+stack] = true
			}
		}
		for _, logs := range x.byType(t, "AWS::Logs::LogGroup") {
			if !logs.hasID("ApiAccessLogs") {
				continue
			}
			name := render(logs.property("LogGroupName"))
			if !deployments[name] || seen[name] {
				t.Errorf("%s is named %s, want a unique one of %v", logs.ID, name, deployments)
			}
			seen[name] = true
		}
	})
	if len(seen) != len(engineStacks)+1 {
		t.Errorf("%d access logs in %d stacks, one of which has two engines", len(seen), len(engineStacks))
	}
}
