package infra

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// wildcards are the statements whose resource is not named whole, with the reason.
var wildcards = map[string]string{
	"sqs:GetQueueUrl":          "the name of a pool is free text; the right ends at this engine's prefix and tells only whether a queue exists",
	"xray:PutTraceSegments":    "X-Ray knows no resources; only with the option Tracing",
	"xray:PutTelemetryRecords": "X-Ray knows no resources; only with the option Tracing",
}

func TestRolesAllowExactActionsOnExactResources(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		for _, role := range x.all(t, "AWS::IAM::Role") {
			if role.at("ManagedPolicyArns") != nil {
				t.Errorf("%s has managed policies", role.ID)
			}
			if got := text(role.at("AssumeRolePolicyDocument", "Statement")); !strings.Contains(got, "Principal=Service=lambda.amazonaws.com") || strings.Contains(got, "AWS=") {
				t.Errorf("%s may be assumed by %s", role.ID, got)
			}
			policy := x.policy(t, role)
			if len(policy) == 0 {
				t.Errorf("%s allows nothing", role.ID)
			}
			for _, s := range policy {
				for _, a := range s.actions {
					if strings.Contains(a, "*") {
						t.Errorf("%s: action %s", role.ID, a)
					}
					for _, r := range s.resources {
						if strings.Contains(r, "*") && wildcards[a] == "" {
							t.Errorf("%s: %s on %s", role.ID, a, r)
						}
						if !strings.Contains(r, "*") {
							x.refers(t, r) // fails unless it is one of this stack's
						}
					}
				}
			}
		}
	})
}

func TestLookupOfPoolsStaysWithinTheEngine(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		for _, f := range x.all(t, "AWS::Lambda::Function") {
			prefix := f.env()[topology.EnvQueueJobsPrefix]
			for _, s := range x.policy(t, x.refers(t, f.at("Role"))) {
				if slices.Contains(s.actions, "sqs:GetQueueUrl") && (prefix == "" || !strings.HasSuffix(s.resources[0], ":"+prefix+"*")) {
					t.Errorf("%s looks up %q under the prefix %q", f.ID, s.resources, prefix)
				}
			}
		}
	})
}

func TestXRayIsTheOnlyRightWithoutAnyResource(t *testing.T) {
	for name, want := range map[string]int{"prod": 0, "dev": len(topology.Functions)} {
		x, found := stacks()[name], 0
		for _, role := range x.all(t, "AWS::IAM::Role") {
			for _, s := range x.policy(t, role) {
				if slices.Contains(s.resources, "*") {
					found++
				}
			}
		}
		if found != want {
			t.Errorf("%s: %d statements on *, want %d", name, found, want)
		}
		for _, f := range x.all(t, "AWS::Lambda::Function") {
			if traced := text(f.at("TracingConfig", "Mode")) == "Active"; traced != (want > 0) {
				t.Errorf("%s in %s: traced %v", f.ID, name, traced)
			}
		}
	}
}

// granted are the actions of a service that a function has, by resource.
func granted(t *testing.T, x *template, function, service string) map[string][]string {
	t.Helper()
	by := map[string][]string{}
	role := x.refers(t, x.one(t, title(function)+"Function").at("Role"))
	for _, s := range x.policy(t, role) {
		for _, a := range s.actions {
			if verb, ok := strings.CutPrefix(a, service+":"); ok {
				for _, r := range s.resources {
					r = strings.TrimPrefix(plain(r), "${Engine")
					by[r] = append(by[r], verb)
				}
			}
		}
	}
	for _, verbs := range by {
		slices.Sort(verbs)
	}
	return by
}

