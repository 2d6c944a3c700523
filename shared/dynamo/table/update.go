package table

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Update is an update of one item, which comes to be if it is absent. In If, an
// attribute is written #name and a value :name, the latter given in With.
type Update struct {
	Key    Key
	Set    Item
	Remove []string // attributes, or places within them as in Within
	Add    Item
	Delete Item // members of sets

	// SetExpressions sets places inside attributes, or by arithmetic: "#map.#place =
	// :value" and the like, in the notation of If. Named says what a place is
	// called whose name is no plain word.
	SetExpressions []string
	Names          map[string]string

	Condition string
	Values    Item

	Return types.ReturnValue // what a write that was done returns; nothing if empty
}

// Update writes a change. If its condition does not hold, ok is false and the
// answer is the item as it stands, nil if absent. If it was done, the answer is
// what Return asks for.
//
// A call whose reply is lost is repeated, and then may fail its own condition:
// the caller has to look for its own mark in the item.
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

// Put writes a whole item, under a condition in the notation of [Change].
func (t *Table) Put(ctx context.Context, it Item, condition string, with Item) (ok bool, old Item, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &t.name,
		Item:                                it,
		ConditionExpression:                 stringOrNil(condition),
		ExpressionAttributeNames:            attributeNames(condition),
		ExpressionAttributeValues:           attributeValues(with),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	return t.write(ctx, func(ctx context.Context) (Item, error) {
		_, err := t.client.PutItem(ctx, in, t.options)
		return nil, err
	})
}

// IfAbsent is the condition that there is no item under the key.
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
		return false, answer, answer.checkSchema()
	case err != nil:
		return false, nil, err
	}
	return true, answer, answer.checkSchema()
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
