package conformance

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// compareValues compares values of the SDK by content; sets have no order.
var compareValues = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{},
		types.AttributeValueMemberNULL{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{}),
}

func allAttributeTypes(t *testing.T) {
	sent := withAttributes(itemKey(t, 1),
		"digits", numberValue("98765432109876543210.987654321098765432"),
		"bytes", &types.AttributeValueMemberB{Value: []byte{255, 0, 10}},
		"yes", &types.AttributeValueMemberBOOL{Value: true},
		"nothing", &types.AttributeValueMemberNULL{Value: true},
		"list", listValue(numberValue(1), stringValue("two"), listValue()),
		"map", &types.AttributeValueMemberM{Value: attributeMap{"empty": stringValue("")}},
		"words", stringSetValue("a", "b"),
		"numbers", &types.AttributeValueMemberNS{Value: []string{"3"}},
		"blobs", &types.AttributeValueMemberBS{Value: [][]byte{{7}}})
	mustPutItem(t, sent)
	if diff := cmp.Diff(sent, getItem(t, itemKey(t, 1)), compareValues); diff != "" {
		t.Fatal(diff)
	}
}

func conditionalPut(t *testing.T) {
	if err := putItem(t, withAttributes(itemKey(t, 1), "by", stringValue("first")), "attribute_not_exists(pk)"); err != nil {
		t.Fatal(err)
	}
	err := putItem(t, withAttributes(itemKey(t, 1), "by", stringValue("second")), "attribute_not_exists(pk)")
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatalf("the second put: %v", err)
	}
	old, is := failed.Item["by"].(*types.AttributeValueMemberS)
	wantEqual(t, "the error has the old item", is && old.Value == "first", true)
}

func racePuts(t *testing.T) {
	for round := range 5 {
		succeeded := runConcurrently(t, 50, func(i int) error {
			return putItem(t, withAttributes(itemKey(t, round), "by", numberValue(i)), "attribute_not_exists(pk)")
		})
		wantEqual(t, "succeeded", succeeded, 1)
	}
}

func raceAdds(t *testing.T) {
	for round := 1; round <= 5; round++ {
		succeeded := runConcurrently(t, 200, func(int) error {
			_, err := updateItem(t, itemKey(t, 1), "ADD hits :one", "", attributeMap{":one": numberValue(1)})
			return err
		})
		wantEqual(t, "additions", succeeded, 200)
		wantEqual(t, "counter", numberAttribute(getItem(t, itemKey(t, 1)), "hits"), numberAttribute(attributeMap{"n": numberValue(200 * round)}, "n"))
	}
}

func raceVersions(t *testing.T) {
	mustPutItem(t, withAttributes(itemKey(t, 1), "version", numberValue(41)))
	succeeded := runConcurrently(t, 50, func(int) error {
		_, err := updateItem(t, itemKey(t, 1), "SET version = version + :one", "version = :seen", attributeMap{":one": numberValue(1), ":seen": numberValue(41)})
		return err
	})
	wantEqual(t, "succeeded", succeeded, 1)
	wantEqual(t, "version", numberAttribute(getItem(t, itemKey(t, 1)), "version"), "42")
}

func updateExpressions(t *testing.T) {
	mustPutItem(t, withAttributes(itemKey(t, 1), "queue", listValue(stringValue("a")), "nested", &types.AttributeValueMemberM{Value: attributeMap{"x": numberValue(1)}},
		"labels", stringSetValue("red", "blue"), "obsolete", stringValue("x"), "sum", numberValue("0.1")))
	got := must[attributeMap](t)(updateItem(t, itemKey(t, 1),
		"SET queue = list_append(queue, :more), begun = if_not_exists(begun, :nine), nested.y = nested.x + :fifth ADD sum2 :nine, ids :ids REMOVE obsolete DELETE labels :red", "",
		attributeMap{":more": listValue(stringValue("b")), ":nine": numberValue(9), ":fifth": numberValue("0.2"), ":ids": &types.AttributeValueMemberNS{Value: []string{"4"}}, ":red": stringSetValue("red")}))
	want := withAttributes(itemKey(t, 1), "queue", listValue(stringValue("a"), stringValue("b")), "begun", numberValue(9), "sum2", numberValue(9),
		"nested", &types.AttributeValueMemberM{Value: attributeMap{"x": numberValue(1), "y": numberValue("1.2")}},
		"labels", stringSetValue("blue"), "ids", &types.AttributeValueMemberNS{Value: []string{"4"}}, "sum", numberValue("0.1"))
	if diff := cmp.Diff(want, got, compareValues); diff != "" {
		t.Fatal(diff)
	}
	got = must[attributeMap](t)(updateItem(t, itemKey(t, 1), "ADD sum2 :fifth", "", attributeMap{":fifth": numberValue("-8.8")}))
	wantEqual(t, "decimal arithmetic 9 - 8.8", numberAttribute(got, "sum2"), "0.2")
	got = must[attributeMap](t)(updateItem(t, itemKey(t, 1), "SET begun = if_not_exists(begun, :one)", "", attributeMap{":one": numberValue(1)}))
	wantEqual(t, "if_not_exists on an existing attribute", numberAttribute(got, "begun"), "9")
}

func conditions(t *testing.T) {
	mustPutItem(t, withAttributes(itemKey(t, 1), "word", stringValue("lockstep"), "five", numberValue(5), "marks", listValue(stringValue("x"), stringValue("y"))))
	values := attributeMap{":lock": stringValue("lock"), ":one": numberValue(1), ":nine": numberValue(9), ":y": stringValue("y"), ":S": stringValue("S")}
	for condition, used := range map[string][]string{
		"begins_with(word, :lock)":                                  {":lock"},
		"five BETWEEN :one AND :nine":                               {":one", ":nine"},
		"contains(marks, :y)":                                       {":y"},
		"size(marks) > :one":                                        {":one"},
		"attribute_type(word, :S)":                                  {":S"},
		"NOT five IN (:one, :nine)":                                 {":one", ":nine"},
		"attribute_exists(word) AND five <> :one":                   {":one"},
		"(attribute_exists(gone) OR five >= :one) AND five < :nine": {":one", ":nine"},
	} {
		given := attributeMap{":z": numberValue(0)}
		for _, name := range used {
			given[name] = values[name]
		}
		if _, err := updateItem(t, itemKey(t, 1), "SET touched = :z", condition, given); err != nil {
			t.Errorf("%s does not hold: %v", condition, err)
		}
		_, err := updateItem(t, itemKey(t, 1), "SET touched = :z", "NOT ("+condition+")", given)
		wantErrorCode(t, "NOT "+condition, err, "ConditionalCheckFailedException")
	}
}