func TestWhoMayDoWhatWithTables(t *testing.T) {
	all := "BatchGetItem GetItem PutItem Query UpdateItem"
	want := map[string]map[string]string{
		topology.FunctionAPI: {
			"TableExecutions.Arn}": all, "TableExecutions.Arn}/index/by-status": "Query",
			"TableJobs.Arn}": "GetItem PutItem Query UpdateItem", "TableLocks.Arn}": "BatchGetItem GetItem UpdateItem", "TableRegistry.Arn}": all,
		},
		topology.FunctionLifecycle: {
			"TableExecutions.Arn}": all,
			"TableJobs.Arn}":       "GetItem PutItem Query UpdateItem", "TableLocks.Arn}": "BatchGetItem GetItem UpdateItem", "TableRegistry.Arn}": "BatchGetItem GetItem Query",
		},
		topology.FunctionSweeper: {
			"TableExecutions.Arn}/index/due": "Query",
			"TableExecutions.Arn}":           "BatchGetItem PutItem",
			"TableRegistry.Arn}":             "GetItem PutItem", "TableRegistry.Arn}/index/scheduled": "Query",
			"TableJobs.Arn}": "GetItem UpdateItem", "TableJobs.Arn}/index/workers-due": "Query",
		},
		topology.FunctionWorker: {"TableJobs.Arn}": "GetItem PutItem UpdateItem"},
	}
	for _, stack := range []string{"prod", "dev"} {
		for function, tables := range want {
			got := granted(t, stacks()[stack], function, "dynamodb")
			for name, verbs := range got {
				if have := strings.Join(verbs, " "); have != tables[name] {
					t.Errorf("%s, %s: %q on %s, want %q", stack, function, have, name, tables[name])
				}
			}
			for name := range tables {
				if got[name] == nil {
					t.Errorf("%s, %s: nothing on %s", stack, function, name)
				}
			}
		}
	}
}

// The worker runs code of others. Whatever its policy, its environment and its
// mapping say, they do not so much as name a table other than jobs.
func TestWorkerKnowsNoTableButJobs(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		worker := x.one(t, "WorkerFunction")
		var said []string
		for _, s := range x.policy(t, x.refers(t, worker.at("Role"))) {
			said = append(said, s.resources...)
		}
		said = slices.AppendSeq(said, maps.Values(worker.env()))
		jobs := 0
		for _, s := range said {
			for _, m := range reference.FindAllStringSubmatch(s, -1) {
				r := x.Resources[m[1]]
				if r == nil || r.Type != "AWS::DynamoDB::Table" {
					continue
				}
				if !r.is("TableJobs") {
					t.Errorf("the worker knows %s: %s", r.ID, s)
				}
				jobs++
			}
		}
		if jobs == 0 {
			t.Error("the worker does not know the table jobs")
		}
	})
}

func TestWhoMayDoWhatWithQueues(t *testing.T) {
	consume := "DeleteMessage GetQueueAttributes ReceiveMessage"
	want := map[string]map[string]string{
		topology.FunctionAPI: {
			"LifecycleQueue.Arn}":   "SendMessage",
			"JobsDefaultQueue.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage SendMessage",
		},
		topology.FunctionLifecycle: {"LifecycleQueue.Arn}": consume + " SendMessage", "JobsDefaultQueue.Arn}": "SendMessage"},
		topology.FunctionSweeper:   {"LifecycleQueue.Arn}": "SendMessage", "SchedulesDlq.Arn}": "SendMessage"},
		topology.FunctionWorker:    {"LifecycleQueue.Arn}": "SendMessage", "JobsDefaultQueue.Arn}": consume + " SendMessage"},
	}
	for function, queues := range want {
		got := granted(t, stacks()["prod"], function, "sqs")
		for name, verbs := range got {
			if slices.Equal(verbs, []string{"GetQueueUrl"}) && looksUpPools(function) {
				continue
			}
			if have := strings.Join(verbs, " "); have != queues[name] {
				t.Errorf("%s: %q on %s, want %q", function, have, name, queues[name])
			}
		}
		for name := range queues {
			if got[name] == nil {
				t.Errorf("%s: nothing on %s", function, name)
			}
		}
	}
}

