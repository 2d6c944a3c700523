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
		mustPut(t, plus(at(t, i), "colour", str("red"), "weight", num(i*5-20)))
		same(t, "items in the index after a write", len(ask(t, "all", "colour = :c", item{":c": str("red")}).Items), i+1)
	}
	pages := dynamodb.NewQueryPaginator(db, &dynamodb.QueryInput{
		TableName: &table, IndexName: aws.String("all"), KeyConditionExpression: aws.String("colour = :c AND weight > :w"),
		ExpressionAttributeValues: item{":c": str("red"), ":w": num(-20)}, ScanIndexForward: aws.Bool(false), Limit: aws.Int32(3),
	})
	var weights []string
	for pages.HasMorePages() {
		for _, it := range ok[*dynamodb.QueryOutput](t)(pages.NextPage(t.Context())).Items {
			weights = append(weights, number(it, "weight"))
		}
	}
	same(t, "weights, numerically, downwards", strings.Join(weights, " "), "20 15 10 5 0 -5 -10 -15")
}

func indexContents(t *testing.T) {
	found := func(indexName, shape string) []item {
		return ask(t, indexName, "shape = :s", item{":s": str(shape)}).Items
	}
	mustPut(t, plus(at(t, 1), "shape", str("cube"), "weight", num(1), "note", str("n"), "secret", str("s")))
	keysOnly, some := found("keys", "cube"), found("some", "cube")
	if len(keysOnly) != 1 || len(some) != 1 {
		t.Fatalf("not in both indexes: %v, %v", keysOnly, some)
	}
	same(t, "attributes with KEYS_ONLY: pk, sk, shape", len(keysOnly[0]), 3)
	same(t, "attributes with INCLUDE note: weight, note besides", len(some[0]), 5)
	ok[item](t)(update(t, at(t, 1), "SET shape = :s", "", item{":s": str("ball")}))
	same(t, "under the old key", len(found("some", "cube")), 0)
	same(t, "under the new key", len(found("some", "ball")), 1)
	ok[item](t)(update(t, at(t, 1), "REMOVE weight", "", nil))
	same(t, "without its sort key", len(found("some", "ball")), 0)
	same(t, "in the index that does not need it", len(found("keys", "ball")), 1)
	ok[*dynamodb.DeleteItemOutput](t)(db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: at(t, 1)}))
	same(t, "after the delete", len(found("keys", "ball")), 0)
}

func queryFilters(t *testing.T) {
	for i, sort := range strings.Split("a1 a2 a3 a4 a5 a6 b1 b2", " ") {
		mustPut(t, plus(at(t, sort), "n", num(i)))
	}
	mine := str(t.Name())
	out := ask(t, "", "pk = :p AND begins_with(sk, :a)", item{":p": mine, ":a": str("a"), ":n": num(3)}, func(in *dynamodb.QueryInput) {
		in.FilterExpression, in.Limit = aws.String("n >= :n"), aws.Int32(5)
	})
	same(t, "found behind the filter", out.Count, 2)
	same(t, "the limit counts before the filter", out.ScannedCount, 5)
	same(t, "there is more", out.LastEvaluatedKey != nil, true)
	out = ask(t, "", "pk = :p AND sk BETWEEN :x AND :y", item{":p": mine, ":x": str("a5"), ":y": str("b1")}, func(in *dynamodb.QueryInput) {
		in.Select = types.SelectCount
	})
	same(t, "counted", out.Count, 3)
	same(t, "items with a count", len(out.Items), 0)
	out = ask(t, "", "pk = :p AND sk > :x", item{":p": mine, ":x": str("a6")})
	same(t, "greater", out.Count, 2)
}

func queryPages(t *testing.T) {
	for i := range 6 {
		mustPut(t, plus(at(t, i), "data", str(strings.Repeat("x", 250_000))))
	}
	pages := dynamodb.NewQueryPaginator(db, &dynamodb.QueryInput{TableName: &table, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str(t.Name())}})
	var sizes []int
	for pages.HasMorePages() {
		sizes = append(sizes, len(ok[*dynamodb.QueryOutput](t)(pages.NextPage(t.Context())).Items))
	}
	if len(sizes) < 2 || sizes[0] > 5 || sizes[0] < 4 || sizes[0]+sizes[1] != 6 {
		t.Fatalf("six items of 250 KB come in pages of %v", sizes)
	}
}

func projections(t *testing.T) {
	mustPut(t, plus(at(t, 1), "name", str("n"), "deep", &types.AttributeValueMemberM{Value: item{"a": num(1), "b": num(2)}}, "cells", list(str("x"), str("y"))))
	got := ok[*dynamodb.GetItemOutput](t)(db.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &table, Key: at(t, 1), ProjectionExpression: aws.String("#n, deep.b, cells[1]"), ExpressionAttributeNames: map[string]string{"#n": "name"},
	})).Item
	deep, isMap := got["deep"].(*types.AttributeValueMemberM)
	row, isList := got["cells"].(*types.AttributeValueMemberL)
	if len(got) != 3 || !isMap || len(deep.Value) != 1 || number(deep.Value, "b") != "2" || !isList || len(row.Value) != 1 {
		t.Fatalf("got %v", got)
	}
}

func parallelScan(t *testing.T) {
	for i := range 11 {
		mustPut(t, plus(item{"pk": str(t.Name() + string(rune('a'+i))), "sk": str("x")}, "scanned", num(i)))
	}
	count := 0
	for segment := range int32(4) {
		pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{
			TableName: &table, Segment: aws.Int32(segment), TotalSegments: aws.Int32(4), Limit: aws.Int32(100),
			FilterExpression: aws.String("begins_with(pk, :p) AND attribute_exists(scanned)"), ExpressionAttributeValues: item{":p": str(t.Name())},
		})
		for pages.HasMorePages() {
			count += len(ok[*dynamodb.ScanOutput](t)(pages.NextPage(t.Context())).Items)
		}
	}
	same(t, "found in four segments", count, 11)
}

func batches(t *testing.T) {
	write := func(from, to int) error {
		var all []types.WriteRequest
		for i := from; i < to; i++ {
			all = append(all, types.WriteRequest{PutRequest: &types.PutRequest{Item: at(t, i)}})
		}
		out, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: all}})
		if err == nil {
			same(t, "left over", len(out.UnprocessedItems), 0)
		}
		return err
	}
	var wanted []item
	for i := range 100 {
		wanted = append(wanted, at(t, i))
	}
	for from := 0; from < 100; from += 25 {
		if err := write(from, from+25); err != nil {
			t.Fatal(err)
		}
	}
	got := ok[*dynamodb.BatchGetItemOutput](t)(db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: wanted}}}))
	same(t, "read", len(got.Responses[table]), 100)
	refused(t, "26 writes", write(100, 126), "ValidationException")
	same(t, "written by the refused batch", len(get(t, at(t, 100))), 0)
}
