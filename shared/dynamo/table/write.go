package table

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Update is an update of one item; it creates the item if it is absent. In
// Condition, an attribute is written #name, and a value from Values :name.
type Update struct {
	Key    Key
	Set    Item
	Remove []string // attributes, or paths within them as in SetExpressions
	Add    Item
	Delete Item // members of sets

	// SetExpressions set paths inside attributes, or compute values: "#map.#member = :value" and
	// the like, in the notation of Condition. Names maps an alias to the name of a member that is
	// not a plain word.
	SetExpressions []string
	Names          map[string]string

	Condition string
	Values    Item

	Return types.ReturnValue // what a successful write returns; nothing if empty
}

// Update writes an item. If the condition fails, ok is false and answer is the current item, nil if
// absent. Otherwise answer is what Return asks for.
//
// A call whose reply is lost is repeated and may then fail its own condition: the caller must look
// for its own mark in the item.
func (t *Table) Update(ctx context.Context, c Update) (ok bool, answer Item, err error) {
	in := &dynamodb.UpdateItemInput{
		TableName:                           &t.name,
		Key:                                 c.Key.Attributes(),
		ReturnValues:                        c.Return,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	values := maps.Clone(c.Values)
	if values == nil {
		values = Item{}
	}
	var clauses []string
	assign := func(verb, sign string, attrs Item, list ...string) {
		for _, name := range slices.Sorted(maps.Keys(attrs)) {
			values["set_"+name] = attrs[name]
			list = append(list, "#"+name+sign+":set_"+name)
		}
		if len(list) > 0 {
			clauses = append(clauses, verb+" "+strings.Join(list, ", "))
		}
	}
	assign("SET", " = ", c.Set, c.SetExpressions...)
	assign("ADD", " ", c.Add)
	assign("DELETE", " ", c.Delete)
	if len(c.Remove) > 0 {
		clauses = append(clauses, "REMOVE #"+strings.Join(c.Remove, ", #"))
	}
	update := strings.Join(clauses, " ")
	in.UpdateExpression = &update
	in.ConditionExpression = stringOrNil(c.Condition)
	in.ExpressionAttributeNames = attributeNames(update, c.Condition)
	for alias, name := range c.Names {
		in.ExpressionAttributeNames["#"+alias] = name
	}
	in.ExpressionAttributeValues = attributeValues(values)

	return t.write(ctx, func(ctx context.Context) (Item, error) {
		out, err := t.client.UpdateItem(ctx, in, t.options)
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	})
}

// Put writes a whole item, under a condition in the notation of [Update]; "" means no condition. ok
// and old are as in [Table.Update].
func (t *Table) Put(ctx context.Context, it Item, condition string, values Item) (ok bool, old Item, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &t.name,
		Item:                                it,
		ConditionExpression:                 stringOrNil(condition),
		ExpressionAttributeNames:            attributeNames(condition),
		ExpressionAttributeValues:           attributeValues(values),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	return t.write(ctx, func(ctx context.Context) (Item, error) {
		_, err := t.client.PutItem(ctx, in, t.options)
		return nil, err
	})
}

// IfAbsent is the condition that there is no item with the key.
const IfAbsent = "attribute_not_exists(#pk)"

func (t *Table) write(ctx context.Context, send func(context.Context) (Item, error)) (ok bool, answer Item, err error) {
	err = t.retry(ctx, func(ctx context.Context) error {
		answer, err = send(ctx)
		return err
	})
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused):
		answer = Item(refused.Item)
		if len(answer) == 0 {
			answer = nil
		}
		return false, answer, answer.CheckSchema()
	case err != nil:
		return false, nil, err
	}
	return true, answer, answer.CheckSchema()
}

// discardConcurrency is how many items are updated at a time.
const discardConcurrency = 16

// Discard sets a time to live on the items of a partition, except the one with the sort key keep:
// DynamoDB deletes them within days after at. Items that already have one are left unchanged, so
// that a repetition writes nothing.
func (t *Table) Discard(ctx context.Context, pk, keep string, at time.Time) error {
	var keys []Key
	for it, err := range t.Query(ctx, Query{KeyCondition: "#pk = :pk", Values: Item{"pk": S(pk)}, Consistent: true, Projection: []string{topology.AttrTTL}}) {
		if err != nil {
			return err
		}
		if key := it.Key(); key.SK != keep && !it.Has(topology.AttrTTL) {
			keys = append(keys, key)
		}
	}
	return parallel.Each(ctx, discardConcurrency, len(keys), func(ctx context.Context, i int) error {
		_, _, err := t.Update(ctx, Update{Key: keys[i], Set: Item{topology.AttrTTL: N(at.Unix())}, Condition: "attribute_exists(#pk)"})
		return err
	})
}

var namePattern = regexp.MustCompile(`#[A-Za-z][A-Za-z0-9_]*`)

// attributeNames maps every #name in the expressions to its attribute.
func attributeNames(expressions ...string) map[string]string {
	var m map[string]string
	for _, e := range expressions {
		for _, p := range namePattern.FindAllString(e, -1) {
			if m == nil {
				m = map[string]string{}
			}
			m[p] = p[1:]
		}
	}
	return m
}

func attributeValues(values Item) map[string]Value {
	if len(values) == 0 {
		return nil
	}
	m := make(map[string]Value, len(values))
	for name, v := range values {
		m[":"+name] = v
	}
	return m
}

func stringOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return aws.String(s)
}
