package table

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Table is one table as seen by one piece of work: what it consumes is counted
// into its meter. It is cheap; make one for each piece of work.
type Table struct {
	client *dynamodb.Client
	name   string
	role   string
	meter  *cost.Meter
}

// New opens a table by its physical name. role is one of topology's table roles
// and is what units are counted under; a nil meter counts nothing.
func New(client *dynamodb.Client, name, role string, meter *cost.Meter) *Table {
	return &Table{client: client, name: name, role: role, meter: meter}
}

// options of every call: the meter, and no repetition below ours, so that all
// attempts follow one rule.
func (t *Table) options(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	o.APIOptions = append(o.APIOptions, capacityMeter{t.role, t.meter}.register)
}

// Key names an item.
type Key struct{ PK, SK string }

// Attributes are the key as an item.
func (k Key) Attributes() Item {
	return Item{topology.AttrPK: S(k.PK), topology.AttrSK: S(k.SK)}
}
