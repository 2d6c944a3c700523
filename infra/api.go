package infra

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// route is one of the gateway's; the function's own mux does the routing proper,
// so that an unknown path gets the same problem everywhere.
type route struct {
	id, key string
	open    bool // to callers whom nobody has authenticated
}

// routes let only the health check through without a signature.
var routes = []route{
	{"Health", "GET /health", true},
	{"Default", "$default", false},
}

// accessLine is one request in the access log. It names the caller and the route,
// never a query or a body.
var accessLine = map[string]string{
	"requestId": "$context.requestId", "at": "$context.requestTime", "ip": "$context.identity.sourceIp",
	"caller": "$context.identity.userArn", "method": "$context.httpMethod", "path": "$context.path",
	"route": "$context.routeKey", "status": "$context.status", "bytes": "$context.responseLength",
	"ms": "$context.responseLatency", "error": "$context.integrationErrorMessage",
}

// addAPI makes the HTTP API and sets the engine's URL. Callers sign their requests
// with IAM credentials and need execute-api:Invoke on it.
func (e *Engine) addAPI() awsapigatewayv2.CfnApi {
	function := e.Functions[topology.FunctionAPI]
	api := awsapigatewayv2.NewCfnApi(e.Construct, jsii.String("Api"), &awsapigatewayv2.CfnApiProps{
		Name:              jsii.String(*awscdk.Stack_Of(e.Construct).StackName() + "-api"),
		Description:       jsii.String("Lockstep: the HTTP interface"),
		ProtocolType:      jsii.String("HTTP"),
		CorsConfiguration: e.cors(),
	})
	integration := awsapigatewayv2.NewCfnIntegration(e.Construct, jsii.String("ApiIntegration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId:                api.Ref(),
		IntegrationType:      jsii.String("AWS_PROXY"),
		IntegrationUri:       function.FunctionArn(),
		PayloadFormatVersion: jsii.String("2.0"),
	})
	for _, r := range routes {
		authorization := "AWS_IAM"
		if r.open {
			authorization = "NONE"
		}
		awsapigatewayv2.NewCfnRoute(e.Construct, jsii.String("ApiRoute"+r.id), &awsapigatewayv2.CfnRouteProps{
			ApiId:             api.Ref(),
			RouteKey:          jsii.String(r.key),
			AuthorizationType: jsii.String(authorization),
			Target:            jsii.String("integrations/" + *integration.Ref()),
		})
	}
	awslambda.NewCfnPermission(e.Construct, jsii.String("ApiPermission"), &awslambda.CfnPermissionProps{
		Action:       jsii.String("lambda:InvokeFunction"),
		FunctionName: function.FunctionArn(),
		Principal:    jsii.String("apigateway.amazonaws.com"),
		// Stage, method and path of this one API: AWS has no narrower name for
		// requests that a catch-all route serves.
		SourceArn: awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.Ref(), ResourceName: jsii.String("*"),
		}),
	})
	e.addStage(api)
	e.URL = api.AttrApiEndpoint()
	return api
}

// addStage deploys the API under no path of its own, throttled, with an access log.
func (e *Engine) addStage(api awsapigatewayv2.CfnApi) {
	logs := awslogs.NewLogGroup(e.Construct, jsii.String("ApiAccessLogs"), &awslogs.LogGroupProps{
		Retention: e.props.LogRetention, RemovalPolicy: e.removal(),
	})
	line, err := json.Marshal(accessLine)
	if err != nil {
		panic(err) // strings always marshal
	}
	awsapigatewayv2.NewCfnStage(e.Construct, jsii.String("ApiStage"), &awsapigatewayv2.CfnStageProps{
		ApiId:      api.Ref(),
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit:  jsii.Number(e.props.RequestsPerSecond),
			ThrottlingBurstLimit: jsii.Number(e.props.Burst),
		},
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: logs.LogGroupArn(), Format: jsii.String(string(line)),
		},
	})
}

// cors is nil, which refuses other origins, unless some are named.
func (e *Engine) cors() any {
	if len(e.props.CORSOrigins) == 0 {
		return nil
	}
	return &awsapigatewayv2.CfnApi_CorsProperty{
		AllowOrigins: jsii.Strings(e.props.CORSOrigins...),
		AllowMethods: jsii.Strings("GET", "POST", "PUT", "DELETE"),
		AllowHeaders: jsii.Strings("authorization", "content-type", "idempotency-key",
			"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"),
		ExposeHeaders: jsii.Strings("location", "retry-after"),
		MaxAge:        jsii.Number(600),
	}
}
