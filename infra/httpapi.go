package infra

import (
	"encoding/json"
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// httpAPI is what the HTTP interface stands on.
type httpAPI struct {
	scope    constructs.Construct
	function awslambda.IFunction
	name     string // of the addAPI; it need not be unique

	logGroupName  string // name of the access log's group
	retention     awslogs.RetentionDays
	removalPolicy awscdk.RemovalPolicy

	// issuer, Audience and Scopes are those of the tokens that let callers in. Without
	// an issuer they sign with IAM credentials.
	issuer           string
	audience, scopes []string

	publicPage            bool     // whether the page's static files are for everybody
	rateLimit, burstLimit int      // requests a second
	corsOrigins           []string // of web pages that may call
}

// route is one of the gateway's; the function's own mux does the routing proper,
// so that an unknown path gets the same problem everywhere.
type route struct {
	id, key string
	public  bool // to callers whom nobody has authenticated
}

// healthRoute tells anybody that the interface answers, pageRoutes hand out the
// page's static files, and the rest is for callers who are known.
var (
	healthRoute = route{"Health", "GET /health", true}
	// A browser asks without credentials whether a page may call: the route for the rest
	// would refuse to answer. One that is for OPTIONS comes before it.
	preflightRoute = route{"Preflight", "OPTIONS /{proxy+}", true}

	pageRoutes   = []route{{"Page", "GET /", true}, {"PageFiles", "GET /monitor/{file+}", true}}
	defaultRoute = route{"Default", "$default", false}
)

func (f httpAPI) routes() []route {
	all := []route{healthRoute, defaultRoute}
	if f.publicPage {
		all = append(all, pageRoutes...)
	}
	if len(f.corsOrigins) > 0 {
		all = append(all, preflightRoute)
	}
	return all
}

// accessLogFields is one request in the access log. It names the route and who called,
// never a query or a body: the caller is who has signed, the subject whose token it was.
var accessLogFields = map[string]string{
	"requestId": "$context.requestId", "at": "$context.requestTime", "ip": "$context.identity.sourceIp",
	"caller": "$context.identity.userArn", "method": "$context.httpMethod", "path": "$context.path",
	"route": "$context.routeKey", "status": "$context.status", "bytes": "$context.responseLength",
	"ms": "$context.responseLatency", "error": "$context.integrationErrorMessage",
}

// addAPI makes the HTTP addAPI and returns its addFunctionURL and its id.
func (f httpAPI) addAPI() (url, id *string) {
	api := awsapigatewayv2.NewCfnApi(f.scope, jsii.String("Api"), &awsapigatewayv2.CfnApiProps{
		Name:              &f.name,
		Description:       jsii.String("Lockstep: the HTTP interface"),
		ProtocolType:      jsii.String("HTTP"),
		CorsConfiguration: f.corsConfiguration(),
	})
	integration := awsapigatewayv2.NewCfnIntegration(f.scope, jsii.String("ApiIntegration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId:                api.Ref(),
		IntegrationType:      jsii.String("AWS_PROXY"),
		IntegrationUri:       f.function.FunctionArn(),
		PayloadFormatVersion: jsii.String("2.0"),
	})
	authorization, authorizer, scopes := f.addAuthorizer(api)
	for _, r := range f.routes() {
		props := &awsapigatewayv2.CfnRouteProps{
			ApiId:             api.Ref(),
			RouteKey:          jsii.String(r.key),
			AuthorizationType: jsii.String("NONE"),
			Target:            jsii.String("integrations/" + *integration.Ref()),
		}
		if !r.public {
			props.AuthorizationType, props.AuthorizerId, props.AuthorizationScopes = &authorization, authorizer, scopes
		}
		awsapigatewayv2.NewCfnRoute(f.scope, jsii.String("ApiRoute"+r.id), props)
	}
	awslambda.NewCfnPermission(f.scope, jsii.String("ApiPermission"), &awslambda.CfnPermissionProps{
		Action:       jsii.String("lambda:InvokeFunction"),
		FunctionName: f.function.FunctionArn(),
		Principal:    jsii.String("apigateway.amazonaws.com"),
		// Stage, method and path of this one addAPI: AWS has no narrower name for
		// requests that a catch-all route serves.
		SourceArn: awscdk.Stack_Of(f.scope).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.Ref(), ResourceName: jsii.String("*"),
		}),
	})
	f.addStage(api)
	return api.AttrApiEndpoint(), api.Ref()
}

