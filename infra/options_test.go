package infra

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// An engine with many pools fits into the limits of AWS: the queue of each has a name by which
// the functions find it, and neither their environments nor their policies name it.
func TestWorkerPool_ManyFit(t *testing.T) {
	x := stacks()["restored"]
	api := x.byID(t, "ApiFunction")
	prefix := api.environment()[topology.EnvQueueJobsPrefix]
	queues := 0
	for _, q := range x.byType(t, "AWS::SQS::Queue") {
		if name := render(q.property("QueueName")); strings.HasPrefix(name, prefix+"site-") {
			queues++
		}
	}
	if prefix == "" || queues != 2*manyPools {
		t.Errorf("%d queues with the prefix %q, want %d", queues, prefix, 2*manyPools)
	}
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		f := x.byID(t, pascalCase(name)+"Function")
		if env := render(f.property("Environment")); strings.Contains(env, "Site") {
			t.Errorf("the environment of %s names pools: %s", name, env)
		}
		size := 0
		for _, s := range x.statementsOf(t, x.referenced(t, f.property("Role"))) {
			size += len(strings.Join(s.actions, "")) + len(strings.Join(s.resources, "")) + 150
		}
		if size > 10_240 {
			t.Errorf("the policy of %s takes about %d bytes, and IAM accepts 10,240", name, size)
		}
	}
	if n := len(x.Resources); n > 500 {
		t.Errorf("%d resources, and CloudFormation accepts 500", n)
	}
}

// What serves added pools is limited to the prefix of their queues.
func TestRoles_AddedPoolsLimitedToPrefix(t *testing.T) {
	for name, want := range map[string]int{"prod": 0, "options": 2, "restored": 2} {
		x, found := stacks()[name], 0
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			for _, s := range x.statementsOf(t, x.referenced(t, f.property("Role"))) {
				if !strings.HasSuffix(s.resources[0], "*") || !slices.Contains(s.actions, "sqs:SendMessage") {
					continue
				}
				found++
				if prefix := f.environment()[topology.EnvQueueJobsPrefix]; prefix == "" || !strings.HasSuffix(s.resources[0], ":"+prefix+"*") {
					t.Errorf("%s of %s may use %q", f.ID, name, s.resources)
				}
			}
		}
		if found != want {
			t.Errorf("%s: %d roles may use the queues of added pools, want %d", name, found, want)
		}
	}
}

func TestPermissionsBoundary_BoundsEveryRole(t *testing.T) {
	for _, role := range stacks()["restored"].byType(t, "AWS::IAM::Role") {
		if got := render(role.property("PermissionsBoundary")); got != "arn:${AWS::Partition}:iam::${AWS::AccountId}:policy/limits-of-the-team" {
			t.Errorf("%s has the boundary %q", role.ID, got)
		}
	}
	for _, role := range stacks()["prod"].byType(t, "AWS::IAM::Role") {
		if got := render(role.property("PermissionsBoundary")); got != "" {
			t.Errorf("%s has the boundary %q", role.ID, got)
		}
	}
}

// Whoever invokes a function invokes a version: code and configuration change at once.
func TestFunctions_InvokedByAlias(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		aliases := map[string]bool{}
		for _, a := range x.byType(t, "AWS::Lambda::Alias") {
			version := x.referenced(t, "${"+strings.TrimSuffix(strings.TrimPrefix(render(a.property("FunctionVersion")), "${"), ".Version}")+"}")
			f := x.referenced(t, a.property("FunctionName"))
			if version.Type != "AWS::Lambda::Version" || x.referenced(t, version.property("FunctionName")) != f {
				t.Errorf("%s is of %s", a.ID, version.ID)
			}
			aliases[f.ID] = true
		}
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			if !aliases[f.ID] && !strings.HasPrefix(f.ID, "OwnFunction") {
				t.Errorf("%s has no alias", f.ID)
			}
		}
		var invoked []any
		for _, m := range x.byType(t, "AWS::Lambda::EventSourceMapping") {
			invoked = append(invoked, m.property("FunctionName"))
		}
		for _, p := range x.byType(t, "AWS::Lambda::Permission") {
			invoked = append(invoked, p.property("FunctionName"))
		}
		for _, i := range x.byType(t, "AWS::ApiGatewayV2::Integration") {
			invoked = append(invoked, i.property("IntegrationUri"))
		}
		for _, r := range x.byType(t, "AWS::Events::Rule") {
			if r.property("EventPattern") == nil { // the others send to a queue
				invoked = append(invoked, propertyOf(asList(r.property("Targets"))[0], "Arn"))
			}
		}
		for _, c := range x.byType(t, "AWS::Lambda::EventInvokeConfig") {
			if depends := render(c.DependsOn); render(c.property("Qualifier")) != aliasName || !strings.Contains(depends, "SweeperLive") {
				t.Errorf("%s is of %s, after %s", c.ID, render(c.property("Qualifier")), depends)
			}
		}
		for _, reference := range invoked {
			if r := x.referenced(t, reference); r.Type != "AWS::Lambda::Alias" && !strings.HasPrefix(r.ID, "OwnFunction") {
				t.Errorf("%s is invoked without an alias", r.ID)
			}
		}
	})
}

