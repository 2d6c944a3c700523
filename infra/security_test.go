package infra

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// allowedWildcards are the actions on resources with a wildcard, with the reason.
var allowedWildcards = map[string]string{
	"sqs:SendMessage":               "to the queues of added pools, limited to this engine's prefix: their number has no limit, and that of a policy has one",
	"sqs:ReceiveMessage":            "the same, for those who poll over HTTP",
	"sqs:DeleteMessage":             "the same",
	"sqs:ChangeMessageVisibility":   "the same",
	"sqs:GetQueueAttributes":        "the same",
	"sqs:GetQueueUrl":               "a block may name any pool; the permission is limited to this engine's prefix and reveals only whether a queue exists",
	"secretsmanager:GetSecretValue": "a definition may name any secret; limited to the prefix of the option Secrets, and to workers; the API has those of triggers, with the option OpenTriggers",
	"secretsmanager:DescribeSecret": "shows which of these secrets there are, without values",
	"xray:PutTraceSegments":         "X-Ray has no resources; only with the option Tracing",
	"xray:PutTelemetryRecords":      "X-Ray has no resources; only with the option Tracing",
}

func TestRoles_HaveNoUnexpectedWildcards(t *testing.T) {
	forStacks(t, allStacks, func(t *testing.T, x *template) {
		for _, role := range x.byType(t, "AWS::IAM::Role") {
			if role.property("ManagedPolicyArns") != nil {
				t.Errorf("%s has managed policies", role.ID)
			}
			if got := render(role.property("AssumeRolePolicyDocument", "Statement")); !strings.Contains(got, "Principal=Service=lambda.amazonaws.com") || strings.Contains(got, "AWS=") {
				t.Errorf("%s may be assumed by %s", role.ID, got)
			}
			policy := x.statementsOf(t, role)
			if len(policy) == 0 {
				t.Errorf("%s allows nothing", role.ID)
			}
			for _, s := range policy {
				for _, a := range s.actions {
					if strings.Contains(a, "*") {
						t.Errorf("%s: action %s", role.ID, a)
					}
					for _, r := range s.resources {
						if strings.Contains(r, "*") && allowedWildcards[a] == "" {
							t.Errorf("%s: %s on %s", role.ID, a, r)
						}
						if !strings.Contains(r, "*") && r != customerKey && r != tokenKeysSecret && r != sealedKey && r != eventBusARN && r != topicARN {
							x.referenced(t, r) // fails unless the resource belongs to the stack
						}
					}
				}
			}
		}
	})
}

func TestRoles_PoolLookupLimitedToPrefix(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			prefix := f.environment()[topology.EnvQueueJobsPrefix]
			for _, s := range x.statementsOf(t, x.referenced(t, f.property("Role"))) {
				if slices.Contains(s.actions, "sqs:GetQueueUrl") && (prefix == "" || !strings.HasSuffix(s.resources[0], ":"+prefix+"*")) {
					t.Errorf("%s looks up %q under the prefix %q", f.ID, s.resources, prefix)
				}
			}
		}
	})
}

func TestRoles_OnlyXRayUsesStarResource(t *testing.T) {
	for name, want := range map[string]int{"prod": 0, "dev": len(topology.Functions)} {
		x, found := stacks()[name], 0
		for _, role := range x.byType(t, "AWS::IAM::Role") {
			for _, s := range x.statementsOf(t, role) {
				if slices.Contains(s.resources, "*") {
					found++
				}
			}
		}
		if found != want {
			t.Errorf("%s: %d statements on *, want %d", name, found, want)
		}
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			if traced := render(f.property("TracingConfig", "Mode")) == "Active"; traced != (want > 0) {
				t.Errorf("%s in %s: traced %v", f.ID, name, traced)
			}
		}
	}
}

// actionsByResource returns the actions of a service that a function's role allows, by
// resource.
func actionsByResource(t *testing.T, x *template, function, service string) map[string][]string {
	t.Helper()
	actions := map[string][]string{}
	role := x.referenced(t, x.byID(t, pascalCase(function)+"Function").property("Role"))
	for _, s := range x.statementsOf(t, role) {
		for _, a := range s.actions {
			if verb, ok := strings.CutPrefix(a, service+":"); ok {
				for _, r := range s.resources {
					r = strings.TrimPrefix(stripHashes(r), "${Engine")
					actions[r] = append(actions[r], verb)
				}
			}
		}
	}
	for _, verbs := range actions {
		slices.Sort(verbs)
	}
	return actions
}

