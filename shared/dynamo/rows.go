package dynamo

import (
	"context"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A tenant's tables are one partition of the registry.
func tenantTableKey(tenant, name string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "tables", SK: name}
}

// Table reads a table, strongly consistent.
func (r *Registry) Table(ctx context.Context, tenant, name string) (workflow.Table, error) {
	t := workflow.Table{Name: name}
	it, err := r.t.Get(ctx, tenantTableKey(tenant, name))
	if err != nil || it == nil {
		return t, err
	}
	err = decodeDocument(it, &t)
	return t, err
}

// PutTable writes a table whose revision is still seen.
func (r *Registry) PutTable(ctx context.Context, tenant string, t workflow.Table) (bool, error) {
	t.Revision++
	ok, same, err := putRevised(ctx, r.t, tenantTableKey(tenant, t.Name), t.Revision, t, nil)
	return ok || same, err
}

// Tables lists all tables of a tenant, strongly consistent.
func (r *Registry) Tables(ctx context.Context, tenant string) ([]workflow.Table, error) {
	return listDocuments[workflow.Table](ctx, r.t, tenantTableKey(tenant, "").PK, workflow.MaxTables)
}

// Rows stores the rows of tables. They are in a separate DynamoDB table, so that executions are not
// affected, however many rows there are and whatever happens to that table.
type Rows struct{ t *table.Table }

// The rows of a table are in [topology.RowShards] partitions, because one partition limits how fast
// they can be written. Within each partition they are ordered by id.
func rowPartition(tenant, name string, shard int) string {
	return table.TenantPrefix(tenant) + name + "#" + strconv.Itoa(shard)
}

func rowKey(tenant, name, id string) table.Key {
	return table.Key{PK: rowPartition(tenant, name, hashShard(id, topology.RowShards)), SK: id}
}

// PutRow stores a row if there is none with its id.
func (r *Rows) PutRow(ctx context.Context, tenant, name string, row workflow.Row, until time.Time) error {
	doc, err := encodeDocument(row)
	if err != nil {
		return err
	}
	it := rowKey(tenant, name, row.ID).Attributes()
	if it[attrDocument] = doc; !until.IsZero() {
		it[topology.AttrTTL] = table.N(until.Unix())
	}
	_, _, err = r.t.Put(ctx, it, table.IfAbsent, nil)
	return err
}

// HasRow reports whether there is a row with an id, strongly consistent.
func (r *Rows) HasRow(ctx context.Context, tenant, name, id string) (bool, error) {
	it, err := r.t.Get(ctx, rowKey(tenant, name, id))
	return it != nil, err
}

// Rows lists the rows of a table ordered by id, those that follow page.After.
func (r *Rows) Rows(ctx context.Context, tenant, name string, page workflow.Page) (workflow.List[workflow.Row], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.Row]{}, err
	}
	if page.Token == "" {
		after = page.After
	}
	limit := pageLimit(page)
	shards := make([]table.Rows, topology.RowShards)
	for n := range shards {
		q := partitionQuery(rowPartition(tenant, name, n), "", limit/topology.RowShards) // the shard's share of the page; more is read if the share is larger
		if q.Consistent = false; after != "" {                                           // after may be a key of another shard, so it cannot be the start key
			q.KeyCondition += " AND #sk > :after"
			q.Values["after"] = table.S(after)
		}
		shards[n] = r.t.Query(ctx, q)
	}
	rows := table.Merge(ctx, func(a, b table.Item) bool { return a.Key().SK < b.Key().SK }, shards)
	return collectPage(rows, limit, func(it table.Item) (row workflow.Row, err error) {
		err = decodeDocument(it, &row)
		return row, err
	})
}
