package infra

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestEveryFunctionIsBuiltTheSameWay(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		functions, roles := x.all(t, "AWS::Lambda::Function"), map[string]bool{}
		if len(functions) < len(topology.Functions) {
			t.Errorf("%d functions, and topology names %d", len(functions), len(topology.Functions))
		}
		for _, f := range functions {
			for property, want := range map[string]string{
				"Runtime": "provided.al2023", "Handler": "bootstrap", "RecursiveLoop": "Allow", "ReservedConcurrentExecutions": "",
			} {
				if got := text(f.at(property)); got != want {
					t.Errorf("%s: %s is %q, want %q", f.ID, property, got, want)
				}
			}
			role := x.refers(t, f.at("Role"))
			if roles[role.ID] {
				t.Errorf("%s shares its role", f.ID)
			}
			roles[role.ID] = true
			if logs := x.refers(t, f.at("LoggingConfig", "LogGroup")); logs.Type != "AWS::Logs::LogGroup" {
				t.Errorf("%s logs to %s", f.ID, logs.Type)
			}
		}
	})
}

func TestTimeoutsAreThoseOfTheTopology(t *testing.T) {
	x := stacks()["prod"]
	for _, name := range topology.Functions {
		want := strconv.Itoa(topology.FunctionTimeout[name])
		if got := text(x.one(t, title(name)+"Function").at("Timeout")); got != want {
			t.Errorf("%s: time-out %s, want %s", name, got, want)
		}
	}
}

func TestEnvironmentTellsWhatTheRoleAllowsAndNoMore(t *testing.T) {
	want := map[string][]string{
		topology.FunctionAPI: {
			topology.EnvTableExecutions, topology.EnvTableJobs, topology.EnvTableLocks, topology.EnvTableRegistry,
			topology.EnvQueueLifecycle, topology.EnvQueueJobsPrefix, topology.EnvQueueJobsURLs, topology.EnvDeployment, envLogLevel,
		},
		topology.FunctionSweeper: {
			topology.EnvTableExecutions, topology.EnvTableJobs, topology.EnvTableRegistry, topology.EnvQueueLifecycle, topology.EnvDeployment, envLogLevel,
		},
		topology.FunctionWorker: {topology.EnvTableJobs, topology.EnvQueueLifecycle, topology.EnvQueueJobsURLs, topology.EnvDeployment, envLogLevel},
	}
	want[topology.FunctionLifecycle] = want[topology.FunctionAPI]
	x := stacks()["prod"]
	for name, keys := range want {
		env := x.one(t, title(name)+"Function").env()
		for _, key := range keys {
			if env[key] == "" {
				t.Errorf("%s: %s is not set", name, key)
			}
			delete(env, key)
		}
		for key := range env {
			t.Errorf("%s: %s is set", name, key)
		}
	}
	for _, name := range whole {
		for _, f := range stacks()[name].all(t, "AWS::Lambda::Function") {
			if _, ok := f.env()[topology.EnvTrustHeaders]; ok {
				t.Errorf("%s takes tenant and actor from headers that anybody can send", f.ID)
			}
		}
	}
}

