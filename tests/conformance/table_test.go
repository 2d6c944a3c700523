package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

func TestDynamoDB_SupportsUsedFeatures(t *testing.T) {
	setNamePrefix()
	table = namePrefix + "-table"
	// All features use one table with three indexes.
	createTable(t, table, nil,
		globalIndex("all", "colour", "weight", types.ProjectionTypeAll),
		globalIndex("keys", "shape", "", types.ProjectionTypeKeysOnly),
		globalIndex("some", "shape", "weight", types.ProjectionTypeInclude, "note"))
	described := must[*dynamodb.DescribeTableOutput](t)(dynamoClient.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table}))
	wantEqual(t, "indexes", len(described.Table.GlobalSecondaryIndexes), 3)
	runAll(t, []feature{
		{"every type and 38 digits are stored", allAttributeTypes},
		{"a failed condition returns the old item", conditionalPut},
		{"one of 50 concurrent conditional puts succeeds", racePuts},
		{"200 concurrent additions are all counted", raceAdds},
		{"one of 50 concurrent versioned updates succeeds", raceVersions},
		{"update expressions", updateExpressions},
		{"condition functions and operators", conditions},
		{"an index is current after a write, ordered and paged", indexOrder},
		{"sparse indexes, projections, changed keys", indexContents},
		{"key conditions, filters, counts", queryFilters},
		{"a page of a query ends at 1 MB", queryPages},
		{"projection expressions", projections},
		{"a filtered scan in four segments", parallelScan},
		{"batches of 25 writes and 100 reads", batches},
		{"a transaction with all four actions", transaction},
		{"a cancelled transaction changes nothing and lists reasons", cancelledTransaction},
		{"a transaction has up to 100 distinct items", transactionLimits},
		{"a client token makes a transaction idempotent", transactionToken},
		{"one of 30 concurrent claims of two items gets both", raceClaims},
		{"consumed capacity of puts, gets and transactions", consumedCapacity},
		{"consumed capacity by index", capacityByIndex},
		{"items over 400 KB are rejected", itemsOverLimit},
		{"invalid keys, reserved words and unused values are rejected", invalidRequests},
		{"time to live is enabled", timeToLiveSetting},
		{"expired items stay readable or are deleted", timeToLiveExpiry},
		{"streams have both images", streams},
	})
}

var table string // set before the first test runs

type (
	attributeMap   = map[string]types.AttributeValue
	attributeValue = types.AttributeValue
)

func stringValue(s string) attributeValue          { return &types.AttributeValueMemberS{Value: s} }
func numberValue(n any) attributeValue             { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func listValue(v ...attributeValue) attributeValue { return &types.AttributeValueMemberL{Value: v} }
func stringSetValue(s ...string) attributeValue    { return &types.AttributeValueMemberSS{Value: s} }

// itemKey is the key of an item; each test has its own partition.
func itemKey(t *testing.T, sort any) attributeMap {
	return attributeMap{"pk": stringValue(t.Name()), "sk": stringValue(fmt.Sprint(sort))}
}

// withAttributes adds attributes, given as name, value, name, value.
func withAttributes(it attributeMap, pairs ...any) attributeMap {
	for i := 0; i < len(pairs); i += 2 {
		it[pairs[i].(string)] = pairs[i+1].(attributeValue)
	}
	return it
}

// numberAttribute reads an attribute that must be a number.
func numberAttribute(it attributeMap, name string) string {
	if n, is := it[name].(*types.AttributeValueMemberN); is {
		return n.Value
	}
	return fmt.Sprintf("%T instead of a number", it[name])
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func putItem(t *testing.T, it attributeMap, condition string) error {
	_, err := dynamoClient.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &table, Item: it, ConditionExpression: optional(condition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	return err
}

func mustPutItem(t *testing.T, it attributeMap) {
	t.Helper()
	if err := putItem(t, it, ""); err != nil {
		t.Fatal(err)
	}
}

func getItem(t *testing.T, key attributeMap) attributeMap {
	t.Helper()
	return must[*dynamodb.GetItemOutput](t)(dynamoClient.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})).Item
}

// updateItem returns the whole new item.
func updateItem(t *testing.T, key attributeMap, expression, condition string, values attributeMap) (attributeMap, error) {
	out, err := dynamoClient.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, Key: key, UpdateExpression: &expression, ConditionExpression: optional(condition),
		ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

func query(t *testing.T, indexName, condition string, values attributeMap, change ...func(*dynamodb.QueryInput)) *dynamodb.QueryOutput {
	t.Helper()
	in := &dynamodb.QueryInput{TableName: &table, IndexName: optional(indexName), KeyConditionExpression: &condition, ExpressionAttributeValues: values}
	for _, c := range change {
		c(in)
	}
	return must[*dynamodb.QueryOutput](t)(dynamoClient.Query(t.Context(), in))
}

func wantErrorCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if !hasCode(err, code) {
		t.Fatalf("%s: want %s, got %v", what, code, err)
	}
}

func hasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.") == code
}

// runConcurrently starts n calls together and counts those that succeed. An error
// other than a failed condition ends the test.
func runConcurrently(t *testing.T, n int, call func(i int) error) (succeeded int) {
	t.Helper()
	gate, results := make(chan struct{}), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-gate
			results[i] = call(i)
		})
	}
	close(gate)
	group.Wait()
	for _, err := range results {
		switch {
		case err == nil:
			succeeded++
		case hasCode(err, "ConditionalCheckFailedException"), hasCode(err, "TransactionCanceledException"):
		default:
			t.Fatal(err)
		}
	}
	return succeeded
}

func keySchema(partition, sort string) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: &partition, KeyType: types.KeyTypeHash}}
	if sort != "" {
		schema = append(schema, types.KeySchemaElement{AttributeName: &sort, KeyType: types.KeyTypeRange})
	}
	return schema
}

func globalIndex(name, partition, sort string, projection types.ProjectionType, more ...string) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: keySchema(partition, sort), Projection: &types.Projection{ProjectionType: projection, NonKeyAttributes: more}}
}

func createTable(t *testing.T, name string, stream *types.StreamSpecification, indexes ...types.GlobalSecondaryIndex) {
	t.Helper()
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, KeySchema: keySchema("pk", "sk"), GlobalSecondaryIndexes: indexes, StreamSpecification: stream}
	names := []string{"pk", "sk"}
	if len(indexes) > 0 {
		names = append(names, "colour", "shape", "weight")
	}
	for _, n := range names {
		kind := types.ScalarAttributeTypeS
		if n == "weight" {
			kind = types.ScalarAttributeTypeN
		}
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(n), AttributeType: kind})
	}
	must[*dynamodb.CreateTableOutput](t)(dynamoClient.CreateTable(t.Context(), in))
	waiter := dynamodb.NewTableExistsWaiter(dynamoClient, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	})
	if err := waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
		t.Fatal(err)
	}
}
