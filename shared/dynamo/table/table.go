// Package table makes the DynamoDB calls under the adapters: one table, the few
// kinds of calls that the product makes, and what every call has in common.
//
//   - table.go: the table with its meter, keys, and tenants in keys.
//   - item.go: items and their attributes.
//   - read.go: strong reads, batches, queries that page by themselves.
//   - write.go: the conditional write of one item. It has three outcomes: written,
//     condition failed (with the item as it is), or an error.
//   - retry.go: what is retried, with jitter and within the caller's deadline, and
//     how errors are classified.
//   - meter.go: middleware that counts every attempt and its consumed units.
//   - compress.go: compression against a dictionary, versioned by its first byte.
//
// Every call that reads an item refuses one with a newer schema version.
package table

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Table is one table for one unit of work, whose consumption is counted into its
// meter. It is cheap: make one for each unit of work.
type Table struct {
	client *dynamodb.Client
	name   string
	role   string
	meter  *cost.Meter
}

// New opens a table by its physical name. role is one of topology's table roles;
// units are counted under it. A nil meter counts nothing.
func New(client *dynamodb.Client, name, role string, meter *cost.Meter) *Table {
	return &Table{client: client, name: name, role: role, meter: meter}
}

// options returns the options of every call: the meter, and no retries by the SDK, so that
// [Table.retry] makes all of them.
func (t *Table) options(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	o.APIOptions = append(o.APIOptions, capacityMeter{t.role, t.meter}.register)
}

// Key identifies an item.
type Key struct{ PK, SK string }

// Attributes returns the key as an item.
func (k Key) Attributes() Item {
	return Item{topology.AttrPK: S(k.PK), topology.AttrSK: S(k.SK)}
}

var (
	tenantEscaper   = strings.NewReplacer("%", "%25", "#", "%23")
	tenantUnescaper = strings.NewReplacer("%23", "#", "%25", "%")
)

// TenantPrefix returns the prefix of a tenant's keys. It escapes the separator, so that no tenant's
// name can reach into the keys of another.
func TenantPrefix(name string) string { return tenantEscaper.Replace(name) + "#" }

// SplitTenant splits a partition key into the tenant and what follows its prefix.
func SplitTenant(pk string) (tenant, rest string) {
	escaped, rest, _ := strings.Cut(pk, "#")
	return tenantUnescaper.Replace(escaped), rest
}