func TestRoles_TableActions(t *testing.T) {
	all := "BatchGetItem GetItem PutItem Query UpdateItem"
	want := map[string]map[string]string{
		topology.FunctionAPI: {
			"TableExecutions.Arn}": all, "TableExecutions.Arn}/index/by-status": "Query",
			// It lists what the next sweep would do.
			"TableExecutions.Arn}/index/due": "Query", "TableRegistry.Arn}/index/scheduled": "Query", "TableJobs.Arn}/index/workers-due": "Query",
			"TableJobs.Arn}": "GetItem PutItem Query UpdateItem", "TableLocks.Arn}": "BatchGetItem UpdateItem", "TableRegistry.Arn}": all,
			"TableData.Arn}": "GetItem PutItem Query",
		},
		topology.FunctionLifecycle: {
			"TableExecutions.Arn}": all,
			"TableJobs.Arn}":       "GetItem PutItem Query UpdateItem", "TableLocks.Arn}": "BatchGetItem UpdateItem", "TableRegistry.Arn}": all,
			"TableData.Arn}": "GetItem PutItem",
		},
		topology.FunctionObserver: {"TableExecutions.Arn}": all, "TableRegistry.Arn}": "GetItem PutItem Query UpdateItem", "TableJobs.Arn}": "GetItem Query", "TableData.Arn}": "PutItem"},
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
			got := actionsByResource(t, stacks()[stack], function, "dynamodb")
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

func TestRoles_QueueActions(t *testing.T) {
	consume := "DeleteMessage GetQueueAttributes ReceiveMessage"
	want := map[string]map[string]string{
		topology.FunctionAPI: {
			"LifecycleQueue.Arn}": "GetQueueAttributes SendMessage",
			// It lists and redrives dead letters.
			"LifecycleDlq.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage", "JobsDefaultDlq.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage",
			"JobsDefaultQueue.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage SendMessage",
			"EventsQueue.Arn}":      "SendMessage", "HooksOutQueue.Arn}": "SendMessage",
			"EventsDlq.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage", "HooksOutDlq.Arn}": "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage",
		},
		topology.FunctionLifecycle: {"LifecycleQueue.Arn}": consume + " SendMessage", "JobsDefaultQueue.Arn}": "SendMessage", "EventsQueue.Arn}": "SendMessage"},
		topology.FunctionObserver: {
			"LifecycleQueue.Arn}": "SendMessage", "EventsQueue.Arn}": "ChangeMessageVisibility " + consume, "HooksOutQueue.Arn}": "ChangeMessageVisibility " + consume + " SendMessage",
		},
		topology.FunctionSweeper: {"LifecycleQueue.Arn}": "GetQueueAttributes SendMessage", "SchedulesDlq.Arn}": "SendMessage"},
		topology.FunctionWorker:  {"LifecycleQueue.Arn}": "SendMessage", "JobsDefaultQueue.Arn}": consume + " SendMessage"},
	}
	for function, queues := range want {
		got := actionsByResource(t, stacks()["prod"], function, "sqs")
		for name, verbs := range got {
			if slices.Equal(verbs, []string{"GetQueueUrl"}) && resolvesPools(function) {
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

// The receivers of events that the props of a stack name.
const (
	eventBusARN = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
	topicARN    = "arn:aws:sns:eu-west-1:123456789012:ops"
)

// Only the observer may send events, and only to the buses and topics that the props name.
func TestRoles_ReceiversOfEvents(t *testing.T) {
	for _, name := range engineStacks {
		for _, function := range topology.Functions {
			var want []string
			if name == "dev" && function == topology.FunctionObserver {
				want = []string{"PutEvents on arn:aws:events:eu-west-1:1234:event-bus/orders", "Publish on arn:aws:sns:eu-west-1:1234:ops"}
			}
			var got []string
			for _, service := range []string{"events", "sns"} {
				for resource, actions := range actionsByResource(t, stacks()[name], function, service) {
					got = append(got, strings.Join(actions, " ")+" on "+resource)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", name, function, got, want)
			}
		}
	}
}

// The keys of resume tokens are in a secret. Only the functions that make or check tokens may read
// it and know where it is, and they may do nothing else with it. No template contains a key.
func TestRoles_TokenKeys(t *testing.T) {
	for _, name := range engineStacks {
		for _, function := range topology.Functions {
			got, want := actionsByResource(t, stacks()[name], function, "secretsmanager"), 0
			for arn := range got {
				if strings.HasSuffix(arn, "*") {
					delete(got, arn) // see TestRoles_Secrets
				}
			}
			if name == "options" && usesTokenKeys(function) {
				want = 1
			}
			if len(got) != want || want == 1 && !slices.Equal(got[stripHashes(tokenKeysSecret)], []string{"GetSecretValue"}) {
				t.Errorf("%s, %s: %v", name, function, got)
			}
			if name == "pair" {
				continue // has two of each
			}
			if env := stacks()[name].byID(t, pascalCase(function)+"Function").environment()[topology.EnvTokenKeys]; (env != "") != (want == 1) || want == 1 && env != tokenKeysSecret {
				t.Errorf("%s, %s: %s=%q", name, function, topology.EnvTokenKeys, env)
			}
		}
	}
}

// Workers read the secrets that definitions refer to, only under the prefix of the option. The API
// sees which secrets exist. The other functions do not know where they are.
func TestRoles_Secrets(t *testing.T) {
	hooks := 0
	defer func() {
		if hooks != 1 { // with OpenTriggers
			t.Errorf("%d roles read the secrets of triggers", hooks)
		}
	}()
	for _, name := range engineStacks {
		for _, function := range topology.Functions {
			want := map[string]string{topology.FunctionWorker: "GetSecretValue", topology.FunctionAPI: "DescribeSecret"}[function]
			if name != "options" {
				want = ""
			}
			got := actionsByResource(t, stacks()[name], function, "secretsmanager")
			delete(got, stripHashes(tokenKeysSecret))
			for arn, actions := range got { // the API reads those that prove calls of triggers
				if strings.HasSuffix(arn, ":secret:acme/secrets/*/hooks/*") && function == topology.FunctionAPI && slices.Equal(actions, []string{"GetSecretValue"}) {
					delete(got, arn)
					hooks++
				}
			}
			if want == "" && len(got) > 0 || want != "" && len(got) != 1 {
				t.Errorf("%s, %s: %v", name, function, got)
			}
			for arn, actions := range got {
				if !strings.HasSuffix(arn, ":secret:acme/secrets/*") || !slices.Equal(actions, []string{want}) {
					t.Errorf("%s, %s: %v on %s", name, function, actions, arn)
				}
			}
			if name == "pair" {
				continue // has two of each
			}
			if env := stacks()[name].byID(t, pascalCase(function)+"Function").environment()[topology.EnvSecretsFrom]; (env != "") != (want != "") {
				t.Errorf("%s, %s: %s=%q", name, function, topology.EnvSecretsFrom, env)
			}
		}
	}
}

// sealedKey is the key of sealed parameters of the stack with options.
const sealedKey = "arn:aws:kms:eu-west-1:123456789012:key/0f4c2a1e-0000-4000-8000-5ea1ed000001"

// Only where sealed parameters are on may the API seal and open them, and workers open them; nobody
// else uses their key, or knows which it is.
func TestRoles_SealedKey(t *testing.T) {
	for _, name := range engineStacks {
		for _, function := range topology.Functions {
			want := map[string][]string{topology.FunctionWorker: {"Decrypt"}, topology.FunctionAPI: {"Decrypt", "GenerateDataKey"}}[function]
			if name != "options" {
				want = nil
			}
			got := actionsByResource(t, stacks()[name], function, "kms")[stripHashes(sealedKey)]
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", name, function, got, want)
			}
			if name == "pair" {
				continue // has two of each
			}
			if env := stacks()[name].byID(t, pascalCase(function)+"Function").environment()[topology.EnvSealedKey]; (env == sealedKey) != (want != nil) {
				t.Errorf("%s, %s: %s=%q", name, function, topology.EnvSealedKey, env)
			}
		}
	}
}

// Whoever guesses at tokens is throttled before the others are.
func TestHTTPAPI_AnswersAreThrottled(t *testing.T) {
	stage := stacks()["options"].byID(t, "ApiStage")
	if got := render(stage.property("RouteSettings")); got != "GET /answers=ThrottlingBurstLimit=20,ThrottlingRateLimit=10,GET /forms/{tenant}/{name}=ThrottlingBurstLimit=20,ThrottlingRateLimit=10,POST /answers=ThrottlingBurstLimit=20,ThrottlingRateLimit=10,POST /hooks/{tenant}/{name}=ThrottlingBurstLimit=20,ThrottlingRateLimit=10" {
		t.Error(got)
	}
	if stacks()["prod"].byID(t, "ApiStage").property("RouteSettings") != nil {
		t.Error("settings for routes that do not exist")
	}
}

func TestQueues_DenyPlainHTTP(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		safe := map[string]bool{}
		for _, p := range x.byType(t, "AWS::SQS::QueuePolicy") {
			queue := x.referenced(t, p.property("Queues"))
			for _, s := range statements(p.property("PolicyDocument")) {
				switch {
				case s.effect == "Deny" && s.principal == "AWS=*" && slices.Equal(s.actions, []string{"sqs:*"}) &&
					render(s.condition) == "Bool=aws:SecureTransport=false" && x.referenced(t, s.resources[0]) == queue:
					safe[queue.ID] = true
				case s.effect == "Allow" && (s.condition == nil || strings.Contains(s.principal, "*")):
					t.Errorf("%s allows %s", queue.ID, s.principal)
				}
			}
		}
		for _, q := range x.byType(t, "AWS::SQS::Queue") {
			if !safe[q.ID] {
				t.Errorf("%s can be used without TLS", q.ID)
			}
		}
	})
}

// The policy belongs to the table, so * is the table. It denies and grants nothing.
func TestTables_DenyPlainHTTP(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		for _, table := range x.byType(t, "AWS::DynamoDB::Table") {
			all := statements(table.property("ResourcePolicy", "PolicyDocument"))
			if len(all) != 1 {
				t.Fatalf("%s has a policy of %d statements", table.ID, len(all))
			}
			s := all[0]
			if s.effect != "Deny" || s.principal != "AWS=*" || !slices.Equal(s.actions, []string{"dynamodb:*"}) ||
				!slices.Equal(s.resources, []string{"*"}) || render(s.condition) != "Bool=aws:SecureTransport=false" {
				t.Errorf("%s can be used without TLS: %+v", table.ID, s)
			}
		}
	})
	// Emulators are called without TLS.
	for _, table := range stacks()["local"].byType(t, "AWS::DynamoDB::Table") {
		if table.property("ResourcePolicy") != nil {
			t.Errorf("%s refuses requests without TLS", table.ID)
		}
	}
}

func TestHTTPAPI_RoutesRequireAuthorization(t *testing.T) {
	authorization := map[string]string{"dev": "AWS_IAM", "host": "AWS_IAM", "options": "JWT", "pair": "AWS_IAM", "prod": "AWS_IAM"}
	open := map[string][]string{
		"options": {"GET /health", "GET /", "GET /monitor/{file+}", "GET /answer", "GET /answers", "POST /answers", "POST /hooks/{tenant}/{name}", "GET /forms/{tenant}/{name}"},
		"dev":     {"GET /health", "OPTIONS /{proxy+}"}, // with CORS, browsers send preflight requests without credentials
	}
	for _, name := range engineStacks {
		x, found := stacks()[name], map[string]bool{}
		allowed := open[name]
		if allowed == nil {
			allowed = []string{"GET /health"}
		}
		for _, r := range x.byType(t, "AWS::ApiGatewayV2::Route") {
			want, key := authorization[name], render(r.property("RouteKey"))
			if slices.Contains(allowed, key) {
				want, found[key] = "NONE", true
			}
			if got := render(r.property("AuthorizationType")); got != want {
				t.Errorf("%s: %s for %s, want %s", r.ID, got, key, want)
			}
			if target := render(r.property("Target")); x.referenced(t, target).Type != "AWS::ApiGatewayV2::Integration" {
				t.Errorf("%s has the target %s", r.ID, target)
			}
		}
		if len(found) != len(allowed) {
			t.Errorf("%s: open routes %v, want %v", name, found, allowed)
		}
		for id, r := range x.Resources {
			if r.Type == "AWS::Lambda::Url" {
				t.Errorf("%s bypasses the API", id)
			}
		}
	}
}

// The page of answers needs no credentials if answers need none, and then loads all its files.
func TestHTTPAPI_AnswerPageIsOpenWithAnswers(t *testing.T) {
	for _, c := range []struct {
		props EngineProps
		want  string
	}{
		{EngineProps{}, "GET /health"},
		{EngineProps{Page: true}, "GET /health GET / GET /monitor/{file+}"},
		{EngineProps{OpenAnswers: true}, "GET /health GET /answer GET /answers POST /answers GET /monitor/{file+}"},
		{EngineProps{OpenAnswers: true, Page: true}, "GET /health GET / GET /answer GET /answers POST /answers GET /monitor/{file+}"},
	} {
		var open []string
		for _, r := range (&Engine{props: c.props}).routes() {
			if r.public {
				open = append(open, r.key)
			}
		}
		if got := strings.Join(open, " "); got != c.want {
			t.Errorf("%s is open, want %s", got, c.want)
		}
	}
}

// Links with tokens begin with the address of the API if answers are open, and with another address
// if the options name it.
func TestHTTPAPI_LinksHaveAnAddress(t *testing.T) {
	x := stacks()["options"]
	for _, name := range []string{"ApiFunction", "LifecycleFunction"} {
		if got := render(x.byID(t, name).environment()[topology.EnvTokenAddress]); !strings.Contains(got, "ApiEndpoint") {
			t.Errorf("%s: %q", name, got)
		}
		if got := stacks()["prod"].byID(t, name).environment()[topology.EnvTokenAddress]; got != "" {
			t.Errorf("%s without open answers: %q", name, got)
		}
	}
	if got := x.byID(t, "WorkerFunction").environment()[topology.EnvTokenAddress]; got != "" {
		t.Errorf("a worker has %q", got)
	}
}

func TestHTTPAPI_JWTAuthorizer(t *testing.T) {
	x := stacks()["options"]
	authorizer := x.byID(t, "ApiAuthorizer")
	for path, want := range map[string]string{
		"AuthorizerType": "JWT", "IdentitySource": "$request.header.Authorization",
		"JwtConfiguration": "Audience=lockstep,Issuer=https://id.example/",
	} {
		if got := render(authorizer.property(path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	route := x.byID(t, "ApiRouteDefault")
	if x.referenced(t, route.property("AuthorizerId")) != authorizer || render(route.property("AuthorizationScopes")) != "runs" {
		t.Errorf("the route has authorizer %s and scopes %s", render(route.property("AuthorizerId")), render(route.property("AuthorizationScopes")))
	}
	if got := x.byID(t, "ApiFunction").environment()[topology.EnvRolesClaim]; got != "groups" {
		t.Errorf("the roles claim is %q", got)
	}
	if got := x.byID(t, "ApiFunction").environment()[topology.EnvTenantClaim]; got != "team" {
		t.Errorf("the tenant claim is %q", got)
	}
}

// The customer's key encrypts tables and queues, and roles may use it only through them.
func TestCustomerKey_EncryptsTablesAndQueues(t *testing.T) {
	x := stacks()["options"]
	for _, table := range x.byType(t, "AWS::DynamoDB::Table") {
		if got := render(table.property("SSESpecification")); got != "KMSMasterKeyId="+customerKey+",SSEEnabled=true,SSEType=KMS" {
			t.Errorf("%s is encrypted with %s", table.ID, got)
		}
	}
	for _, q := range x.byType(t, "AWS::SQS::Queue") {
		if got := render(q.property("KmsMasterKeyId")); got != customerKey && !q.hasID("SchedulesDlq") {
			t.Errorf("%s is encrypted with %q", q.ID, got)
		}
	}
	for _, f := range x.byType(t, "AWS::Lambda::Function") {
		found := false
		for _, s := range x.statementsOf(t, x.referenced(t, f.property("Role"))) {
			if strings.HasPrefix(s.actions[0], "kms:") && !slices.Equal(s.resources, []string{sealedKey}) { // see TestRoles_SealedKey
				found = slices.Equal(s.resources, []string{customerKey}) && slices.Equal(s.actions, keyActions) &&
					render(s.condition) == "StringEquals=kms:ViaService=dynamodb.${AWS::Region}.amazonaws.com sqs.${AWS::Region}.amazonaws.com"
				if !found {
					t.Errorf("%s: %v", f.ID, s)
				}
			}
		}
		if !found {
			t.Errorf("%s may not use the key", f.ID)
		}
	}
}

func TestFunctions_InvokedByAPIAndRuleOnly(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		for _, p := range x.byType(t, "AWS::Lambda::Permission") {
			source := x.referenced(t, stripPseudoParameters(render(p.property("SourceArn"))))
			function := x.invoked(t, p.property("FunctionName"))
			got := render(p.property("Principal")) + " " + source.Type
			switch {
			case got == "apigateway.amazonaws.com AWS::ApiGatewayV2::Api" && function.hasID("ApiFunction"):
			case got == "events.amazonaws.com AWS::Events::Rule" && function.hasID("SweeperFunction"):
			default:
				t.Errorf("%s lets %s invoke %s", p.ID, got, function.ID)
			}
		}
	})
}

// stripPseudoParameters removes pseudo parameters from an ARN.
func stripPseudoParameters(arn string) string {
	for _, pseudo := range []string{"${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}"} {
		arn = strings.ReplaceAll(arn, pseudo, "")
	}
	return arn
}

func TestHTTPAPI_IsThrottledAndLogged(t *testing.T) {
	for name, want := range map[string]struct{ rate, burst string }{"prod": {"100", "200"}, "dev": {"3", "4"}} {
		x := stacks()[name]
		stage := x.byID(t, "ApiStage")
		settings := stage.property("DefaultRouteSettings")
		if render(propertyOf(settings, "ThrottlingRateLimit")) != want.rate || render(propertyOf(settings, "ThrottlingBurstLimit")) != want.burst {
			t.Errorf("%s: %v", name, settings)
		}
		if logs := x.referenced(t, stage.property("AccessLogSettings", "DestinationArn")); logs.property("RetentionInDays") == nil {
			t.Errorf("%s: the access log %s has no retention", name, logs.ID)
		}
		format := render(stage.property("AccessLogSettings", "Format"))
		if !strings.Contains(format, "$context.requestId") || strings.Contains(format, "query") {
			t.Errorf("%s: access log format %s", name, format)
		}
	}
	// The access log identifies the caller.
	for name, want := range map[string]bool{"prod": false, "options": true} {
		format := render(stacks()[name].byID(t, "ApiStage").property("AccessLogSettings", "Format"))
		if !strings.Contains(format, "$context.identity.userArn") || strings.Contains(format, `"subject":"$context.authorizer.claims.sub"`) != want {
			t.Errorf("%s: access log format %s", name, format)
		}
	}
}

// A page of another origin may send every header that the service reads, and read every
// header that it writes for callers. The service accepts the same origins as the gateway.
func TestHTTPAPI_AllowsCORSOrigins(t *testing.T) {
	prod, dev := stacks()["prod"], stacks()["dev"]
	if cors := prod.byID(t, "Api").property("CorsConfiguration"); cors != nil {
		t.Errorf("pages of %v may call the API", cors)
	}
	if got, ok := prod.byID(t, "ApiFunction").environment()[topology.EnvWebOrigins]; ok {
		t.Errorf("the service accepts pages of %s", got)
	}
	cors := dev.byID(t, "Api").property("CorsConfiguration")
	for property, want := range map[string][]string{
		"AllowOrigins":  {"https://ops.example"},
		"AllowMethods":  {"GET", "POST", "PUT", "PATCH", "DELETE"},
		"AllowHeaders":  {"authorization", "content-type", "idempotency-key", "idempotency-life", "if-none-match", "x-correlation-id", "x-request-id", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"},
		"ExposeHeaders": {"allow", "etag", "location", "ratelimit-limit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset", "retry-after", "x-correlation-id", "x-request-id"},
	} {
		if got := strings.Fields(render(propertyOf(cors, property))); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", property, got, want)
		}
	}
	if got := dev.byID(t, "ApiFunction").environment()[topology.EnvWebOrigins]; got != "https://ops.example" {
		t.Errorf("the service accepts pages of %q", got)
	}
}
