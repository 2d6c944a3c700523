package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// resolvesPools reports whether a function looks up the queues of pools that are not the engine's
// own. A worker sends only to its own pool, and the sweeper to none.
func resolvesPools(function string) bool {
	return function == topology.FunctionAPI || function == topology.FunctionLifecycle
}

// usesTokenKeys reports whether a function makes or checks resume tokens, or signs events.
func usesTokenKeys(function string) bool {
	return function == topology.FunctionAPI || function == topology.FunctionLifecycle || function == topology.FunctionObserver
}

// grantRuntimePermissions grants a function its permissions on the tables, the lifecycle queue, the
// lookup of pools and the customer's key. registerPool and attachFunction grant the permissions on
// the queues of pools.
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
	if f.role == topology.FunctionAPI || f.role == topology.FunctionSweeper {
		f.allow("ReadLooks", []string{*e.LifecycleQueue.QueueArn()}, "sqs:GetQueueAttributes")
	}
	if f.role == topology.FunctionAPI {
		f.allowRedrive(e.LifecycleQueue)
	}
	if resolvesPools(f.role) {
		// The only resource with a wildcard, because a block may name any pool. The permission
		// reveals only whether such a queue exists.
		arn := awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("sqs"), Resource: jsii.String(e.poolPrefix() + "*"),
		})
		f.allow("LookUpPools", []string{*arn}, "sqs:GetQueueUrl")
	}
	if e.props.TokenKeys != "" && usesTokenKeys(f.role) {
		f.allow("ReadTokenKeys", []string{e.props.TokenKeys}, "secretsmanager:GetSecretValue")
	}
	if e.props.Secrets != "" {
		e.grantSecrets(f)
	}
	if e.props.SealedKey != "" {
		e.grantSealing(f)
	}
	e.grantObserving(f)
	if key := e.props.CustomerKey; key != nil {
		e.grantKey(f, key)
	}
}

// usesSecrets reports whether a function fills in secrets, or reports which exist.
func usesSecrets(function string) bool {
	return function == topology.FunctionAPI || function == topology.FunctionWorker
}

// grantSecrets lets workers read the secrets whose names have the prefix, and lets the API see
// whether there are any.
func (e *Engine) grantSecrets(f *Function) {
	where, prefix, _ := strings.Cut(e.props.Secrets, ":")
	of := awscdk.ArnComponents{Service: jsii.String(where), Resource: jsii.String("secret"), ResourceName: jsii.String(prefix + "*"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME}
	read, see := "secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"
	if where == "ssm" {
		of.Resource, of.ResourceName, of.ArnFormat = jsii.String("parameter"), jsii.String(strings.TrimPrefix(prefix, "/")+"*"), awscdk.ArnFormat_SLASH_RESOURCE_NAME
		read, see = "ssm:GetParameter", "ssm:ListTagsForResource"
	}
	arn := *awscdk.Stack_Of(e.Construct).FormatArn(&of)
	if f.role == topology.FunctionAPI && e.props.OpenTriggers {
		f.allow("ReadTriggerSecrets", []string{arn + "/hooks/*"}, read) // for any tenant: workflow.TriggerSecretPrefix
	}
	switch f.role {
	case topology.FunctionWorker:
		f.allow("ReadSecrets", []string{arn}, read)
	case topology.FunctionAPI:
		f.allow("SeeSecrets", []string{arn}, see)
	}
}

// grantSealing lets the API seal parameters, and open those of an execution that is repeated, and lets
// workers open them.
func (e *Engine) grantSealing(f *Function) {
	switch f.role {
	case topology.FunctionAPI:
		f.allow("SealParameters", []string{e.props.SealedKey}, "kms:Decrypt", "kms:GenerateDataKey")
	case topology.FunctionWorker:
		f.allow("OpenSealedParameters", []string{e.props.SealedKey}, "kms:Decrypt")
	}
}

// keyActions are the actions that DynamoDB and SQS perform on the key on behalf of their caller.
var keyActions = []string{
	"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo",
}

// grantKey lets a function use the customer's key through DynamoDB and SQS only.
func (e *Engine) grantKey(f *Function, key awskms.IKey) {
	region := *awscdk.Stack_Of(e.Construct).Region()
	f.grant(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("UseKey"), Actions: jsii.Strings(keyActions...), Resources: &[]*string{key.KeyArn()},
		Conditions: &map[string]any{"StringEquals": map[string]any{"kms:ViaService": []string{
			"dynamodb." + region + ".amazonaws.com", "sqs." + region + ".amazonaws.com",
		}}},
	}))
}

// allowRedrive lets a function receive and delete a queue's dead letters. It may already
// send to the queue.
func (f *Function) allowRedrive(q *Queue) {
	f.allow("RedriveOf"+q.label, []string{*q.DLQ.QueueArn()}, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
}

func (f *Function) allowSend(sid string, q *Queue) {
	f.allow(sid, []string{*q.QueueArn()}, "sqs:SendMessage")
}

// allow adds a statement to the policy of a function's role.
func (f *Function) allow(sid string, resources []string, actions ...string) {
	allow(f.principal(), sid, resources, actions...)
}

func (f *Function) grant(statement awsiam.PolicyStatement) { grant(f.principal(), statement) }

func (f *Function) principal() awsiam.IGrantable {
	if f.outside != nil {
		return f.outside
	}
	return f.Function
}

func allow(who awsiam.IGrantable, sid string, resources []string, actions ...string) {
	grant(who, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: &sid, Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...),
	}))
}

// grant adds a statement to a principal's policy. It panics if CDK cannot change the
// policy, as for an imported role, which would silently lack the permission.
func grant(who awsiam.IGrantable, statement awsiam.PolicyStatement) {
	if added := who.GrantPrincipal().AddToPrincipalPolicy(statement); !*added.StatementAdded {
		panic(fmt.Errorf("cannot grant %s: this app cannot change the policy of the role", *statement.Sid()))
	}
}
