// The api function serves the HTTP interface behind API Gateway.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/core"
	"github.com/lockstep-run/lockstep/shared/boot/web"
)

func main() {
	app := core.MustOpen(context.Background(), "api")
	lambda.Start(boot.Flushed(app.Parts, lambdahttp.New(web.Handler(app), lambdahttp.Options{Identity: web.Identity(), Log: app.Log})))
}
