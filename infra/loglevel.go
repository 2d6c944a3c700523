package infra

import "github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

// lambdaLogLevel is the level from which on Lambda passes a function's lines on. The function
// itself keeps to the level that is asked for; Lambda must not, for it would drop the
// metrics, which are lines of level INFO.
func lambdaLogLevel(level string) awslambda.ApplicationLogLevel {
	if level == "debug" {
		return awslambda.ApplicationLogLevel_DEBUG
	}
	return awslambda.ApplicationLogLevel_INFO
}
