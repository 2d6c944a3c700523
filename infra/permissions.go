package infra

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// resolvesPools is whether a function meets pools that are not the engine's own.
// A worker sends to its own pool only, and the sweeper to none.
func resolvesPools(function string) bool {
	return function == topology.FunctionAPI || function == topology.FunctionLifecycle
}

// grantRuntimePermissions grants a function its rights on the tables, the lifecycle queue, the
// lookup of pools and the customer's key. Rights on pools' queues come with the
// pools.
func (e *Engine) grantRuntimePermissions(f *Function) {
	for _, table := range topology.Tables {
		for _, r := range topology.RightsFor(f.role, table) {
			sid, arn := "Table"+pascalCase(table), *e.Tables[table].TableArn()
			if r.Index != "" {
				sid, arn = sid+pascalCase(r.Index), arn+"/index/"+r.Index
			}
			var actions []string
			for _, a := range r.Actions {
				actions = append(actions, "dynamodb:"+a)
			}
			f.allow(sid, []string{arn}, actions...)
		}
	}
	f.allowSend("SendLooks", e.LifecycleQueue)
	if f.role == topology.FunctionAPI {
		f.allow("ReadLooks", []string{*e.LifecycleQueue.QueueArn()}, "sqs:GetQueueAttributes")
		f.allowRedrive(e.LifecycleQueue)
	}
	if resolvesPools(f.role) {
		// The one resource that is not named whole: a pool's name is whatever a block
		// says it is. The right tells only whether such a queue exists.
		arn := awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("sqs"), Resource: jsii.String(e.poolPrefix() + "*"),
		})
		f.allow("LookUpPools", []string{*arn}, "sqs:GetQueueUrl")
	}
	if key := e.props.CustomerKey; key != nil {
		e.grantKey(f, key)
	}
}

// keyActions are what the two services ask of the key in the name of whoever calls
// them: DynamoDB for its table keys, SQS for the keys of messages.
var keyActions = []string{
	"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo",
}

// grantKey lets a function use the customer's key through tables and queues, and
// in no other way.
func (e *Engine) grantKey(f *Function, key awskms.IKey) {
	region := *awscdk.Stack_Of(e.Construct).Region()
	f.grant(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("UseKey"), Actions: jsii.Strings(keyActions...), Resources: &[]*string{key.KeyArn()},
		Conditions: &map[string]any{"StringEquals": map[string]any{"kms:ViaService": []string{
			"dynamodb." + region + ".amazonaws.com", "sqs." + region + ".amazonaws.com",
		}}},
	}))
}

// allowRedrive lets a function show a queue's dead letters, and put them back where it
// may send already.
func (f *Function) allowRedrive(q *Queue) {
	f.allow("RedriveOf"+q.label, []string{*q.DLQ.QueueArn()}, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
}

func (f *Function) allowSend(sid string, q *Queue) {
	f.allow(sid, []string{*q.QueueArn()}, "sqs:SendMessage")
}

// allow adds a statement to the policy of a function's role.
func (f *Function) allow(sid string, resources []string, actions ...string) {
	allow(f.Function, sid, resources, actions...)
}

func (f *Function) grant(statement awsiam.PolicyStatement) { grant(f.Function, statement) }

func allow(who awsiam.IGrantable, sid string, resources []string, actions ...string) {
	grant(who, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: &sid, Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...),
	}))
}

// grant adds a statement to a principal's policy. One whose policy is not CDK's to
// write, such as an imported role, would lack the right without a word.
func grant(who awsiam.IGrantable, statement awsiam.PolicyStatement) {
	if added := who.GrantPrincipal().AddToPrincipalPolicy(statement); !*added.StatementAdded {
		panic(fmt.Errorf("%s cannot be granted: the role's policy is not this app's to write", *statement.Sid()))
	}
}
