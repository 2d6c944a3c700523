package infra

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

// tableOptions is how an engine's tables are made.
type tableOptions struct {
	scope                       constructs.Construct
	physicalName                func(role string) *string // nil: generated
	retain                      bool                      // the stack
	maxReadUnits, maxWriteUnits int                       // request units a second at most; 0 is no bound
	key                         awskms.IKey               // the customer's; nil is one that AWS owns
	allowHTTP                   bool                      // they are spoken to without TLS as well
}

// newTables makes the four tables, by role. They are paid for by the request, can be
// restored to any second of the last 35 days, and are encrypted.
func (x tableOptions) newTables() map[string]awsdynamodb.Table {
	made := map[string]awsdynamodb.Table{}
	for _, role := range topology.Tables {
		props := &awsdynamodb.TableProps{
			TableName:           x.physicalName(role),
			PartitionKey:        tableAttribute(topology.AttrPK, "S"),
			SortKey:             tableAttribute(topology.AttrSK, "S"),
			TimeToLiveAttribute: jsii.String(topology.AttrTTL),
			BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
			PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
				PointInTimeRecoveryEnabled: jsii.Bool(true),
			},
			DeletionProtection:   &x.retain,
			RemovalPolicy:        tableRemovalPolicy(x.retain),
			MaxReadRequestUnits:  unitsOrNil(x.maxReadUnits),
			MaxWriteRequestUnits: unitsOrNil(x.maxWriteUnits),
			ResourcePolicy:       x.tlsOnlyPolicy(),
		}
		if x.key != nil {
			props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, x.key
		}
		table := awsdynamodb.NewTable(x.scope, jsii.String("Table"+strings.ToUpper(role[:1])+role[1:]), props)
		for _, index := range topology.Indexes[role] {
			table.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
				IndexName:            jsii.String(index.Name),
				PartitionKey:         tableAttribute(index.Partition, "S"),
				SortKey:              tableAttribute(index.Sort, index.SortType),
				ProjectionType:       awsdynamodb.ProjectionType_KEYS_ONLY,
				MaxReadRequestUnits:  unitsOrNil(x.maxReadUnits),
				MaxWriteRequestUnits: unitsOrNil(x.maxWriteUnits),
			})
		}
		made[role] = table
	}
	return made
}

func tableAttribute(name, kind string) *awsdynamodb.Attribute {
	of := awsdynamodb.AttributeType_STRING
	if kind == "N" {
		of = awsdynamodb.AttributeType_NUMBER
	}
	return &awsdynamodb.Attribute{Name: &name, Type: of}
}

// unitsOrNil is nil, which is none, for zero.
func unitsOrNil(n int) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(n)
}

// tlsOnlyPolicy denies everybody whatever DynamoDB would answer without TLS. The policy is a
// part of the table, whose ARN it cannot name: * is that table, and it grants nothing.
func (x tableOptions) tlsOnlyPolicy() awsiam.PolicyDocument {
	if x.allowHTTP {
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

// tableRemovalPolicy is what becomes of tables when the stack goes.
func tableRemovalPolicy(retain bool) awscdk.RemovalPolicy {
	if retain {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}

// logRemovalPolicy is what becomes of logs when the stack goes. Those of a stack that never came
// to be go with it, for their names would be in the way of the next attempt. A table
// cannot go so: it is protected against deletion from its first moment.
func logRemovalPolicy(retain bool) awscdk.RemovalPolicy {
	if retain {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}
