package conformance

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func indexOrder(t *testing.T) {
	for i := range 9 {
		mustPutItem(t, withAttributes(itemKey(t, i), "colour", stringValue("red"), "weight", numberValue(i*5-20)))
		wantEqual(t, "items in the index after a write", len(query(t, "all", "colour = :c", attributeMap{":c": stringValue("red")}).Items), i+1)
	}
	pages := dynamodb.NewQueryPaginator(dynamoClient, &dynamodb.QueryInput{
		TableName: &table, IndexName: aws.String("all"), KeyConditionExpression: aws.String("colour = :c AND weight > :w"),
		ExpressionAttributeValues: attributeMap{":c": stringValue("red"), ":w": numberValue(-20)}, ScanIndexForward: aws.Bool(false), Limit: aws.Int32(3),
	})
	var weights []string
	for pages.HasMorePages() {
		for _, it := range must[*dynamodb.QueryOutput](t)(pages.NextPage(t.Context())).Items {
			weights = append(weights, numberAttribute(it, "weight"))
		}
	}
	wantEqual(t, "weights, numerically, downwards", strings.Join(weights, " "), "20 15 10 5 0 -5 -10 -15")
}

func indexContents(t *testing.T) {
	found := func(indexName, shape string) []attributeMap {
		return query(t, indexName, "shape = :s", attributeMap{":s": stringValue(shape)}).Items
	}
	mustPutItem(t, withAttributes(itemKey(t, 1), "shape", stringValue("cube"), "weight", numberValue(1), "note", stringValue("n"), "secret", stringValue("s")))
	keysOnly, some := found("keys", "cube"), found("some", "cube")
	if len(keysOnly) != 1 || len(some) != 1 {
		t.Fatalf("not in both indexes: %v, %v", keysOnly, some)
	}
	wantEqual(t, "attributes with KEYS_ONLY: pk, sk, shape", len(keysOnly[0]), 3)
	wantEqual(t, "attributes with INCLUDE note: weight, note besides", len(some[0]), 5)
	must[attributeMap](t)(updateItem(t, itemKey(t, 1), "SET shape = :s", "", attributeMap{":s": stringValue("ball")}))
	wantEqual(t, "under the old key", len(found("some", "cube")), 0)
	wantEqual(t, "under the new key", len(found("some", "ball")), 1)
	must[attributeMap](t)(updateItem(t, itemKey(t, 1), "REMOVE weight", "", nil))
	wantEqual(t, "without its sort key", len(found("some", "ball")), 0)
	wantEqual(t, "in the index that does not need it", len(found("keys", "ball")), 1)
	must[*dynamodb.DeleteItemOutput](t)(dynamoClient.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: itemKey(t, 1)}))
	wantEqual(t, "after the delete", len(found("keys", "ball")), 0)
}

func queryFilters(t *testing.T) {
	for i, sort := range strings.Split("a1 a2 a3 a4 a5 a6 b1 b2", " ") {
		mustPutItem(t, withAttributes(itemKey(t, sort), "n", numberValue(i)))
	}
	mine := stringValue(t.Name())
	out := query(t, "", "pk = :p AND begins_with(sk, :a)", attributeMap{":p": mine, ":a": stringValue("a"), ":n": numberValue(3)}, func(in *dynamodb.QueryInput) {
		in.FilterExpression, in.Limit = aws.String("n >= :n"), aws.Int32(5)
	})
	wantEqual(t, "found behind the filter", out.Count, 2)
	wantEqual(t, "the limit counts before the filter", out.ScannedCount, 5)
	wantEqual(t, "there is more", out.LastEvaluatedKey != nil, true)
	out = query(t, "", "pk = :p AND sk BETWEEN :x AND :y", attributeMap{":p": mine, ":x": stringValue("a5"), ":y": stringValue("b1")}, func(in *dynamodb.QueryInput) {
		in.Select = types.SelectCount
	})
	wantEqual(t, "counted", out.Count, 3)
	wantEqual(t, "items with a count", len(out.Items), 0)
	out = query(t, "", "pk = :p AND sk > :x", attributeMap{":p": mine, ":x": stringValue("a6")})
	wantEqual(t, "greater", out.Count, 2)
}