func TestNetwork_ConnectsWorkers(t *testing.T) {
	x := stacks()["restored"]
	for id, want := range map[string]string{
		"WorkerFunction": "SecurityGroupIds=sg-0c1b2c3d,SubnetIds=subnet-0a1b2c3d subnet-0b1b2c3d", "PrivateWorkerFunction": "SecurityGroupIds=sg-0e1b2c3d,SubnetIds=subnet-0d1b2c3d",
		"ApiFunction": "", "LifecycleFunction": "",
	} {
		f := x.byID(t, id)
		if got := render(f.property("VpcConfig")); got != want {
			t.Errorf("%s is connected to %q, want %q", id, got, want)
		}
		allowed, denied := false, false
		for _, s := range x.statementsOf(t, x.referenced(t, f.property("Role"))) {
			if !slices.Equal(s.actions, networkActions) {
				continue
			}
			allowed = allowed || s.effect == "Allow" && s.condition == nil
			if s.effect != "Deny" {
				continue
			}
			// The code of the function is denied what Lambda may do with its role.
			arns := asList(propertyOf(s.condition, "ArnLike", "lambda:SourceFunctionArn"))
			denied = len(arns) == 2 && slices.Equal(s.resources, []string{"*"}) && x.referenced(t, arns[0]) == f && strings.HasSuffix(render(arns[1]), ":*")
		}
		if allowed != (want != "") || denied != allowed {
			t.Errorf("%s: may connect to a network: %v; its code may not: %v", id, allowed, denied)
		}
	}
}

// With tables of before, the stack has none of its own, and every function uses those.
func TestExistingTables_AreUsed(t *testing.T) {
	x := stacks()["restored"]
	for id, r := range x.Resources {
		if r.Type == "AWS::DynamoDB::Table" {
			t.Errorf("the stack has the table %s", id)
		}
	}
	for _, f := range x.byType(t, "AWS::Lambda::Function") {
		for role, variable := range topology.TableEnv {
			if got, ok := f.environment()[variable]; ok && got != existingTables[role] {
				t.Errorf("%s: %s is %s", f.ID, variable, got)
			}
		}
		tables := 0
		for _, s := range x.statementsOf(t, x.referenced(t, f.property("Role"))) {
			for _, on := range s.resources {
				if strings.Contains(on, ":dynamodb:") {
					tables++
					if !strings.Contains(on, ":table/before-") {
						t.Errorf("%s may use %s", f.ID, on)
					}
				}
			}
		}
		if tables == 0 {
			t.Errorf("%s may use no table", f.ID)
		}
	}
}

