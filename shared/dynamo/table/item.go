package table

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Value is one attribute's value.
type Value = types.AttributeValue

// Item is an item, or a part of one. Reading an attribute that is absent, or of
// another type, gives its zero value.
type Item map[string]Value

// S makes a string.
func S(s string) Value { return &types.AttributeValueMemberS{Value: s} }

// N makes a whole number.
func N(n int64) Value { return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)} }

// B makes a binary value.
func B(b []byte) Value { return &types.AttributeValueMemberB{Value: b} }

// True makes the value true.
func True() Value { return &types.AttributeValueMemberBOOL{Value: true} }

// M makes a map.
func M(it Item) Value { return &types.AttributeValueMemberM{Value: it} }

// StringSet makes a set of strings. DynamoDB has no empty sets: leave the attribute
// out instead.
func StringSet(s ...string) Value { return &types.AttributeValueMemberSS{Value: s} }

// List makes a list of strings.
func List(s ...string) Value {
	list := make([]Value, len(s))
	for i, one := range s {
		list[i] = S(one)
	}
	return &types.AttributeValueMemberL{Value: list}
}

// Float makes a number that may have a fraction.
func Float(f float64) Value {
	return &types.AttributeValueMemberN{Value: strconv.FormatFloat(f, 'f', -1, 64)}
}

// NumberSet makes a set of whole numbers.
func NumberSet(ns ...int) Value {
	set := make([]string, len(ns))
	for i, n := range ns {
		set[i] = strconv.Itoa(n)
	}
	return &types.AttributeValueMemberNS{Value: set}
}

// Key returns the item's key.
func (it Item) Key() Key { return Key{it.Text(topology.AttrPK), it.Text(topology.AttrSK)} }

// Text returns a string attribute.
func (it Item) Text(name string) string {
	if v, ok := it[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

// Int returns a whole number.
func (it Item) Int(name string) int64 {
	if v, ok := it[name].(*types.AttributeValueMemberN); ok {
		n, _ := strconv.ParseInt(v.Value, 10, 64)
		return n
	}
	return 0
}

// Float returns a number.
func (it Item) Float(name string) float64 {
	if v, ok := it[name].(*types.AttributeValueMemberN); ok {
		f, _ := strconv.ParseFloat(v.Value, 64)
		return f
	}
	return 0
}

// Bytes returns a binary attribute.
func (it Item) Bytes(name string) []byte {
	if v, ok := it[name].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

// Map returns a map; nil if absent.
func (it Item) Map(name string) Item {
	if v, ok := it[name].(*types.AttributeValueMemberM); ok {
		return v.Value
	}
	return nil
}

// Has reports whether the item has the attribute.
func (it Item) Has(name string) bool { _, ok := it[name]; return ok }

// StringSet returns a set of strings, in no order.
func (it Item) StringSet(name string) []string {
	if v, ok := it[name].(*types.AttributeValueMemberSS); ok {
		return v.Value
	}
	return nil
}

// List returns a list of strings.
func (it Item) List(name string) []string {
	v, ok := it[name].(*types.AttributeValueMemberL)
	if !ok {
		return nil
	}
	list := make([]string, 0, len(v.Value))
	for _, one := range v.Value {
		if s, ok := one.(*types.AttributeValueMemberS); ok {
			list = append(list, s.Value)
		}
	}
	return list
}

// NumberSet returns a set of whole numbers, in no order.
func (it Item) NumberSet(name string) []int {
	v, ok := it[name].(*types.AttributeValueMemberNS)
	if !ok {
		return nil
	}
	ns := make([]int, 0, len(v.Value))
	for _, s := range v.Value {
		if n, err := strconv.Atoi(s); err == nil {
			ns = append(ns, n)
		}
	}
	return ns
}

// AttrSchema is the attribute with an item's schema version; absent means 1.
const AttrSchema = "schema"

// CheckSchema refuses an item that a newer version wrote.
func (it Item) CheckSchema() error {
	if it.Int(AttrSchema) > workflow.SchemaVersion {
		return NewerVersionError()
	}
	return nil
}

// NewerVersionError is the error about stored data that a newer version wrote.
func NewerVersionError() error {
	return workflow.Errorf(workflow.CodeUnavailable, "the item was written by a newer version of the engine")
}

// Size returns the size of an item in bytes, as DynamoDB counts it: names and values in UTF-8,
// numbers at half a byte for each digit.
func (it Item) Size() int {
	n := 0
	for name, v := range it {
		n += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += numberSize(v.Value)
		case *types.AttributeValueMemberSS:
			for _, s := range v.Value {
				n += len(s)
			}
		case *types.AttributeValueMemberNS:
			for _, s := range v.Value {
				n += numberSize(s)
			}
		case *types.AttributeValueMemberM:
			n += 3 + len(v.Value) + Item(v.Value).Size() // a map counts three bytes, and one for each member
		case *types.AttributeValueMemberL:
			n += 3 + len(v.Value) // as a map
			for _, one := range v.Value {
				n += Item{"": one}.Size()
			}
		default:
			n++
		}
	}
	return n
}

func numberSize(digits string) int { return (len(digits)+1)/2 + 1 }

// Millis returns a time as stored, in Unix milliseconds; 0 for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis is the inverse of [Millis], in UTC.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
