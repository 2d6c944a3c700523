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

const isNew = "attribute_not_exists(pk)"

func putting(it item, condition string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: it, ConditionExpression: optional(condition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

func adding(key item, n int) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: key, UpdateExpression: aws.String("ADD n :n"), ExpressionAttributeValues: item{":n": num(n)}}}
}

func transact(t *testing.T, token string, writes ...types.TransactWriteItem) (*dynamodb.TransactWriteItemsOutput, error) {
	return db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: writes, ClientRequestToken: optional(token), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
}

// why lists the reasons of a cancelled transaction, "" for any other error.
func why(err error) string {
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
		mustPut(t, plus(at(t, sort), "n", num(1)))
	}
	ok[*dynamodb.TransactWriteItemsOutput](t)(transact(t, "",
		putting(at(t, "put"), isNew),
		adding(at(t, "updated"), 4),
		types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: at(t, "deleted")}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: at(t, "checked"), ConditionExpression: aws.String("attribute_exists(pk)")}},
	))
	var reads []types.TransactGetItem
	for _, sort := range []string{"put", "updated", "deleted", "checked"} {
		reads = append(reads, types.TransactGetItem{Get: &types.Get{TableName: &table, Key: at(t, sort)}})
	}
	got := ok[*dynamodb.TransactGetItemsOutput](t)(db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: reads})).Responses
	same(t, "answers", len(got), 4)
	same(t, "put", len(got[0].Item), 2)
	same(t, "updated", number(got[1].Item, "n"), "5")
	same(t, "deleted", len(got[2].Item), 0)
	same(t, "checked", number(got[3].Item, "n"), "1")
}

func cancelledTransaction(t *testing.T) {
	mustPut(t, plus(at(t, "b"), "n", num(1)))
	_, err := transact(t, "", putting(at(t, "a"), isNew), putting(plus(at(t, "b"), "n", num(2)), isNew), adding(at(t, "c"), 1))
	same(t, "reasons", why(err), "None ConditionalCheckFailed None")
	var cancelled *types.TransactionCanceledException
	same(t, "old item in the reason", errors.As(err, &cancelled) && number(cancelled.CancellationReasons[1].Item, "n") == "1", true)
	left := ask(t, "", "pk = :p", item{":p": str(t.Name())}).Items
	same(t, "items afterwards", len(left), 1)
	same(t, "the one", number(left[0], "n"), "1")
}

func transactionLimits(t *testing.T) {
	many := func(n int, name string) (writes []types.TransactWriteItem) {
		for i := range n {
			writes = append(writes, putting(at(t, name+string(rune('0'+i))), isNew))
		}
		return writes
	}
	ok[*dynamodb.TransactWriteItemsOutput](t)(transact(t, "", many(100, "x")...))
	same(t, "items", int(ask(t, "", "pk = :p", item{":p": str(t.Name())}).Count), 100)
	_, err := transact(t, "", many(101, "y")...)
	refused(t, "101 items", err, "ValidationException")
	_, err = transact(t, "", adding(at(t, "z"), 1), adding(at(t, "z"), 1))
	refused(t, "one item twice", err, "ValidationException")
}

func transactionToken(t *testing.T) {
	token := run + "-token"
	for range 3 {
		ok[*dynamodb.TransactWriteItemsOutput](t)(transact(t, token, adding(at(t, 1), 7)))
	}
	same(t, "sum after three tries", number(get(t, at(t, 1)), "n"), "7")
	_, err := transact(t, token, adding(at(t, 1), 8))
	refused(t, "the same token for another transaction", err, "IdempotentParameterMismatchException")
}

// Claims in crossed orders: one takes both items, the others none.
func raceClaims(t *testing.T) {
	for round := range 3 {
		left, right := string(rune('a'+round))+"-left", string(rune('a'+round))+"-right"
		won := atOnce(t, 30, func(i int) error {
			claims := []types.TransactWriteItem{putting(plus(at(t, left), "owner", num(i)), isNew), putting(plus(at(t, right), "owner", num(i)), isNew)}
			if i%2 == 0 {
				claims[0], claims[1] = claims[1], claims[0]
			}
			for try := 0; ; try++ { // a conflict decides nothing
				_, err := transact(t, "", claims...)
				if try == 20 || !strings.Contains(why(err), "TransactionConflict") {
					return err
				}
				time.Sleep(time.Duration(try) * time.Millisecond)
			}
		})
		same(t, "winners", won, 1)
		same(t, "owners", number(get(t, at(t, left)), "owner"), number(get(t, at(t, right)), "owner"))
	}
}
