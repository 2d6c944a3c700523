package kept

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Tables is how an engine's tables are made.
type Tables struct {
	Scope       constructs.Construct
	Name        func(role string) *string // nil: generated
	Outlive     bool                      // the stack
	Read, Write int                       // request units a second at most; 0 is no bound
	Key         awskms.IKey               // the customer's; nil is one that AWS owns
	Plain       bool                      // they are spoken to without TLS as well
}

// Make makes the four tables, by role. They are paid for by the request, can be
// restored to any second of the last 35 days, and are encrypted.
func (x Tables) Make() map[string]awsdynamodb.Table {
	made := map[string]awsdynamodb.Table{}
	for _, role := range topology.Tables {
		props := &awsdynamodb.TableProps{
			TableName:           x.Name(role),
			PartitionKey:        attribute(topology.AttrPK, "S"),
			SortKey:             attribute(topology.AttrSK, "S"),
			TimeToLiveAttribute: jsii.String(topology.AttrTTL),
			BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
			PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
				PointInTimeRecoveryEnabled: jsii.Bool(true),
			},
			DeletionProtection:   &x.Outlive,
			RemovalPolicy:        data(x.Outlive),
			MaxReadRequestUnits:  bound(x.Read),
			MaxWriteRequestUnits: bound(x.Write),
			ResourcePolicy:       x.tlsOnly(),
		}
		if x.Key != nil {
			props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, x.Key
		}
		table := awsdynamodb.NewTable(x.Scope, jsii.String("Table"+strings.ToUpper(role[:1])+role[1:]), props)
		for _, index := range topology.Indexes[role] {
			table.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
				IndexName:            jsii.String(index.Name),
				PartitionKey:         attribute(index.Partition, "S"),
				SortKey:              attribute(index.Sort, index.SortType),
				ProjectionType:       awsdynamodb.ProjectionType_KEYS_ONLY,
				MaxReadRequestUnits:  bound(x.Read),
				MaxWriteRequestUnits: bound(x.Write),
			})
		}
		made[role] = table
	}
	return made
}

func attribute(name, kind string) *awsdynamodb.Attribute {
	of := awsdynamodb.AttributeType_STRING
	if kind == "N" {
		of = awsdynamodb.AttributeType_NUMBER
	}
	return &awsdynamodb.Attribute{Name: &name, Type: of}
}

// bound is nil, which is none, for zero.
func bound(n int) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(n)
}

// tlsOnly denies everybody whatever DynamoDB would answer without TLS. The policy is a
// part of the table, whose ARN it cannot name: * is that table, and it grants nothing.
func (x Tables) tlsOnly() awsiam.PolicyDocument {
	if x.Plain {
		return nil
	}
	return awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &[]awsiam.PolicyStatement{
		awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: jsii.String("TLSOnly"), Effect: awsiam.Effect_DENY, Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
			Actions: jsii.Strings("dynamodb:*"), Resources: jsii.Strings("*"),
			Conditions: &map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
		}),
	}})
}

// data is what becomes of tables when the stack goes.
func data(outlive bool) awscdk.RemovalPolicy {
	if outlive {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}

// Logs is what becomes of logs when the stack goes. Those of a stack that never came
// to be go with it, for their names would be in the way of the next attempt. A table
// cannot go so: it is protected against deletion from its first moment.
func Logs(outlive bool) awscdk.RemovalPolicy {
	if outlive {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}
