// The api function serves the HTTP API behind API Gateway.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/boot/httpserver"
)

func main() {
	app := enginehost.MustOpen(context.Background(), "api")
	lambda.Start(boot.FlushTraces(app.Process, lambdahttp.New(httpserver.Handler(app), lambdahttp.Options{Identity: httpserver.Identity(), Log: app.Log})))
}
