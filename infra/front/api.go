package front

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

// Front is what the HTTP interface stands on.
type Front struct {
	Scope    constructs.Construct
	Function awslambda.IFunction
	Name     string // of the API; it need not be unique

	Logs      string // name of the access log's group
	Retention awslogs.RetentionDays
	Removal   awscdk.RemovalPolicy

	// Issuer, Audience and Scopes are those of the tokens that let callers in. Without
	// an issuer they sign with IAM credentials.
	Issuer           string
	Audience, Scopes []string

	Page        bool     // whether the page's static files are for everybody
	Rate, Burst int      // requests a second
	Origins     []string // of web pages that may call
}

// route is one of the gateway's; the function's own mux does the routing proper,
// so that an unknown path gets the same problem everywhere.
type route struct {
	id, key string
	open    bool // to callers whom nobody has authenticated
}

// healthRoute tells anybody that the interface answers, pageRoutes hand out the
// page's static files, and the rest is for callers who are known.
var (
	healthRoute = route{"Health", "GET /health", true}
	// A browser asks without credentials whether a page may call: the route for the rest
	// would refuse to answer. One that is for OPTIONS comes before it.
	preflightRoute = route{"Preflight", "OPTIONS /{proxy+}", true}

	pageRoutes = []route{{"Page", "GET /", true}, {"PageFiles", "GET /monitor/{file+}", true}}
	restRoute  = route{"Default", "$default", false}
)

func (f Front) routes() []route {
	all := []route{healthRoute, restRoute}
	if f.Page {
		all = append(all, pageRoutes...)
	}
	if len(f.Origins) > 0 {
		all = append(all, preflightRoute)
	}
	return all
}

// accessLine is one request in the access log. It names the route and who called,
// never a query or a body: the caller is who has signed, the subject whose token it was.
var accessLine = map[string]string{
	"requestId": "$context.requestId", "at": "$context.requestTime", "ip": "$context.identity.sourceIp",
	"caller": "$context.identity.userArn", "method": "$context.httpMethod", "path": "$context.path",
	"route": "$context.routeKey", "status": "$context.status", "bytes": "$context.responseLength",
	"ms": "$context.responseLatency", "error": "$context.integrationErrorMessage",
}

// API makes the HTTP API and returns its URL and its id.
func (f Front) API() (url, id *string) {
	api := awsapigatewayv2.NewCfnApi(f.Scope, jsii.String("Api"), &awsapigatewayv2.CfnApiProps{
		Name:              &f.Name,
		Description:       jsii.String("Lockstep: the HTTP interface"),
		ProtocolType:      jsii.String("HTTP"),
		CorsConfiguration: f.cors(),
	})
	integration := awsapigatewayv2.NewCfnIntegration(f.Scope, jsii.String("ApiIntegration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId:                api.Ref(),
		IntegrationType:      jsii.String("AWS_PROXY"),
		IntegrationUri:       f.Function.FunctionArn(),
		PayloadFormatVersion: jsii.String("2.0"),
	})
	authorization, authorizer, scopes := f.authorization(api)
	for _, r := range f.routes() {
		props := &awsapigatewayv2.CfnRouteProps{
			ApiId:             api.Ref(),
			RouteKey:          jsii.String(r.key),
			AuthorizationType: jsii.String("NONE"),
			Target:            jsii.String("integrations/" + *integration.Ref()),
		}
		if !r.open {
			props.AuthorizationType, props.AuthorizerId, props.AuthorizationScopes = &authorization, authorizer, scopes
		}
		awsapigatewayv2.NewCfnRoute(f.Scope, jsii.String("ApiRoute"+r.id), props)
	}
	awslambda.NewCfnPermission(f.Scope, jsii.String("ApiPermission"), &awslambda.CfnPermissionProps{
		Action:       jsii.String("lambda:InvokeFunction"),
		FunctionName: f.Function.FunctionArn(),
		Principal:    jsii.String("apigateway.amazonaws.com"),
		// Stage, method and path of this one API: AWS has no narrower name for
		// requests that a catch-all route serves.
		SourceArn: awscdk.Stack_Of(f.Scope).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.Ref(), ResourceName: jsii.String("*"),
		}),
	})
	f.addStage(api)
	return api.AttrApiEndpoint(), api.Ref()
}

// authorization is who is let through a route that is not open: whoever signs with
// IAM credentials that allow it, or whoever has a token of the issuer.
func (f Front) authorization(api awsapigatewayv2.CfnApi) (kind string, authorizer any, scopes *[]*string) {
	if f.Issuer == "" {
		return "AWS_IAM", nil, nil
	}
	if len(f.Scopes) > 0 {
		scopes = jsii.Strings(f.Scopes...)
	}
	made := awsapigatewayv2.NewCfnAuthorizer(f.Scope, jsii.String("ApiAuthorizer"), &awsapigatewayv2.CfnAuthorizerProps{
		ApiId:          api.Ref(),
		Name:           jsii.String("tokens"),
		AuthorizerType: jsii.String("JWT"),
		IdentitySource: jsii.Strings("$request.header.Authorization"),
		JwtConfiguration: &awsapigatewayv2.CfnAuthorizer_JWTConfigurationProperty{
			Issuer: &f.Issuer, Audience: jsii.Strings(f.Audience...),
		},
	})
	return "JWT", made.Ref(), scopes
}

// URL makes a function URL that anybody may call, in place of the HTTP API, and
// returns it. It hands the function the same event.
func (f Front) URL() *string {
	url := awslambda.NewCfnUrl(f.Scope, jsii.String("Url"), &awslambda.CfnUrlProps{
		AuthType: jsii.String("NONE"), TargetFunctionArn: f.Function.FunctionArn(),
	})
	awslambda.NewCfnPermission(f.Scope, jsii.String("UrlPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunctionUrl"), FunctionName: f.Function.FunctionArn(),
		Principal: jsii.String("*"), FunctionUrlAuthType: jsii.String("NONE"),
	})
	return url.AttrFunctionUrl()
}

// addStage deploys the API under no path of its own, throttled, with an access log.
func (f Front) addStage(api awsapigatewayv2.CfnApi) {
	logs := awslogs.NewLogGroup(f.Scope, jsii.String("ApiAccessLogs"), &awslogs.LogGroupProps{
		LogGroupName: &f.Logs, Retention: f.Retention, RemovalPolicy: f.Removal,
	})
	fields := maps.Clone(accessLine)
	if f.Issuer != "" {
		fields["subject"] = "$context.authorizer.claims.sub"
	}
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings always marshal
	}
	awsapigatewayv2.NewCfnStage(f.Scope, jsii.String("ApiStage"), &awsapigatewayv2.CfnStageProps{
		ApiId:      api.Ref(),
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit:  jsii.Number(f.Rate),
			ThrottlingBurstLimit: jsii.Number(f.Burst),
		},
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: logs.LogGroupArn(), Format: jsii.String(string(line)),
		},
	})
}

// cors is nil, which refuses other origins, unless some are named.
func (f Front) cors() any {
	if len(f.Origins) == 0 {
		return nil
	}
	return &awsapigatewayv2.CfnApi_CorsProperty{
		AllowOrigins: jsii.Strings(f.Origins...),
		AllowMethods: jsii.Strings("GET", "POST", "PUT", "DELETE"),
		AllowHeaders: jsii.Strings("authorization", "content-type", "idempotency-key", "x-correlation-id", "x-request-id",
			"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"),
		ExposeHeaders: jsii.Strings("allow", "location", "retry-after", "x-correlation-id", "x-request-id"),
		MaxAge:        jsii.Number(600),
	}
}