func TestDomain_IsTheAddress(t *testing.T) {
	x := stacks()["restored"]
	domain, mapping := x.byID(t, "Domain"), x.byID(t, "DomainMapping")
	if got := render(domain.property("DomainNameConfigurations")); !strings.Contains(got, "CertificateArn="+certificate) || !strings.Contains(got, "SecurityPolicy=TLS_1_2") {
		t.Errorf("the domain has %s", got)
	}
	if x.referenced(t, mapping.property("ApiId")).Type != "AWS::ApiGatewayV2::Api" || x.referenced(t, mapping.property("Stage")).Type != "AWS::ApiGatewayV2::Stage" {
		t.Errorf("the domain is mapped to %v", mapping.Properties)
	}
	for id, output := range x.Outputs {
		switch {
		case strings.HasPrefix(id, "EngineApiUrl") && render(output.Value) != "https://lockstep.example.com":
			t.Errorf("the address is %s", render(output.Value))
		case strings.HasPrefix(id, "EngineDomainTarget") && !strings.HasSuffix(render(output.Value), ".RegionalDomainName}"):
			t.Errorf("DNS points to %s", render(output.Value))
		}
	}
}

// GET requests have a route of their own, with scopes of their own: a caller can be allowed to
// read only.
func TestHTTPAPI_ReadsApart(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		for _, r := range x.byType(t, "AWS::ApiGatewayV2::Route") {
			if render(r.property("RouteKey")) == "GET /{proxy+}" {
				return
			}
		}
		t.Error("GET has no route of its own")
	})
	x := stacks()["options"]
	for id, want := range map[string]string{"ApiRouteRead": "runs reads", "ApiRouteDefault": "runs"} {
		if got := render(x.byID(t, id).property("AuthorizationScopes")); got != want {
			t.Errorf("%s: scopes %q, want %q", id, got, want)
		}
	}
}

// Tables and indexes take the load at once that the props name.
func TestTables_AreWarm(t *testing.T) {
	for stack, want := range map[string]string{"dev": "ReadUnitsPerSecond=20000,WriteUnitsPerSecond=10000", "prod": ""} {
		for _, table := range stacks()[stack].byType(t, "AWS::DynamoDB::Table") {
			if got := render(table.property("WarmThroughput")); got != want {
				t.Errorf("%s: %s takes %q at once, want %q", stack, table.ID, got, want)
			}
			for _, index := range asList(table.property("GlobalSecondaryIndexes")) {
				if got := render(propertyOf(index, "WarmThroughput")); got != want {
					t.Errorf("%s: an index of %s takes %q at once, want %q", stack, table.ID, got, want)
				}
			}
		}
	}
}

// A release changes functions and nothing else, and whoever operates the engine finds them.
func TestTemplate_VersionIsOnFunctionsOnly(t *testing.T) {
	x := stacks()["prod"]
	for id, r := range x.Resources {
		if tagged := strings.Contains(render(r.property("Tags")), "Key=version"); tagged != (r.Type == "AWS::Lambda::Function") {
			t.Errorf("%s (%s): tagged with the version: %v", id, r.Type, tagged)
		}
	}
	want := map[string]string{"EngineApiId": "AWS::ApiGatewayV2::Api"}
	for _, name := range topology.Functions {
		want["EngineFunction"+pascalCase(name)+"Name"] = "AWS::Lambda::Function"
	}
	for id, output := range x.Outputs {
		for prefix, kind := range want {
			if strings.HasPrefix(id, prefix) && x.referenced(t, output.Value).Type == kind {
				delete(want, prefix)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no outputs %v", want)
	}
}

// A dead-letter queue admits the queue whose dead letters it is for, wherever that has a name
// that is known beforehand. The one of the schedule is used by no queue.
func TestQueues_AdmitTheirSource(t *testing.T) {
	for _, name := range []string{"prod", "options", "restored"} {
		x := stacks()[name]
		for _, q := range x.byType(t, "AWS::SQS::Queue") {
			if q.hasID("SchedulesDlq") {
				if got := render(q.property("RedriveAllowPolicy")); got != "redrivePermission=denyAll" {
					t.Errorf("%s: %s: %q", name, q.ID, got)
				}
				continue
			}
			redrive := q.property("RedrivePolicy")
			if redrive == nil || q.property("QueueName") == nil {
				continue
			}
			dlq := x.referenced(t, propertyOf(redrive, "deadLetterTargetArn"))
			if got, want := render(dlq.property("RedriveAllowPolicy")), ":"+render(q.property("QueueName")); !strings.Contains(got, "redrivePermission=byQueue") || !strings.Contains(got, want) {
				t.Errorf("%s: %s admits %q, want %s", name, dlq.ID, got, want)
			}
		}
	}
}