func TestPoolsAreKnownByURL(t *testing.T) {
	x := stacks()["prod"]
	queue := x.one(t, "JobsDefaultQueue")
	want := `{"default":"${` + queue.ID + `}"}`
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle, topology.FunctionWorker} {
		if got := x.one(t, title(name)+"Function").env()[topology.EnvQueueJobsURLs]; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// fed are the functions behind queues, by the queue's id: those of another stack too,
// whose mappings are beside them.
func fed(t *testing.T, x *template) map[string]*resource {
	t.Helper()
	by := map[string]*resource{}
	for _, stack := range []*template{x, x.guest} {
		if stack == nil {
			continue
		}
		for _, m := range stack.all(t, "AWS::Lambda::EventSourceMapping") {
			by[stack.refers(t, m.at("EventSourceArn")).ID] = stack.refers(t, m.at("FunctionName"))
		}
	}
	return by
}

func TestEveryQueueIsConsumedOrHoldsDeadLetters(t *testing.T) {
	maxReceive := map[string]int{"LifecycleQueue": topology.MaxReceiveLifecycle, "JobsDefaultQueue": topology.MaxReceiveJobs}
	each(t, func(t *testing.T, x *template) {
		functions, dead := fed(t, x), map[string]bool{}
		for _, q := range x.all(t, "AWS::SQS::Queue") {
			if text(q.at("SqsManagedSseEnabled")) != "true" && q.at("KmsMasterKeyId") == nil {
				t.Errorf("%s is not encrypted", q.ID)
			}
			redrive := q.at("RedrivePolicy")
			if redrive == nil {
				continue
			}
			dead[x.refers(t, at(redrive, "deadLetterTargetArn")).ID] = true
			f := functions[q.ID]
			if f == nil {
				if !q.is("JobsEdgeQueue") { // it is polled
					t.Errorf("%s feeds no function", q.ID)
				}
				continue
			}
			timeout, visibility := f.at("Timeout").(float64), q.at("VisibilityTimeout").(float64)
			if visibility != 6*timeout {
				t.Errorf("%s: visibility %v s in front of a function with a time-out of %v s", q.ID, visibility, timeout)
			}
			received := int(at(redrive, "maxReceiveCount").(float64))
			for name, want := range maxReceive {
				if q.is(name) && received != want {
					t.Errorf("%s: at most %d receives, want %d", q.ID, received, want)
				}
			}
			if received < 5 {
				t.Errorf("%s: %d receives lose messages when Lambda throttles", q.ID, received)
			}
		}
		for _, rule := range x.all(t, "AWS::Events::Rule") {
			for _, target := range list(rule.at("Targets")) {
				dead[x.refers(t, at(target, "DeadLetterConfig", "Arn")).ID] = true
			}
		}
		for _, q := range x.all(t, "AWS::SQS::Queue") {
			if functions[q.ID] != nil || q.at("RedrivePolicy") != nil {
				continue
			}
			if !dead[q.ID] {
				t.Errorf("%s is neither consumed nor anybody's dead-letter queue", q.ID)
			}
			if got := text(q.at("MessageRetentionPeriod")); got != "1209600" {
				t.Errorf("%s keeps dead letters for %s s, want 14 days", q.ID, got)
			}
		}
	})
}

func TestMappingsReportFailuresOneByOne(t *testing.T) {
	eachOf(t, served, func(t *testing.T, x *template) {
		for _, m := range x.all(t, "AWS::Lambda::EventSourceMapping") {
			if got := text(m.at("FunctionResponseTypes")); got != "ReportBatchItemFailures" {
				t.Errorf("%s: response types %q", m.ID, got)
			}
			if got := text(m.at("BatchSize")); got != "10" {
				t.Errorf("%s: batch size %s", m.ID, got)
			}
			if n, ok := m.at("ScalingConfig", "MaximumConcurrency").(float64); !ok || n < 2 || n > 1000 {
				t.Errorf("%s: maximum concurrency %v", m.ID, m.at("ScalingConfig"))
			}
			role := x.refers(t, x.refers(t, m.at("FunctionName")).at("Role"))
			if !slices.Contains(list(m.DependsOn), any(role.ID)) {
				t.Errorf("%s may be made before its function may read the queue", m.ID)
			}
		}
	})
	x := stacks()["dev"]
	if got := text(x.one(t, "JobsDefaultMapping").at("ScalingConfig", "MaximumConcurrency")); got != "7" {
		t.Errorf("concurrency of the worker is %s, want the 7 of the props", got)
	}
}

func TestScheduleRunsTheSweeperEveryMinute(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		rule := x.one(t, "SweepRule")
		if text(rule.at("ScheduleExpression")) != "rate(1 minute)" || text(rule.at("State")) != "ENABLED" {
			t.Errorf("the rule is %v", rule.Properties)
		}
		target := list(rule.at("Targets"))[0]
		sweeper := x.refers(t, at(target, "Arn"))
		if !sweeper.is("SweeperFunction") {
			t.Errorf("the rule runs %s", sweeper.ID)
		}
		// Both what the rule cannot deliver and what the sweeper fails to do end there.
		dlq := x.refers(t, at(target, "DeadLetterConfig", "Arn"))
		failures := x.one(t, "SweepFailures")
		if got := x.refers(t, failures.at("DestinationConfig", "OnFailure", "Destination")); got != dlq {
			t.Errorf("failed sweeps go to %s, undelivered ones to %s", got.ID, dlq.ID)
		}
		if x.refers(t, failures.at("FunctionName")) != sweeper {
			t.Error("the failures of another function go to the sweeper's dead letters")
		}
		if got := text(failures.at("MaximumRetryAttempts")); got != "0" {
			t.Errorf("a failed sweep is repeated %s times, on top of the next one", got)
		}
		allowed := false
		for _, p := range x.all(t, "AWS::SQS::QueuePolicy") {
			for _, s := range statements(p.at("PolicyDocument")) {
				if s.principal == "Service=events.amazonaws.com" && x.refers(t, s.resources[0]) == dlq {
					allowed = x.refers(t, at(s.condition, "ArnEquals", "aws:SourceArn")) == rule
				}
			}
		}
		if !allowed {
			t.Error("the rule may not send its dead letters")
		}
	})
}

func TestEverythingIsTagged(t *testing.T) {
	x := stacks()["prod"]
	for _, kind := range []string{
		"AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::IAM::Role", "AWS::Logs::LogGroup",
		"AWS::Events::Rule", "AWS::CloudWatch::Alarm", "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage",
	} {
		for _, r := range x.all(t, kind) {
			got := text(r.at("Tags"))
			for key, value := range map[string]string{"app": "lockstep", "stage": "prod", "version": "1.2.3"} {
				if !strings.Contains(got, "Key="+key+",Value="+value) && !strings.Contains(got, key+"="+value) {
					t.Errorf("%s: tags %q lack %s", r.ID, got, key)
				}
			}
		}
	}
}

func TestOutputsNameTheParts(t *testing.T) {
	x := stacks()["prod"]
	got := map[string]string{}
	for id, output := range x.Outputs {
		got[strings.TrimPrefix(plain(id), "Engine")] = plain(text(output.Value))
	}
	for id, want := range map[string]string{
		"ApiUrl": "${EngineApi.ApiEndpoint}", "DashboardName": "${EngineDashboard}",
		"TableExecutionsName": "${EngineTableExecutions}", "TableJobsName": "${EngineTableJobs}",
		"TableLocksName": "${EngineTableLocks}", "TableRegistryName": "${EngineTableRegistry}",
		"LifecycleUrl": "${EngineLifecycleQueue}", "LifecycleDlqUrl": "${EngineLifecycleDlq}",
		"JobsDefaultUrl": "${EngineJobsDefaultQueue}", "JobsDefaultDlqUrl": "${EngineJobsDefaultDlq}",
		"SchedulesDlqUrl": "${EngineSchedulesDlq}",
	} {
		if got[id] != want {
			t.Errorf("output %s is %q, want %q", id, got[id], want)
		}
	}
}