func queryPages(t *testing.T) {
	for i := range 6 {
		mustPutItem(t, withAttributes(itemKey(t, i), "data", stringValue(strings.Repeat("x", 250_000))))
	}
	pages := dynamodb.NewQueryPaginator(dynamoClient, &dynamodb.QueryInput{TableName: &table, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: attributeMap{":p": stringValue(t.Name())}})
	var sizes []int
	for pages.HasMorePages() {
		sizes = append(sizes, len(must[*dynamodb.QueryOutput](t)(pages.NextPage(t.Context())).Items))
	}
	if len(sizes) < 2 || sizes[0] > 5 || sizes[0] < 4 || sizes[0]+sizes[1] != 6 {
		t.Fatalf("six items of 250 KB come in pages of %v", sizes)
	}
}

func projections(t *testing.T) {
	mustPutItem(t, withAttributes(itemKey(t, 1), "name", stringValue("n"), "deep", &types.AttributeValueMemberM{Value: attributeMap{"a": numberValue(1), "b": numberValue(2)}}, "cells", listValue(stringValue("x"), stringValue("y"))))
	got := must[*dynamodb.GetItemOutput](t)(dynamoClient.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &table, Key: itemKey(t, 1), ProjectionExpression: aws.String("#n, deep.b, cells[1]"), ExpressionAttributeNames: map[string]string{"#n": "name"},
	})).Item
	deep, isMap := got["deep"].(*types.AttributeValueMemberM)
	row, isList := got["cells"].(*types.AttributeValueMemberL)
	if len(got) != 3 || !isMap || len(deep.Value) != 1 || numberAttribute(deep.Value, "b") != "2" || !isList || len(row.Value) != 1 {
		t.Fatalf("got %v", got)
	}
}

func parallelScan(t *testing.T) {
	for i := range 11 {
		mustPutItem(t, withAttributes(attributeMap{"pk": stringValue(t.Name() + string(rune('a'+i))), "sk": stringValue("x")}, "scanned", numberValue(i)))
	}
	count := 0
	for segment := range int32(4) {
		pages := dynamodb.NewScanPaginator(dynamoClient, &dynamodb.ScanInput{
			TableName: &table, Segment: aws.Int32(segment), TotalSegments: aws.Int32(4), Limit: aws.Int32(100),
			FilterExpression: aws.String("begins_with(pk, :p) AND attribute_exists(scanned)"), ExpressionAttributeValues: attributeMap{":p": stringValue(t.Name())},
		})
		for pages.HasMorePages() {
			count += len(must[*dynamodb.ScanOutput](t)(pages.NextPage(t.Context())).Items)
		}
	}
	wantEqual(t, "found in four segments", count, 11)
}

func batches(t *testing.T) {
	write := func(from, to int) error {
		var all []types.WriteRequest
		for i := from; i < to; i++ {
			all = append(all, types.WriteRequest{PutRequest: &types.PutRequest{Item: itemKey(t, i)}})
		}
		out, err := dynamoClient.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: all}})
		if err == nil {
			wantEqual(t, "left over", len(out.UnprocessedItems), 0)
		}
		return err
	}
	var wanted []attributeMap
	for i := range 100 {
		wanted = append(wanted, itemKey(t, i))
	}
	for from := 0; from < 100; from += 25 {
		if err := write(from, from+25); err != nil {
			t.Fatal(err)
		}
	}
	got := must[*dynamodb.BatchGetItemOutput](t)(dynamoClient.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: wanted}}}))
	wantEqual(t, "read", len(got.Responses[table]), 100)
	wantErrorCode(t, "26 writes", write(100, 126), "ValidationException")
	wantEqual(t, "written by the rejected batch", len(getItem(t, itemKey(t, 100))), 0)
}
