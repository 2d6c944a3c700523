package infra

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// newTables creates the tables, by role, or finds those that exist. They are billed by the request, can be
// restored to any second of the last 35 days, and are encrypted.
func (e *Engine) newTables() map[string]awsdynamodb.ITable {
	retain := e.props.keepsData()
	maxReads, maxWrites := unitsOrNil(e.props.Capacity.Read), unitsOrNil(e.props.Capacity.Write)
	tables := map[string]awsdynamodb.ITable{}
	for _, role := range topology.Tables {
		id := "Table" + strings.ToUpper(role[:1]) + role[1:]
		if name := e.props.ExistingTables[role]; name != "" {
			tables[role] = e.existingTable(id+"Existing", name)
			continue
		}
		props := &awsdynamodb.TableProps{
			TableName:           e.physicalName(role),
			PartitionKey:        tableAttribute(topology.AttrPK, "S"),
			SortKey:             tableAttribute(topology.AttrSK, "S"),
			TimeToLiveAttribute: jsii.String(topology.AttrTTL),
			BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
			PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
				PointInTimeRecoveryEnabled: jsii.Bool(true),
			},
			DeletionProtection:   &retain,
			RemovalPolicy:        tableRemovalPolicy(retain),
			MaxReadRequestUnits:  maxReads,
			MaxWriteRequestUnits: maxWrites,
			ResourcePolicy:       e.tlsOnlyPolicy(),
			WarmThroughput:       e.warmThroughput(),
		}
		if key := e.props.CustomerKey; key != nil {
			props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, key
		}
		table := awsdynamodb.NewTable(e.Construct, &id, props)
		for _, index := range topology.Indexes[role] {
			table.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
				IndexName:            jsii.String(index.Name),
				PartitionKey:         tableAttribute(index.Partition, "S"),
				SortKey:              tableAttribute(index.Sort, index.SortType),
				ProjectionType:       awsdynamodb.ProjectionType_KEYS_ONLY,
				MaxReadRequestUnits:  maxReads,
				MaxWriteRequestUnits: maxWrites,
				WarmThroughput:       e.warmThroughput(),
			})
		}
		tables[role] = table
	}
	return tables
}

// warmThroughput returns the load that a table can take at once; nil for AWS's default.
func (e *Engine) warmThroughput() *awsdynamodb.WarmThroughput {
	w := e.props.WarmThroughput
	if w == (Capacity{}) {
		return nil
	}
	return &awsdynamodb.WarmThroughput{ReadUnitsPerSecond: unitsOrNil(w.Read), WriteUnitsPerSecond: unitsOrNil(w.Write)}
}

// existingTable refers to a table that the stack does not own.
func (e *Engine) existingTable(id, name string) awsdynamodb.ITable {
	attributes := &awsdynamodb.TableAttributes{TableName: &name}
	if key := e.props.CustomerKey; key != nil {
		attributes.EncryptionKey = key
	}
	return awsdynamodb.Table_FromTableAttributes(e.Construct, &id, attributes)
}

var tableNameRE = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)

// validateExistingTables checks that either no or all tables exist: the contents of one make no
// sense without the contents of the others.
func (p EngineProps) validateExistingTables() error {
	if len(p.ExistingTables) == 0 {
		return nil
	}
	names := map[string]string{}
	for _, role := range topology.Tables {
		name := p.ExistingTables[role]
		if name == "" && role == topology.TableData {
			continue // it contains nothing of executions, and earlier releases did not have it, so it is created
		}
		if !tableNameRE.MatchString(name) {
			return fmt.Errorf("existing tables: %s is %q: want the names of all of %s", role, name, strings.Join(topology.Tables, ", "))
		}
		if other := names[name]; other != "" {
			return fmt.Errorf("existing tables: %s is the table of %s and of %s", name, other, role)
		}
		names[name] = role
	}
	for role := range p.ExistingTables {
		if !slices.Contains(topology.Tables, role) {
			return fmt.Errorf("existing tables: there is no table %q: want %s", role, strings.Join(topology.Tables, ", "))
		}
	}
	return nil
}

func tableAttribute(name, kind string) *awsdynamodb.Attribute {
	attributeType := awsdynamodb.AttributeType_STRING
	if kind == "N" {
		attributeType = awsdynamodb.AttributeType_NUMBER
	}
	return &awsdynamodb.Attribute{Name: &name, Type: attributeType}
}

// unitsOrNil returns nil, which means no limit, for 0.
func unitsOrNil(n int) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(n)
}

// tlsOnlyPolicy denies all requests without TLS. The policy belongs to the table, whose ARN it
// cannot contain: * means that table alone. It grants nothing.
func (e *Engine) tlsOnlyPolicy() awsiam.PolicyDocument {
	if e.props.Local { // emulators are called without TLS
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

// tableRemovalPolicy says what happens to tables when the stack is deleted.
func tableRemovalPolicy(retain bool) awscdk.RemovalPolicy {
	if retain {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}

// logRemovalPolicy says what happens to logs when the stack is deleted. If the creation
// of the stack fails, its logs are deleted too, so that the next attempt can use their
// names. Tables cannot do the same: they have deletion protection from the start.
func logRemovalPolicy(retain bool) awscdk.RemovalPolicy {
	if retain {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}
