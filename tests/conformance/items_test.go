package conformance

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// exported compares values of the SDK by their contents; sets have no order.
var exported = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{},
		types.AttributeValueMemberNULL{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{}),
}

func everyType(t *testing.T) {
	sent := plus(at(t, 1),
		"digits", num("98765432109876543210.987654321098765432"),
		"bytes", &types.AttributeValueMemberB{Value: []byte{255, 0, 10}},
		"yes", &types.AttributeValueMemberBOOL{Value: true},
		"nothing", &types.AttributeValueMemberNULL{Value: true},
		"list", list(num(1), str("two"), list()),
		"map", &types.AttributeValueMemberM{Value: item{"empty": str("")}},
		"words", strs("a", "b"),
		"numbers", &types.AttributeValueMemberNS{Value: []string{"3"}},
		"blobs", &types.AttributeValueMemberBS{Value: [][]byte{{7}}})
	mustPut(t, sent)
	if diff := cmp.Diff(sent, get(t, at(t, 1)), exported); diff != "" {
		t.Fatal(diff)
	}
}

func conditionalPut(t *testing.T) {
	if err := put(t, plus(at(t, 1), "by", str("first")), "attribute_not_exists(pk)"); err != nil {
		t.Fatal(err)
	}
	err := put(t, plus(at(t, 1), "by", str("second")), "attribute_not_exists(pk)")
	var lost *types.ConditionalCheckFailedException
	if !errors.As(err, &lost) {
		t.Fatalf("the second put: %v", err)
	}
	old, is := lost.Item["by"].(*types.AttributeValueMemberS)
	same(t, "the error brings the old item", is && old.Value == "first", true)
}

func racePuts(t *testing.T) {
	for round := range 5 {
		won := atOnce(t, 50, func(i int) error {
			return put(t, plus(at(t, round), "by", num(i)), "attribute_not_exists(pk)")
		})
		same(t, "winners", won, 1)
	}
}

func raceAdds(t *testing.T) {
	for round := 1; round <= 5; round++ {
		won := atOnce(t, 200, func(int) error {
			_, err := update(t, at(t, 1), "ADD hits :one", "", item{":one": num(1)})
			return err
		})
		same(t, "additions", won, 200)
		same(t, "counter", number(get(t, at(t, 1)), "hits"), number(item{"n": num(200 * round)}, "n"))
	}
}

func raceVersions(t *testing.T) {
	mustPut(t, plus(at(t, 1), "version", num(41)))
	won := atOnce(t, 50, func(int) error {
		_, err := update(t, at(t, 1), "SET version = version + :one", "version = :seen", item{":one": num(1), ":seen": num(41)})
		return err
	})
	same(t, "winners", won, 1)
	same(t, "version", number(get(t, at(t, 1)), "version"), "42")
}

func updateExpressions(t *testing.T) {
	mustPut(t, plus(at(t, 1), "queue", list(str("a")), "nested", &types.AttributeValueMemberM{Value: item{"x": num(1)}},
		"labels", strs("red", "blue"), "obsolete", str("x"), "sum", num("0.1")))
	got := ok[item](t)(update(t, at(t, 1),
		"SET queue = list_append(queue, :more), begun = if_not_exists(begun, :nine), nested.y = nested.x + :fifth ADD sum2 :nine, ids :ids REMOVE obsolete DELETE labels :red", "",
		item{":more": list(str("b")), ":nine": num(9), ":fifth": num("0.2"), ":ids": &types.AttributeValueMemberNS{Value: []string{"4"}}, ":red": strs("red")}))
	want := plus(at(t, 1), "queue", list(str("a"), str("b")), "begun", num(9), "sum2", num(9),
		"nested", &types.AttributeValueMemberM{Value: item{"x": num(1), "y": num("1.2")}},
		"labels", strs("blue"), "ids", &types.AttributeValueMemberNS{Value: []string{"4"}}, "sum", num("0.1"))
	if diff := cmp.Diff(want, got, exported); diff != "" {
		t.Fatal(diff)
	}
	got = ok[item](t)(update(t, at(t, 1), "ADD sum2 :fifth", "", item{":fifth": num("-8.8")}))
	same(t, "decimal arithmetic 9 - 8.8", number(got, "sum2"), "0.2")
	got = ok[item](t)(update(t, at(t, 1), "SET begun = if_not_exists(begun, :one)", "", item{":one": num(1)}))
	same(t, "if_not_exists on what exists", number(got, "begun"), "9")
}

func conditions(t *testing.T) {
	mustPut(t, plus(at(t, 1), "word", str("lockstep"), "five", num(5), "marks", list(str("x"), str("y"))))
	values := item{":lock": str("lock"), ":one": num(1), ":nine": num(9), ":y": str("y"), ":S": str("S")}
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
		given := item{":z": num(0)}
		for _, name := range used {
			given[name] = values[name]
		}
		if _, err := update(t, at(t, 1), "SET touched = :z", condition, given); err != nil {
			t.Errorf("%s does not hold: %v", condition, err)
		}
		_, err := update(t, at(t, 1), "SET touched = :z", "NOT ("+condition+")", given)
		refused(t, "NOT "+condition, err, "ConditionalCheckFailedException")
	}
}
