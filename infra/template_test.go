package infra

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestFunctions_HaveCommonSettings(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		functions, roles := x.byType(t, "AWS::Lambda::Function"), map[string]bool{}
		if len(functions) < len(topology.Functions) {
			t.Errorf("%d functions, and topology has %d", len(functions), len(topology.Functions))
		}
		for _, f := range functions {
			for property, want := range map[string]string{
				"Runtime": "provided.al2023", "Handler": "bootstrap", "RecursiveLoop": "Allow", "ReservedConcurrentExecutions": "",
			} {
				if got := render(f.property(property)); got != want {
					t.Errorf("%s: %s is %q, want %q", f.ID, property, got, want)
				}
			}
			role := x.referenced(t, f.property("Role"))
			if roles[role.ID] {
				t.Errorf("%s shares its role", f.ID)
			}
			roles[role.ID] = true
			if logs := x.referenced(t, f.property("LoggingConfig", "LogGroup")); logs.Type != "AWS::Logs::LogGroup" {
				t.Errorf("%s logs to %s", f.ID, logs.Type)
			}
		}
	})
}

func TestFunctions_TimeoutsMatchTopology(t *testing.T) {
	x := stacks()["prod"]
	for _, name := range topology.Functions {
		want := strconv.Itoa(topology.FunctionTimeoutSeconds[name])
		if got := render(x.byID(t, pascalCase(name)+"Function").property("Timeout")); got != want {
			t.Errorf("%s: timeout %s, want %s", name, got, want)
		}
	}
}

func TestFunctions_EnvironmentMatchesPermissions(t *testing.T) {
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
	want[topology.FunctionObserver] = []string{
		topology.EnvTableExecutions, topology.EnvTableJobs, topology.EnvTableRegistry, topology.EnvTableData, topology.EnvQueueLifecycle, topology.EnvQueueEvents, topology.EnvQueueHooksOut, topology.EnvDeployment, envLogLevel,
	}
	want[topology.FunctionLifecycle] = append(slices.Clone(want[topology.FunctionAPI]), topology.EnvTableData, topology.EnvQueueEvents)
	want[topology.FunctionAPI] = append(want[topology.FunctionAPI], topology.EnvTableData, topology.EnvQueueEvents, topology.EnvQueueHooksOut)
	x := stacks()["prod"]
	for name, keys := range want {
		env := x.byID(t, pascalCase(name)+"Function").environment()
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
	for _, name := range engineStacks {
		for _, f := range stacks()[name].byType(t, "AWS::Lambda::Function") {
			if _, ok := f.environment()[topology.EnvTrustHeaders]; ok {
				t.Errorf("%s trusts tenant and actor in headers that anybody can send", f.ID)
			}
		}
	}
}

func TestFunctions_ReceivePoolQueueURLs(t *testing.T) {
	x := stacks()["prod"]
	queue := x.byID(t, "JobsDefaultQueue")
	want := `{"default":"${` + queue.ID + `}"}`
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle, topology.FunctionWorker} {
		if got := x.byID(t, pascalCase(name)+"Function").environment()[topology.EnvQueueJobsURLs]; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// invoked returns the function that a reference to it, or to its alias, invokes.
func (x *template) invoked(t *testing.T, reference any) *resource {
	t.Helper()
	r := x.referenced(t, reference)
	if r.Type == "AWS::Lambda::Alias" {
		return r.template.referenced(t, r.property("FunctionName"))
	}
	return r
}

// functionsByQueue returns the functions that consume queues, by the queue's id, including
// those of another stack.
func functionsByQueue(t *testing.T, x *template) map[string]*resource {
	t.Helper()
	functions := map[string]*resource{}
	for _, stack := range []*template{x, x.importer} {
		if stack == nil {
			continue
		}
		for _, m := range stack.byType(t, "AWS::Lambda::EventSourceMapping") {
			functions[stack.referenced(t, m.property("EventSourceArn")).ID] = stack.invoked(t, m.property("FunctionName"))
		}
	}
	return functions
}

func TestQueues_AreConsumedOrDLQ(t *testing.T) {
	maxReceive := map[string]int{"LifecycleQueue": topology.MaxReceiveLifecycle, "JobsDefaultQueue": topology.MaxReceiveJobs}
	forEngineStacks(t, func(t *testing.T, x *template) {
		functions, dlqs := functionsByQueue(t, x), map[string]bool{}
		for _, q := range x.byType(t, "AWS::SQS::Queue") {
			if render(q.property("SqsManagedSseEnabled")) != "true" && q.property("KmsMasterKeyId") == nil {
				t.Errorf("%s is not encrypted", q.ID)
			}
			redrive := q.property("RedrivePolicy")
			if redrive == nil {
				continue
			}
			dlqs[x.referenced(t, propertyOf(redrive, "deadLetterTargetArn")).ID] = true
			f := functions[q.ID]
			if f == nil {
				if !q.hasID("JobsEdgeQueue") { // it is polled
					t.Errorf("%s has no consumer", q.ID)
				}
				continue
			}
			timeout, visibility := f.property("Timeout").(float64), q.property("VisibilityTimeout").(float64)
			if visibility != 6*timeout {
				t.Errorf("%s: visibility timeout %v s for a function with a timeout of %v s", q.ID, visibility, timeout)
			}
			received := int(propertyOf(redrive, "maxReceiveCount").(float64))
			for name, want := range maxReceive {
				if q.hasID(name) && received != want {
					t.Errorf("%s: at most %d receives, want %d", q.ID, received, want)
				}
			}
			if received < 5 {
				t.Errorf("%s: %d receives lose messages when Lambda throttles", q.ID, received)
			}
		}
		for _, rule := range x.byType(t, "AWS::Events::Rule") {
			for _, target := range asList(rule.property("Targets")) {
				dlqs[x.referenced(t, propertyOf(target, "DeadLetterConfig", "Arn")).ID] = true
			}
		}
		for _, q := range x.byType(t, "AWS::SQS::Queue") {
			if functions[q.ID] != nil || q.property("RedrivePolicy") != nil {
				continue
			}
			if !dlqs[q.ID] {
				t.Errorf("%s is neither consumed nor anybody's dead-letter queue", q.ID)
			}
			if got := render(q.property("MessageRetentionPeriod")); got != "1209600" {
				t.Errorf("%s keeps dead letters for %s s after they were sent, want 14 days", q.ID, got)
			}
		}
	})
}

func TestMappings_ReportBatchItemFailures(t *testing.T) {
	forStacks(t, allStacks, func(t *testing.T, x *template) {
		for _, m := range x.byType(t, "AWS::Lambda::EventSourceMapping") {
			if got := render(m.property("FunctionResponseTypes")); got != "ReportBatchItemFailures" {
				t.Errorf("%s: response types %q", m.ID, got)
			}
			if got := render(m.property("BatchSize")); got != "10" {
				t.Errorf("%s: batch size %s", m.ID, got)
			}
			if n, ok := m.property("ScalingConfig", "MaximumConcurrency").(float64); !ok || n < 2 || n > 1000 {
				t.Errorf("%s: maximum concurrency %v", m.ID, m.property("ScalingConfig"))
			}
			role := x.referenced(t, x.invoked(t, m.property("FunctionName")).property("Role"))
			if !slices.Contains(asList(m.DependsOn), any(role.ID)) {
				t.Errorf("%s may be created before its function may read the queue", m.ID)
			}
		}
	})
	x := stacks()["dev"]
	if got := render(x.byID(t, "JobsDefaultMapping").property("ScalingConfig", "MaximumConcurrency")); got != "7" {
		t.Errorf("concurrency of the worker is %s, want the 7 of the props", got)
	}
}

func TestSchedule_InvokesSweeperEveryMinute(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		rule := x.byID(t, "SweepRule")
		if render(rule.property("ScheduleExpression")) != "rate(1 minute)" || render(rule.property("State")) != "ENABLED" {
			t.Errorf("the rule is %v", rule.Properties)
		}
		target := asList(rule.property("Targets"))[0]
		sweeper := x.invoked(t, propertyOf(target, "Arn"))
		if !sweeper.hasID("SweeperFunction") {
			t.Errorf("the rule invokes %s", sweeper.ID)
		}
		// It gets both undelivered and failed invocations.
		dlq := x.referenced(t, propertyOf(target, "DeadLetterConfig", "Arn"))
		failures := x.byID(t, "SweepFailures")
		if got := x.referenced(t, failures.property("DestinationConfig", "OnFailure", "Destination")); got != dlq {
			t.Errorf("failed sweeps go to %s, undelivered ones to %s", got.ID, dlq.ID)
		}
		if x.referenced(t, failures.property("FunctionName")) != sweeper {
			t.Error("the destination belongs to another function")
		}
		if got := render(failures.property("MaximumRetryAttempts")); got != "0" {
			t.Errorf("a failed sweep is repeated %s times", got)
		}
		allowed := false
		for _, p := range x.byType(t, "AWS::SQS::QueuePolicy") {
			for _, s := range statements(p.property("PolicyDocument")) {
				if s.principal == "Service=events.amazonaws.com" && x.referenced(t, s.resources[0]) == dlq {
					allowed = x.referenced(t, propertyOf(s.condition, "ArnEquals", "aws:SourceArn")) == rule
				}
			}
		}
		if !allowed {
			t.Error("the rule may not send its dead letters")
		}
	})
}

