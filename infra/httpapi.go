package infra

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// addHTTPAPI creates the HTTP interface and sets URL and APIID.
func (e *Engine) addHTTPAPI() {
	if e.props.Local {
		e.URL = e.addFunctionURL()
	} else {
		e.URL, e.APIID = e.addGateway()
	}
	address := e.props.TokenAddress
	if address == "" && e.props.OpenAnswers && !e.props.Local { // a function cannot have its own URL
		address = *e.URL
	}
	if address != "" {
		for _, role := range []string{topology.FunctionAPI, topology.FunctionLifecycle} { // these functions make links
			e.Functions[role].setEnv(topology.EnvTokenAddress, address)
		}
	}
}

// route is a route of the gateway. The function's own mux routes the requests, so that
// an unknown path gets the same error everywhere.
type route struct {
	id, key string
	public  bool // needs no authentication
	reads   bool // changes nothing
}

var (
	healthRoute = route{id: "Health", key: "GET /health", public: true}

	// A browser sends the preflight request without credentials. This route is more
	// specific than the default route, which would refuse it.
	preflightRoute = route{id: "Preflight", key: "OPTIONS /{proxy+}", public: true}

	// The static files of the pages.
	pageRoute       = route{id: "Page", key: "GET /", public: true}
	pageFilesRoute  = route{id: "PageFiles", key: "GET /monitor/{file+}", public: true}
	answerPageRoute = route{id: "AnswerPage", key: "GET /answer", public: true}

	answerRoutes = []route{{id: "Question", key: "GET /answers", public: true}, {id: "Answers", key: "POST /answers", public: true}}
	hookRoutes   = []route{{id: "Hooks", key: "POST /hooks/{tenant}/{name}", public: true}, {id: "Forms", key: "GET /forms/{tenant}/{name}", public: true}}

	// GET changes nothing. With a route of its own there can be callers that may read only.
	readRoute    = route{id: "Read", key: "GET /{proxy+}", reads: true}
	defaultRoute = route{id: "Default", key: "$default"}
)

func (e *Engine) routes() []route {
	all := []route{healthRoute, readRoute, defaultRoute}
	if e.props.Page {
		all = append(all, pageRoute)
	}
	if e.props.OpenAnswers {
		all = append(all, answerPageRoute)
		all = append(all, answerRoutes...)
	}
	if e.props.Page || e.props.OpenAnswers {
		all = append(all, pageFilesRoute)
	}
	if e.props.OpenTriggers {
		all = append(all, hookRoutes...)
	}
	if len(e.props.CORSOrigins) > 0 {
		all = append(all, preflightRoute)
	}
	return all
}

// accessLogFields are the fields of a line in the access log. They contain the route and the
// caller, but never a query or a body. caller is the IAM principal that signed; with tokens,
// subject is added.
var accessLogFields = map[string]string{
	"requestId": "$context.requestId", "at": "$context.requestTime", "ip": "$context.identity.sourceIp",
	"caller": "$context.identity.userArn", "method": "$context.httpMethod", "path": "$context.path",
	"route": "$context.routeKey", "status": "$context.status", "bytes": "$context.responseLength",
	"ms": "$context.responseLatency", "error": "$context.integrationErrorMessage",
}

// addGateway creates the HTTP API and returns its URL and its id.
func (e *Engine) addGateway() (url, id *string) {
	name := *awscdk.Stack_Of(e.Construct).StackName() + "-api" // need not be unique
	if n := e.physicalName("api"); n != nil {
		name = *n
	}
	function := e.Functions[topology.FunctionAPI]
	api := awsapigatewayv2.NewCfnApi(e.Construct, jsii.String("Api"), &awsapigatewayv2.CfnApiProps{
		Name:              &name,
		Description:       jsii.String("Lockstep: the HTTP interface"),
		ProtocolType:      jsii.String("HTTP"),
		CorsConfiguration: e.corsConfiguration(),
	})
	integration := awsapigatewayv2.NewCfnIntegration(e.Construct, jsii.String("ApiIntegration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId:                api.Ref(),
		IntegrationType:      jsii.String("AWS_PROXY"),
		IntegrationUri:       function.live.FunctionArn(),
		PayloadFormatVersion: jsii.String("2.0"),
	})
	authorization, authorizer, scopes := e.addAuthorizer(api)
	var throttled []awsapigatewayv2.CfnRoute
	for _, r := range e.routes() {
		props := &awsapigatewayv2.CfnRouteProps{
			ApiId:             api.Ref(),
			RouteKey:          jsii.String(r.key),
			AuthorizationType: jsii.String("NONE"),
			Target:            jsii.String("integrations/" + *integration.Ref()),
		}
		if !r.public {
			props.AuthorizationType, props.AuthorizerId, props.AuthorizationScopes = &authorization, authorizer, scopes
			if r.reads && scopes != nil {
				both := append(slices.Clone(*scopes), *jsii.Strings(e.props.JWTAuth.ReadScopes...)...)
				props.AuthorizationScopes = &both
			}
		}
		created := awsapigatewayv2.NewCfnRoute(e.Construct, jsii.String("ApiRoute"+r.id), props)
		if slices.Contains(answerRoutes, r) || slices.Contains(hookRoutes, r) {
			throttled = append(throttled, created)
		}
	}
	awslambda.NewCfnPermission(e.Construct, jsii.String("ApiPermission"), &awslambda.CfnPermissionProps{
		Action:       jsii.String("lambda:InvokeFunction"),
		FunctionName: function.live.FunctionArn(),
		Principal:    jsii.String("apigateway.amazonaws.com"),
		// Every stage, method and path of this API: AWS has no narrower ARN for the requests of a
		// catch-all route.
		SourceArn: awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.Ref(), ResourceName: jsii.String("*"),
		}),
	})
	stage := e.addStage(api, throttled)
	if e.props.Domain != nil {
		return e.addDomain(api, stage), api.Ref()
	}
	return api.AttrApiEndpoint(), api.Ref()
}

