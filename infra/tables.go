package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// addTables makes the four tables. They are paid for by the request, can be
// restored to any second of the last 35 days, and are encrypted with a key that
// AWS owns unless the customer has one.
func (e *Engine) addTables() {
	for _, role := range topology.Tables {
		props := &awsdynamodb.TableProps{
			TableName:           e.name(role),
			PartitionKey:        attribute(topology.AttrPK, "S"),
			SortKey:             attribute(topology.AttrSK, "S"),
			TimeToLiveAttribute: jsii.String(topology.AttrTTL),
			BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
			PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
				PointInTimeRecoveryEnabled: jsii.Bool(true),
			},
			DeletionProtection:   jsii.Bool(e.props.keepsData()),
			RemovalPolicy:        e.removal(),
			MaxReadRequestUnits:  bound(e.props.Capacity.Read),
			MaxWriteRequestUnits: bound(e.props.Capacity.Write),
		}
		if key := e.props.CustomerKey; key != nil {
			props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, key
		}
		table := awsdynamodb.NewTable(e.Construct, jsii.String("Table"+title(role)), props)
		for _, index := range topology.Indexes[role] {
			table.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
				IndexName:            jsii.String(index.Name),
				PartitionKey:         attribute(index.Partition, "S"),
				SortKey:              attribute(index.Sort, index.SortType),
				ProjectionType:       awsdynamodb.ProjectionType_KEYS_ONLY,
				MaxReadRequestUnits:  bound(e.props.Capacity.Read),
				MaxWriteRequestUnits: bound(e.props.Capacity.Write),
			})
		}
		e.Tables[role] = table
	}
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

// removal is what becomes of data, and of the logs about it, when the stack goes.
func (e *Engine) removal() awscdk.RemovalPolicy {
	if e.props.keepsData() {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}