func TestTemplate_TagsResources(t *testing.T) {
	x := stacks()["prod"]
	for _, kind := range []string{
		"AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::IAM::Role", "AWS::Logs::LogGroup",
		"AWS::Events::Rule", "AWS::CloudWatch::Alarm", "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage",
	} {
		for _, r := range x.byType(t, kind) {
			got := render(r.property("Tags"))
			for key, value := range map[string]string{"app": "lockstep", "stage": "prod"} {
				if !strings.Contains(got, "Key="+key+",Value="+value) && !strings.Contains(got, key+"="+value) {
					t.Errorf("%s: tags %q lack %s", r.ID, got, key)
				}
			}
		}
	}
}

func TestTemplate_OutputsNameResources(t *testing.T) {
	x := stacks()["prod"]
	got := map[string]string{}
	for id, output := range x.Outputs {
		got[strings.TrimPrefix(stripHashes(id), "Engine")] = stripHashes(render(output.Value))
	}
	for id, want := range map[string]string{
		"ApiUrl": "${EngineApi.ApiEndpoint}", "DashboardName": "${EngineDashboard}",
		"TableExecutionsName": "${EngineTableExecutions}", "TableJobsName": "${EngineTableJobs}",
		"TableLocksName": "${EngineTableLocks}", "TableRegistryName": "${EngineTableRegistry}", "TableDataName": "${EngineTableData}",
		"LifecycleUrl": "${EngineLifecycleQueue}", "LifecycleDlqUrl": "${EngineLifecycleDlq}",
		"JobsDefaultUrl": "${EngineJobsDefaultQueue}", "JobsDefaultDlqUrl": "${EngineJobsDefaultDlq}",
		"SchedulesDlqUrl": "${EngineSchedulesDlq}",
	} {
		if got[id] != want {
			t.Errorf("output %s is %q, want %q", id, got[id], want)
		}
	}
}
