package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// sweepRate is the shortest rate of EventBridge and the default of the setting
// sweepInterval.
const sweepRate = "rate(1 minute)"

// sweepMaxAge is the number of seconds for which a sweep that could not start is retried. After
// that the next one is due.
const sweepMaxAge = 60

// addSchedule creates the rule that invokes the sweeper and returns the queue for failed
// invocations. It is a rule and not an EventBridge schedule, because a rule needs no role
// and emulators support it. A failed sweep is not repeated: the next one does its work.
func (e *Engine) addSchedule() awssqs.Queue {
	sweeper := e.Functions[topology.FunctionSweeper]
	// The rule could not send to a queue with the customer's key. The dead letters contain only the
	// time. Neither the rule nor Lambda uses the queue as a redrive target.
	dlq := e.newDLQ("SchedulesDlq", e.physicalName("schedules"+topology.DLQSuffix), nil, &awssqs.RedriveAllowPolicy{RedrivePermission: awssqs.RedrivePermission_DENY_ALL})
	rule := awsevents.NewCfnRule(e.Construct, jsii.String("SweepRule"), &awsevents.CfnRuleProps{
		Name:               e.physicalName("sweep"),
		Description:        jsii.String("Lockstep: runs the sweeper"),
		ScheduleExpression: jsii.String(sweepRate),
		State:              jsii.String("ENABLED"),
		Targets: []any{&awsevents.CfnRule_TargetProperty{
			Id:               jsii.String("sweeper"),
			Arn:              sweeper.live.FunctionArn(),
			DeadLetterConfig: &awsevents.CfnRule_DeadLetterConfigProperty{Arn: dlq.QueueArn()},
			RetryPolicy: &awsevents.CfnRule_RetryPolicyProperty{
				MaximumEventAgeInSeconds: jsii.Number(sweepMaxAge), MaximumRetryAttempts: jsii.Number(1),
			},
		}},
	})
	awslambda.NewCfnPermission(e.Construct, jsii.String("SweepPermission"), &awslambda.CfnPermissionProps{
		Action:       jsii.String("lambda:InvokeFunction"),
		FunctionName: sweeper.live.FunctionArn(),
		Principal:    jsii.String("events.amazonaws.com"),
		SourceArn:    rule.AttrArn(),
	})
	// The rule sends invocations that Lambda did not accept.
	dlq.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("DeadLettersOfTheRule"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sqs:SendMessage"),
		Resources:  &[]*string{dlq.QueueArn()},
		Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": rule.AttrArn()}},
	}))
	// Lambda sends failed invocations, with the sweeper's own role.
	sweeper.allow("SendDeadLetters", []string{*dlq.QueueArn()}, "sqs:SendMessage")
	failures := awslambda.NewCfnEventInvokeConfig(e.Construct, jsii.String("SweepFailures"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName:             sweeper.FunctionName(),
		Qualifier:                sweeper.qualifier(),
		MaximumEventAgeInSeconds: jsii.Number(sweepMaxAge),
		MaximumRetryAttempts:     jsii.Number(0),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: dlq.QueueArn()},
		},
	})
	failures.Node().AddDependency(sweeper.Role(), sweeper.live) // the qualifier is only a name
	return dlq
}
