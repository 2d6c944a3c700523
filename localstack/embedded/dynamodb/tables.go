package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// TableName returns the physical name of a table role with a prefix.
func TableName(prefix, role string) string { return prefix + role }

// CreateTables creates the product's tables with their indexes and time to live,
// as package infra does on AWS. It keeps tables that exist; one that lacks an index
// is an error, because another version has written its data. It returns when all
// tables can be used.
func CreateTables(ctx context.Context, client *dynamodb.Client, prefix string) error {
	for _, role := range topology.Tables {
		_, err := client.CreateTable(ctx, createTableInput(prefix, role))
		var exists *types.ResourceInUseException
		if err != nil && !errors.As(err, &exists) {
			return fmt.Errorf("create table %s: %w", TableName(prefix, role), err)
		}
	}
	for _, role := range topology.Tables {
		if err := waitTable(ctx, client, TableName(prefix, role), topology.Indexes[role]); err != nil {
			return fmt.Errorf("table %s: %w", TableName(prefix, role), err)
		}
	}
	return nil
}

func createTableInput(prefix, role string) *dynamodb.CreateTableInput {
	kinds := map[string]string{topology.AttrPK: "S", topology.AttrSK: "S"}
	in := &dynamodb.CreateTableInput{
		TableName:   aws.String(TableName(prefix, role)),
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(topology.AttrPK, topology.AttrSK),
	}
	for _, index := range topology.Indexes[role] {
		kinds[index.Partition], kinds[index.Sort] = "S", index.SortType
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(index.Name),
			KeySchema:  keySchema(index.Partition, index.Sort),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	for name, kind := range kinds {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name),
			AttributeType: types.ScalarAttributeType(kind),
		})
	}
	return in
}

func keySchema(partition, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(partition), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

// waitTable waits for a table, checks its indexes and enables time to live.
func waitTable(ctx context.Context, client *dynamodb.Client, name string, expected []topology.Index) error {
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	})
	table, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, index := range table.Table.GlobalSecondaryIndexes {
		have[aws.ToString(index.IndexName)] = true
	}
	for _, index := range expected {
		if !have[index.Name] {
			return fmt.Errorf("index %s is missing: another version created the table", index.Name)
		}
	}
	described, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return err
	}
	// Enabling it twice is an error.
	if ttl := described.TimeToLiveDescription; ttl != nil && (ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled || ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(topology.AttrTTL), Enabled: aws.Bool(true)},
	})
	return err
}
