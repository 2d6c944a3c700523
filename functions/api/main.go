// The api function serves the HTTP interface behind API Gateway.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/boot"
)

func main() {
	app := boot.MustOpen(context.Background(), "api")
	lambda.Start(lambdahttp.New(app.Handler(), lambdahttp.Options{Identity: app.Identity(), Log: app.Log}))
}