func TestQueuesRefusePlainHTTP(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		safe := map[string]bool{}
		for _, p := range x.all(t, "AWS::SQS::QueuePolicy") {
			queue := x.refers(t, p.at("Queues"))
			for _, s := range statements(p.at("PolicyDocument")) {
				switch {
				case s.effect == "Deny" && s.principal == "AWS=*" && slices.Equal(s.actions, []string{"sqs:*"}) &&
					text(s.condition) == "Bool=aws:SecureTransport=false" && x.refers(t, s.resources[0]) == queue:
					safe[queue.ID] = true
				case s.effect == "Allow" && (s.condition == nil || strings.Contains(s.principal, "*")):
					t.Errorf("%s lets in %s", queue.ID, s.principal)
				}
			}
		}
		for _, q := range x.all(t, "AWS::SQS::Queue") {
			if !safe[q.ID] {
				t.Errorf("%s can be used without TLS", q.ID)
			}
		}
	})
}

func TestEveryRouteButHealthIsAuthorised(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		open := 0
		for _, r := range x.all(t, "AWS::ApiGatewayV2::Route") {
			want := "AWS_IAM"
			if text(r.at("RouteKey")) == "GET /health" {
				want, open = "NONE", open+1
			}
			if got := text(r.at("AuthorizationType")); got != want {
				t.Errorf("%s: %s for %s", r.ID, got, text(r.at("RouteKey")))
			}
			if target := text(r.at("Target")); x.refers(t, target).Type != "AWS::ApiGatewayV2::Integration" {
				t.Errorf("%s leads to %s", r.ID, target)
			}
		}
		if open != len(x.all(t, "AWS::ApiGatewayV2::Api")) {
			t.Errorf("%d open routes", open)
		}
		for id, r := range x.Resources {
			if r.Type == "AWS::Lambda::Url" {
				t.Errorf("%s is a way around the API", id)
			}
		}
	})
}

func TestOnlyTheAPIAndTheRuleInvoke(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		for _, p := range x.all(t, "AWS::Lambda::Permission") {
			source := x.refers(t, regionless(text(p.at("SourceArn"))))
			function := x.refers(t, p.at("FunctionName"))
			got := text(p.at("Principal")) + " " + source.Type
			switch {
			case got == "apigateway.amazonaws.com AWS::ApiGatewayV2::Api" && function.is("ApiFunction"):
			case got == "events.amazonaws.com AWS::Events::Rule" && function.is("SweeperFunction"):
			default:
				t.Errorf("%s lets %s invoke %s", p.ID, got, function.ID)
			}
		}
	})
}

// regionless takes the parts of an ARN away that are not the stack's resources.
func regionless(arn string) string {
	for _, pseudo := range []string{"${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}"} {
		arn = strings.ReplaceAll(arn, pseudo, "")
	}
	return arn
}

func TestAPIIsThrottledAndLogged(t *testing.T) {
	for name, want := range map[string]struct{ rate, burst string }{"prod": {"100", "200"}, "dev": {"3", "4"}} {
		x := stacks()[name]
		stage := x.one(t, "ApiStage")
		settings := stage.at("DefaultRouteSettings")
		if text(at(settings, "ThrottlingRateLimit")) != want.rate || text(at(settings, "ThrottlingBurstLimit")) != want.burst {
			t.Errorf("%s: %v", name, settings)
		}
		if logs := x.refers(t, stage.at("AccessLogSettings", "DestinationArn")); logs.at("RetentionInDays") == nil {
			t.Errorf("%s: the access log %s is kept for ever", name, logs.ID)
		}
		format := text(stage.at("AccessLogSettings", "Format"))
		if !strings.Contains(format, "$context.requestId") || strings.Contains(format, "query") {
			t.Errorf("%s: access log format %s", name, format)
		}
	}
	if cors := stacks()["prod"].one(t, "Api").at("CorsConfiguration"); cors != nil {
		t.Errorf("web pages of %v may call the API", cors)
	}
	if got := text(stacks()["dev"].one(t, "Api").at("CorsConfiguration", "AllowOrigins")); got != "https://ops.example" {
		t.Errorf("origins %q", got)
	}
}
