package infra

import (
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
	eachOf(t, served, func(t *testing.T, x *template) {
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
						if !strings.Contains(r, "*") && r != customerKey {
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
			// It shows what the next sweep would do.
			"TableExecutions.Arn}/index/due": "Query", "TableRegistry.Arn}/index/scheduled": "Query", "TableJobs.Arn}/index/workers-due": "Query",
			"TableJobs.Arn}": "GetItem PutItem Query UpdateItem", "TableLocks.Arn}": "BatchGetItem UpdateItem", "TableRegistry.Arn}": all,
		},
		topology.FunctionLifecycle: {
			"TableExecutions.Arn}": all,
			"TableJobs.Arn}":       "GetItem PutItem Query UpdateItem", "TableLocks.Arn}": "BatchGetItem UpdateItem", "TableRegistry.Arn}": "BatchGetItem GetItem Query UpdateItem",
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

func TestWhoMayDoWhatWithQueues(t *testing.T) {
	consume := "DeleteMessage GetQueueAttributes ReceiveMessage"
	want := map[string]map[string]string{
		topology.FunctionAPI: {
			"LifecycleQueue.Arn}": "GetQueueAttributes SendMessage",
			// It shows dead letters, and puts them back.
			"LifecycleDlq.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage", "JobsDefaultDlq.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage",
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

// The policy is a part of the table, so that * is the table; it denies and grants nothing.
func TestTablesRefusePlainHTTP(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		for _, table := range x.all(t, "AWS::DynamoDB::Table") {
			all := statements(table.at("ResourcePolicy", "PolicyDocument"))
			if len(all) != 1 {
				t.Fatalf("%s has a policy of %d statements", table.ID, len(all))
			}
			s := all[0]
			if s.effect != "Deny" || s.principal != "AWS=*" || !slices.Equal(s.actions, []string{"dynamodb:*"}) ||
				!slices.Equal(s.resources, []string{"*"}) || text(s.condition) != "Bool=aws:SecureTransport=false" {
				t.Errorf("%s can be used without TLS: %+v", table.ID, s)
			}
		}
	})
	// An emulator is spoken to as it comes.
	for _, table := range stacks()["local"].all(t, "AWS::DynamoDB::Table") {
		if table.at("ResourcePolicy") != nil {
			t.Errorf("%s refuses what an emulator is asked", table.ID)
		}
	}
}

func TestEveryRouteButHealthAndPageIsAuthorised(t *testing.T) {
	known := map[string]string{"dev": "AWS_IAM", "host": "AWS_IAM", "options": "JWT", "pair": "AWS_IAM", "prod": "AWS_IAM"}
	open := map[string][]string{
		"options": {"GET /health", "GET /", "GET /monitor/{file+}"},
		"dev":     {"GET /health", "OPTIONS /{proxy+}"}, // pages of other origins may call, and browsers ask without credentials
	}
	for _, name := range whole {
		x, found := stacks()[name], map[string]bool{}
		allowed := open[name]
		if allowed == nil {
			allowed = []string{"GET /health"}
		}
		for _, r := range x.all(t, "AWS::ApiGatewayV2::Route") {
			want, key := known[name], text(r.at("RouteKey"))
			if slices.Contains(allowed, key) {
				want, found[key] = "NONE", true
			}
			if got := text(r.at("AuthorizationType")); got != want {
				t.Errorf("%s: %s for %s, want %s", r.ID, got, key, want)
			}
			if target := text(r.at("Target")); x.refers(t, target).Type != "AWS::ApiGatewayV2::Integration" {
				t.Errorf("%s leads to %s", r.ID, target)
			}
		}
		if len(found) != len(allowed) {
			t.Errorf("%s: open routes %v, want %v", name, found, allowed)
		}
		for id, r := range x.Resources {
			if r.Type == "AWS::Lambda::Url" {
				t.Errorf("%s is a way around the API", id)
			}
		}
	}
}

func TestTokensAreThoseOfTheIssuer(t *testing.T) {
	x := stacks()["options"]
	authorizer := x.one(t, "ApiAuthorizer")
	for path, want := range map[string]string{
		"AuthorizerType": "JWT", "IdentitySource": "$request.header.Authorization",
		"JwtConfiguration": "Audience=lockstep,Issuer=https://id.example/",
	} {
		if got := text(authorizer.at(path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	rest := x.one(t, "ApiRouteDefault")
	if x.refers(t, rest.at("AuthorizerId")) != authorizer || text(rest.at("AuthorizationScopes")) != "runs" {
		t.Errorf("the route is for %s with scopes %s", text(rest.at("AuthorizerId")), text(rest.at("AuthorizationScopes")))
	}
	if got := x.one(t, "ApiFunction").env()[topology.EnvTenantClaim]; got != "team" {
		t.Errorf("the tenant is the claim %q", got)
	}
}

// The customer's key serves tables and queues, and no role may use it otherwise.
func TestCustomerKey(t *testing.T) {
	x := stacks()["options"]
	for _, table := range x.all(t, "AWS::DynamoDB::Table") {
		if got := text(table.at("SSESpecification")); got != "KMSMasterKeyId="+customerKey+",SSEEnabled=true,SSEType=KMS" {
			t.Errorf("%s is encrypted by %s", table.ID, got)
		}
	}
	for _, q := range x.all(t, "AWS::SQS::Queue") {
		if got := text(q.at("KmsMasterKeyId")); got != customerKey && !q.is("SchedulesDlq") {
			t.Errorf("%s is encrypted by %q", q.ID, got)
		}
	}
	for _, f := range x.all(t, "AWS::Lambda::Function") {
		found := false
		for _, s := range x.policy(t, x.refers(t, f.at("Role"))) {
			if strings.HasPrefix(s.actions[0], "kms:") {
				found = slices.Equal(s.resources, []string{customerKey}) && slices.Equal(s.actions, keyActions) &&
					text(s.condition) == "StringEquals=kms:ViaService=dynamodb.${AWS::Region}.amazonaws.com sqs.${AWS::Region}.amazonaws.com"
				if !found {
					t.Errorf("%s: %v", f.ID, s)
				}
			}
		}
		if !found {
			t.Errorf("%s cannot read what the key encrypts", f.ID)
		}
	}
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
	// Who called is known by what he was let in with.
	for name, want := range map[string]bool{"prod": false, "options": true} {
		format := text(stacks()[name].one(t, "ApiStage").at("AccessLogSettings", "Format"))
		if !strings.Contains(format, "$context.identity.userArn") || strings.Contains(format, `"subject":"$context.authorizer.claims.sub"`) != want {
			t.Errorf("%s: access log format %s", name, format)
		}
	}
}

// A page of another origin may send every header that the service reads, and read every
// one that it writes for its callers; the service lets in the origins of the gateway.
func TestPagesOfAnotherOriginMayCall(t *testing.T) {
	prod, dev := stacks()["prod"], stacks()["dev"]
	if cors := prod.one(t, "Api").at("CorsConfiguration"); cors != nil {
		t.Errorf("web pages of %v may call the API", cors)
	}
	if got, ok := prod.one(t, "ApiFunction").env()[topology.EnvWebOrigins]; ok {
		t.Errorf("pages of %s are let in", got)
	}
	cors := dev.one(t, "Api").at("CorsConfiguration")
	for property, want := range map[string][]string{
		"AllowOrigins":  {"https://ops.example"},
		"AllowMethods":  {"GET", "POST", "PUT", "DELETE"},
		"AllowHeaders":  {"authorization", "content-type", "idempotency-key", "x-correlation-id", "x-request-id", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"},
		"ExposeHeaders": {"allow", "location", "retry-after", "x-correlation-id", "x-request-id"},
	} {
		if got := strings.Fields(text(at(cors, property))); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", property, got, want)
		}
	}
	if got := dev.one(t, "ApiFunction").env()[topology.EnvWebOrigins]; got != "https://ops.example" {
		t.Errorf("the service lets in pages of %q", got)
	}
}
