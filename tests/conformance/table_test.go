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

func TestDynamoDB(t *testing.T) {
	begin()
	table = run + "-table"
	// The first feature is a table with three indexes; all others use it.
	makeTable(t, table, nil,
		index("all", "colour", "weight", types.ProjectionTypeAll),
		index("keys", "shape", "", types.ProjectionTypeKeysOnly),
		index("some", "shape", "weight", types.ProjectionTypeInclude, "note"))
	described := ok[*dynamodb.DescribeTableOutput](t)(db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table}))
	same(t, "indexes", len(described.Table.GlobalSecondaryIndexes), 3)
	runAll(t, []feature{
		{"every type and 38 digits come back", everyType},
		{"a conditional put loses with the old item", conditionalPut},
		{"of 50 conditional puts at once one wins", racePuts},
		{"200 additions at once are all counted, five times", raceAdds},
		{"of 50 versioned updates at once one wins", raceVersions},
		{"update expressions", updateExpressions},
		{"condition functions and operators", conditions},
		{"an index is up to date after a write, in order, in pages", indexOrder},
		{"sparse indexes, projections, changed keys", indexContents},
		{"key conditions, filters, counts", queryFilters},
		{"a page of a query ends at 1 MB", queryPages},
		{"projection expressions", projections},
		{"a filtered scan in four segments", parallelScan},
		{"batches of 25 writes and 100 reads", batches},
		{"a transaction with all four actions", transaction},
		{"a cancelled transaction changes nothing and says why", cancelledTransaction},
		{"100 items in a transaction, not 101, none twice", transactionLimits},
		{"a client token makes a transaction idempotent", transactionToken},
		{"of 30 claims of two items at once one wins both", raceClaims},
		{"consumed capacity of puts, gets and transactions", capacity},
		{"consumed capacity by index", capacityByIndex},
		{"items over 400 KB are refused", tooLarge},
		{"invalid keys, reserved words and unused values are refused", invalid},
		{"time to live is switched on", timeToLiveSetting},
		{"time to live deletes at some time", timeToLiveExpiry},
		{"streams hold both images", streams},
	})
}

var table string // set before the first test runs

type (
	item  = map[string]types.AttributeValue
	value = types.AttributeValue
)

func str(s string) value     { return &types.AttributeValueMemberS{Value: s} }
func num(n any) value        { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func list(v ...value) value  { return &types.AttributeValueMemberL{Value: v} }
func strs(s ...string) value { return &types.AttributeValueMemberSS{Value: s} }

// at is the key of an item; each test has a partition of its own.
func at(t *testing.T, sort any) item {
	return item{"pk": str(t.Name()), "sk": str(fmt.Sprint(sort))}
}

// plus adds attributes, given as name, value, name, value.
func plus(it item, pairs ...any) item {
	for i := 0; i < len(pairs); i += 2 {
		it[pairs[i].(string)] = pairs[i+1].(value)
	}
	return it
}

// number reads an attribute that has to be a number.
func number(it item, name string) string {
	if n, is := it[name].(*types.AttributeValueMemberN); is {
		return n.Value
	}
	return fmt.Sprintf("no number but %T", it[name])
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func put(t *testing.T, it item, condition string) error {
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &table, Item: it, ConditionExpression: optional(condition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	return err
}

func mustPut(t *testing.T, it item) {
	t.Helper()
	if err := put(t, it, ""); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, key item) item {
	t.Helper()
	return ok[*dynamodb.GetItemOutput](t)(db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})).Item
}

// update returns the whole new item.
func update(t *testing.T, key item, expression, condition string, values item) (item, error) {
	out, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, Key: key, UpdateExpression: &expression, ConditionExpression: optional(condition),
		ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

func ask(t *testing.T, indexName, condition string, values item, change ...func(*dynamodb.QueryInput)) *dynamodb.QueryOutput {
	t.Helper()
	in := &dynamodb.QueryInput{TableName: &table, IndexName: optional(indexName), KeyConditionExpression: &condition, ExpressionAttributeValues: values}
	for _, c := range change {
		c(in)
	}
	return ok[*dynamodb.QueryOutput](t)(db.Query(t.Context(), in))
}

// refused wants an error with a code.
func refused(t *testing.T, what string, err error, code string) {
	t.Helper()
	if !hasCode(err, code) {
		t.Fatalf("%s: want %s, got %v", what, code, err)
	}
}

func hasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.") == code
}

// atOnce runs n calls that start together, and counts those that succeed. An
// error other than a lost condition is the test's end.
func atOnce(t *testing.T, n int, call func(i int) error) (won int) {
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
			won++
		case hasCode(err, "ConditionalCheckFailedException"), hasCode(err, "TransactionCanceledException"):
		default:
			t.Fatal(err)
		}
	}
	return won
}

func keySchema(partition, sort string) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: &partition, KeyType: types.KeyTypeHash}}
	if sort != "" {
		schema = append(schema, types.KeySchemaElement{AttributeName: &sort, KeyType: types.KeyTypeRange})
	}
	return schema
}

func index(name, partition, sort string, projection types.ProjectionType, more ...string) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: keySchema(partition, sort), Projection: &types.Projection{ProjectionType: projection, NonKeyAttributes: more}}
}

func makeTable(t *testing.T, name string, stream *types.StreamSpecification, indexes ...types.GlobalSecondaryIndex) {
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
	ok[*dynamodb.CreateTableOutput](t)(db.CreateTable(t.Context(), in))
	waiter := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	})
	if err := waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
		t.Fatal(err)
	}
}