// addAuthorizer returns the authorization of the routes that are not public: a
// signature with IAM credentials, or a token of the issuer.
func (e *Engine) addAuthorizer(api awsapigatewayv2.CfnApi) (kind string, authorizer any, scopes *[]*string) {
	tokens := e.props.JWTAuth
	if tokens == nil {
		return "AWS_IAM", nil, nil
	}
	if len(tokens.Scopes) > 0 {
		scopes = jsii.Strings(tokens.Scopes...)
	}
	jwtAuthorizer := awsapigatewayv2.NewCfnAuthorizer(e.Construct, jsii.String("ApiAuthorizer"), &awsapigatewayv2.CfnAuthorizerProps{
		ApiId:          api.Ref(),
		Name:           jsii.String("tokens"),
		AuthorizerType: jsii.String("JWT"),
		IdentitySource: jsii.Strings("$request.header.Authorization"),
		JwtConfiguration: &awsapigatewayv2.CfnAuthorizer_JWTConfigurationProperty{
			Issuer: &tokens.Issuer, Audience: jsii.Strings(tokens.Audience...),
		},
	})
	return "JWT", jwtAuthorizer.Ref(), scopes
}

// addFunctionURL creates a function URL that anybody may call, for an emulator without
// HTTP APIs, and returns it. The function gets the same event as from an HTTP API.
func (e *Engine) addFunctionURL() *string {
	function := e.Functions[topology.FunctionAPI]
	url := awslambda.NewCfnUrl(e.Construct, jsii.String("Url"), &awslambda.CfnUrlProps{
		AuthType: jsii.String("NONE"), TargetFunctionArn: function.FunctionArn(),
	})
	awslambda.NewCfnPermission(e.Construct, jsii.String("UrlPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunctionUrl"), FunctionName: function.FunctionArn(),
		Principal: jsii.String("*"), FunctionUrlAuthType: jsii.String("NONE"),
	})
	return url.AttrFunctionUrl()
}

// addStage deploys the API without a path prefix, throttled, with an access log. Routes where
// tokens or trigger secrets could be guessed have a separate throttle, so that guessing does not
// throttle the other routes.
func (e *Engine) addStage(api awsapigatewayv2.CfnApi, guessed []awsapigatewayv2.CfnRoute) awsapigatewayv2.CfnStage {
	logs := awslogs.NewLogGroup(e.Construct, jsii.String("ApiAccessLogs"), &awslogs.LogGroupProps{
		LogGroupName: jsii.String(e.accessLogGroupName()), Retention: e.props.LogRetention, RemovalPolicy: logRemovalPolicy(e.props.keepsData()),
	})
	fields := maps.Clone(accessLogFields)
	if e.props.JWTAuth != nil {
		fields["subject"] = "$context.authorizer.claims.sub"
	}
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings always marshal
	}
	settings := map[string]any{}
	for _, r := range guessed {
		settings[*r.RouteKey()] = map[string]any{
			"ThrottlingRateLimit": max(1, e.props.RequestsPerSecond/10), "ThrottlingBurstLimit": max(1, e.props.Burst/10),
		}
	}
	var routeSettings any
	if len(settings) > 0 {
		routeSettings = settings
	}
	stage := awsapigatewayv2.NewCfnStage(e.Construct, jsii.String("ApiStage"), &awsapigatewayv2.CfnStageProps{
		ApiId:      api.Ref(),
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit:  jsii.Number(e.props.RequestsPerSecond),
			ThrottlingBurstLimit: jsii.Number(e.props.Burst),
		},
		RouteSettings: routeSettings,
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: logs.LogGroupArn(), Format: jsii.String(string(line)),
		},
	})
	for _, r := range guessed {
		stage.Node().AddDependency(r) // settings of a route that does not exist are refused
	}
	return stage
}

// corsConfiguration returns the CORS settings; nil refuses every other origin.
func (e *Engine) corsConfiguration() any {
	if len(e.props.CORSOrigins) == 0 {
		return nil
	}
	return &awsapigatewayv2.CfnApi_CorsProperty{
		AllowOrigins: jsii.Strings(e.props.CORSOrigins...),
		AllowMethods: jsii.Strings("GET", "POST", "PUT", "PATCH", "DELETE"),
		AllowHeaders: jsii.Strings("authorization", "content-type", "idempotency-key", "idempotency-life", "if-none-match", "x-correlation-id", "x-request-id",
			"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"),
		ExposeHeaders: jsii.Strings("allow", "etag", "location", "ratelimit-limit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset", "retry-after", "x-correlation-id", "x-request-id"),
		MaxAge:        jsii.Number(600),
	}
}

// accessLogGroupName returns the name of the access log's group. The account's resource policy for
// log delivery covers all groups with this prefix; the gateway would add any other group by name
// until the policy is full. The last part is the stack's own id, so that a group that has outlived
// a stack does not block the next one.
func (e *Engine) accessLogGroupName() string {
	stack := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), awscdk.Stack_Of(e.Construct).StackId(), nil))
	return "/aws/vendedlogs/lockstep/" + e.deploymentName() + "/api-access/" + *stack
}