// addAuthorizer is who is let through a route that is not open: whoever signs with
// IAM credentials that allow it, or whoever has a token of the issuer.
func (f httpAPI) addAuthorizer(api awsapigatewayv2.CfnApi) (kind string, authorizer any, scopes *[]*string) {
	if f.issuer == "" {
		return "AWS_IAM", nil, nil
	}
	if len(f.scopes) > 0 {
		scopes = jsii.Strings(f.scopes...)
	}
	made := awsapigatewayv2.NewCfnAuthorizer(f.scope, jsii.String("ApiAuthorizer"), &awsapigatewayv2.CfnAuthorizerProps{
		ApiId:          api.Ref(),
		Name:           jsii.String("tokens"),
		AuthorizerType: jsii.String("JWT"),
		IdentitySource: jsii.Strings("$request.header.Authorization"),
		JwtConfiguration: &awsapigatewayv2.CfnAuthorizer_JWTConfigurationProperty{
			Issuer: &f.issuer, Audience: jsii.Strings(f.audience...),
		},
	})
	return "JWT", made.Ref(), scopes
}

// addFunctionURL makes a function addFunctionURL that anybody may call, in place of the HTTP addAPI, and
// returns it. It hands the function the same event.
func (f httpAPI) addFunctionURL() *string {
	url := awslambda.NewCfnUrl(f.scope, jsii.String("Url"), &awslambda.CfnUrlProps{
		AuthType: jsii.String("NONE"), TargetFunctionArn: f.function.FunctionArn(),
	})
	awslambda.NewCfnPermission(f.scope, jsii.String("UrlPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunctionUrl"), FunctionName: f.function.FunctionArn(),
		Principal: jsii.String("*"), FunctionUrlAuthType: jsii.String("NONE"),
	})
	return url.AttrFunctionUrl()
}

// addStage deploys the addAPI under no path of its own, throttled, with an access log.
func (f httpAPI) addStage(api awsapigatewayv2.CfnApi) {
	logs := awslogs.NewLogGroup(f.scope, jsii.String("ApiAccessLogs"), &awslogs.LogGroupProps{
		LogGroupName: &f.logGroupName, Retention: f.retention, RemovalPolicy: f.removalPolicy,
	})
	fields := maps.Clone(accessLogFields)
	if f.issuer != "" {
		fields["subject"] = "$context.authorizer.claims.sub"
	}
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings always marshal
	}
	awsapigatewayv2.NewCfnStage(f.scope, jsii.String("ApiStage"), &awsapigatewayv2.CfnStageProps{
		ApiId:      api.Ref(),
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit:  jsii.Number(f.rateLimit),
			ThrottlingBurstLimit: jsii.Number(f.burstLimit),
		},
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: logs.LogGroupArn(), Format: jsii.String(string(line)),
		},
	})
}

// corsConfiguration is nil, which refuses other origins, unless some are named.
func (f httpAPI) corsConfiguration() any {
	if len(f.corsOrigins) == 0 {
		return nil
	}
	return &awsapigatewayv2.CfnApi_CorsProperty{
		AllowOrigins: jsii.Strings(f.corsOrigins...),
		AllowMethods: jsii.Strings("GET", "POST", "PUT", "DELETE"),
		AllowHeaders: jsii.Strings("authorization", "content-type", "idempotency-key", "x-correlation-id", "x-request-id",
			"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"),
		ExposeHeaders: jsii.Strings("allow", "location", "retry-after", "x-correlation-id", "x-request-id"),
		MaxAge:        jsii.Number(600),
	}
}
