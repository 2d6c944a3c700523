package conformance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const itemDoesNotExist = "attribute_not_exists(pk)"

func transactPut(it attributeMap, condition string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: it, ConditionExpression: optional(condition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

func transactAdd(key attributeMap, n int) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: key, UpdateExpression: aws.String("ADD n :n"), ExpressionAttributeValues: attributeMap{":n": numberValue(n)}}}
}

func transact(t *testing.T, token string, writes ...types.TransactWriteItem) (*dynamodb.TransactWriteItemsOutput, error) {
	return dynamoClient.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: writes, ClientRequestToken: optional(token), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
}

// cancellationReasons lists the reasons of a cancelled transaction, "" for any other error.
func cancellationReasons(err error) string {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		return ""
	}
	var codes []string
	for _, reason := range cancelled.CancellationReasons {
		codes = append(codes, aws.ToString(reason.Code))
	}
	return strings.Join(codes, " ")
}

func transaction(t *testing.T) {
	for _, sort := range []string{"updated", "deleted", "checked"} {
		mustPutItem(t, withAttributes(itemKey(t, sort), "n", numberValue(1)))
	}
	must[*dynamodb.TransactWriteItemsOutput](t)(transact(t, "",
		transactPut(itemKey(t, "put"), itemDoesNotExist),
		transactAdd(itemKey(t, "updated"), 4),
		types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: itemKey(t, "deleted")}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: itemKey(t, "checked"), ConditionExpression: aws.String("attribute_exists(pk)")}},
	))
	var reads []types.TransactGetItem
	for _, sort := range []string{"put", "updated", "deleted", "checked"} {
		reads = append(reads, types.TransactGetItem{Get: &types.Get{TableName: &table, Key: itemKey(t, sort)}})
	}
	got := must[*dynamodb.TransactGetItemsOutput](t)(dynamoClient.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: reads})).Responses
	wantEqual(t, "answers", len(got), 4)
	wantEqual(t, "put", len(got[0].Item), 2)
	wantEqual(t, "updated", numberAttribute(got[1].Item, "n"), "5")
	wantEqual(t, "deleted", len(got[2].Item), 0)
	wantEqual(t, "checked", numberAttribute(got[3].Item, "n"), "1")
}

func cancelledTransaction(t *testing.T) {
	mustPutItem(t, withAttributes(itemKey(t, "b"), "n", numberValue(1)))
	_, err := transact(t, "", transactPut(itemKey(t, "a"), itemDoesNotExist), transactPut(withAttributes(itemKey(t, "b"), "n", numberValue(2)), itemDoesNotExist), transactAdd(itemKey(t, "c"), 1))
	wantEqual(t, "reasons", cancellationReasons(err), "None ConditionalCheckFailed None")
	var cancelled *types.TransactionCanceledException
	wantEqual(t, "old item in the reason", errors.As(err, &cancelled) && numberAttribute(cancelled.CancellationReasons[1].Item, "n") == "1", true)
	items := query(t, "", "pk = :p", attributeMap{":p": stringValue(t.Name())}).Items
	wantEqual(t, "items afterwards", len(items), 1)
	wantEqual(t, "attribute of the remaining item", numberAttribute(items[0], "n"), "1")
}

func transactionLimits(t *testing.T) {
	many := func(n int, name string) (writes []types.TransactWriteItem) {
		for i := range n {
			writes = append(writes, transactPut(itemKey(t, name+string(rune('0'+i))), itemDoesNotExist))
		}
		return writes
	}
	must[*dynamodb.TransactWriteItemsOutput](t)(transact(t, "", many(100, "x")...))
	wantEqual(t, "items", int(query(t, "", "pk = :p", attributeMap{":p": stringValue(t.Name())}).Count), 100)
	_, err := transact(t, "", many(101, "y")...)
	wantErrorCode(t, "101 items", err, "ValidationException")
	_, err = transact(t, "", transactAdd(itemKey(t, "z"), 1), transactAdd(itemKey(t, "z"), 1))
	wantErrorCode(t, "one item twice", err, "ValidationException")
}

func transactionToken(t *testing.T) {
	token := namePrefix + "-token"
	for range 3 {
		must[*dynamodb.TransactWriteItemsOutput](t)(transact(t, token, transactAdd(itemKey(t, 1), 7)))
	}
	wantEqual(t, "sum after three attempts", numberAttribute(getItem(t, itemKey(t, 1)), "n"), "7")
	_, err := transact(t, token, transactAdd(itemKey(t, 1), 8))
	wantErrorCode(t, "the same token for another transaction", err, "IdempotentParameterMismatchException")
}

// Claims name the two items in either order: one gets both items, the others none.
func raceClaims(t *testing.T) {
	for round := range 3 {
		left, right := string(rune('a'+round))+"-left", string(rune('a'+round))+"-right"
		succeeded := runConcurrently(t, 30, func(i int) error {
			claims := []types.TransactWriteItem{transactPut(withAttributes(itemKey(t, left), "owner", numberValue(i)), itemDoesNotExist), transactPut(withAttributes(itemKey(t, right), "owner", numberValue(i)), itemDoesNotExist)}
			if i%2 == 0 {
				claims[0], claims[1] = claims[1], claims[0]
			}
			for try := 0; ; try++ { // after a conflict nobody has the items
				_, err := transact(t, "", claims...)
				if try == 20 || !strings.Contains(cancellationReasons(err), "TransactionConflict") {
					return err
				}
				time.Sleep(time.Duration(try) * time.Millisecond)
			}
		})
		wantEqual(t, "succeeded", succeeded, 1)
		wantEqual(t, "owners", numberAttribute(getItem(t, itemKey(t, left)), "owner"), numberAttribute(getItem(t, itemKey(t, right)), "owner"))
	}
}
