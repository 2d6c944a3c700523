package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// sweepRate is the finest that EventBridge offers, and the default of the
// configuration's sweepInterval.
const sweepRate = "rate(1 minute)"

// sweepMaxAge is for how many seconds a sweep that could not begin is tried again:
// after that the next one is due.
const sweepMaxAge = 60

// addSchedule makes the rule that runs the sweeper and returns the queue for runs
// that failed. It is a rule and not an EventBridge schedule, because a rule needs
// no role and emulators run it. A sweep that fails is not repeated: the next one
// finds what it has left.
func (e *Engine) addSchedule() awssqs.Queue {
	sweeper := e.Functions[topology.FunctionSweeper]
	// The rule could not write to a queue of the customer's key, and there is nothing
	// in a dead letter of it but the time.
	dlq := e.newDLQ("SchedulesDlq", "schedules"+topology.DLQSuffix, nil)
	rule := awsevents.NewCfnRule(e.Construct, jsii.String("SweepRule"), &awsevents.CfnRuleProps{
		Name:               e.physicalName("sweep"),
		Description:        jsii.String("Lockstep: runs the sweeper"),
		ScheduleExpression: jsii.String(sweepRate),
		State:              jsii.String("ENABLED"),
		Targets: []any{&awsevents.CfnRule_TargetProperty{
			Id:               jsii.String("sweeper"),
			Arn:              sweeper.FunctionArn(),
			DeadLetterConfig: &awsevents.CfnRule_DeadLetterConfigProperty{Arn: dlq.QueueArn()},
			RetryPolicy: &awsevents.CfnRule_RetryPolicyProperty{
				MaximumEventAgeInSeconds: jsii.Number(sweepMaxAge), MaximumRetryAttempts: jsii.Number(1),
			},
		}},
	})
	awslambda.NewCfnPermission(e.Construct, jsii.String("SweepPermission"), &awslambda.CfnPermissionProps{
		Action:       jsii.String("lambda:InvokeFunction"),
		FunctionName: sweeper.FunctionArn(),
		Principal:    jsii.String("events.amazonaws.com"),
		SourceArn:    rule.AttrArn(),
	})
	// What the rule could not hand to Lambda.
	dlq.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("DeadLettersOfTheRule"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sqs:SendMessage"),
		Resources:  &[]*string{dlq.QueueArn()},
		Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": rule.AttrArn()}},
	}))
	// What Lambda took and the sweeper failed to do; Lambda sends it with the
	// sweeper's own role.
	sweeper.allow("SendDeadLetters", []string{*dlq.QueueArn()}, "sqs:SendMessage")
	failures := awslambda.NewCfnEventInvokeConfig(e.Construct, jsii.String("SweepFailures"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName:             sweeper.FunctionName(),
		Qualifier:                jsii.String("$LATEST"),
		MaximumEventAgeInSeconds: jsii.Number(sweepMaxAge),
		MaximumRetryAttempts:     jsii.Number(0),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: dlq.QueueArn()},
		},
	})
	failures.Node().AddDependency(sweeper.Role())
	return dlq
}
