package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a definition.
const (
	attrDigest      = "digest"
	attrPublishedAt = "at"
	attrPublishedBy = "by"
	attrArchived    = "archived"
	attrSource      = "source"
)

func definitionsKey(tenant string) string { return table.TenantPrefix(tenant) + "definitions" }

// PutDefinition stores a definition if none exists under its exact version.
func (r *Registry) PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (*workflow.PublishedDefinition, error) {
	sk, err := versionKey(d.Ref)
	if err != nil {
		return nil, err
	}
	it := table.Item{
		topology.AttrPK: table.S(definitionsKey(tenant)), topology.AttrSK: table.S(sk),
		attrDigest: table.S(d.Digest), attrPublishedAt: table.N(d.PublishedAt.UnixMilli()), attrPublishedBy: table.S(d.PublishedBy),
		attrSource: table.B(table.Deflate.Compress(d.Source)),
	}
	if d.Archived {
		it[attrArchived] = table.True()
	}
	ok, old, err := r.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return nil, err
	}
	existing, err := definitionOf(old)
	if err != nil {
		return nil, err
	}
	// What stands there is this very write, whose reply was lost.
	if existing.Digest == d.Digest && existing.PublishedBy == d.PublishedBy && existing.PublishedAt.UnixMilli() == d.PublishedAt.UnixMilli() {
		return nil, nil
	}
	return &existing, nil
}

// Definition reads one version with its source.
func (r *Registry) Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error) {
	sk, err := versionKey(ref)
	if err != nil {
		return nil, err
	}
	it, err := r.t.Get(ctx, table.Key{PK: definitionsKey(tenant), SK: sk})
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, definitionNotFound(ref)
	}
	definition, err := definitionOf(it)
	return &definition, err
}

func definitionNotFound(ref workflow.Ref) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no definition %s", ref)
}

// DefinitionVersions lists heads in order of name and version.
func (r *Registry) DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.PublishedDefinition]{}, err
	}
	rows := r.t.Query(ctx, versionsQuery(definitionsKey(tenant), fullName, after, pageLimit(page)+1,
		attrDigest, attrPublishedAt, attrPublishedBy, attrArchived))
	return collectPage(rows, pageLimit(page), definitionOf)
}

// versionsQuery asks for all versions of one name, or of all if it is empty.
func versionsQuery(pk, fullName, after string, pageSize int, projection ...string) table.Query {
	q := table.Query{
		KeyCondition: "#pk = :pk", Values: table.Item{"pk": table.S(pk)},
		StartAfter: startKeyAfter(pk, after), PageSize: pageSize, Consistent: true, Projection: projection,
	}
	if fullName != "" {
		q.KeyCondition += " AND begins_with(#sk, :name)"
		q.Values["name"] = table.S(fullName + "#")
	}
	return q
}

// SetArchived marks a definition, or takes the mark away.
func (r *Registry) SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error {
	sk, err := versionKey(ref)
	if err != nil {
		return err
	}
	c := table.Update{Key: table.Key{PK: definitionsKey(tenant), SK: sk}, Condition: "attribute_exists(#pk)"}
	if archived {
		c.Set = table.Item{attrArchived: table.True()}
	} else {
		c.Remove = []string{attrArchived}
	}
	ok, _, err := r.t.Update(ctx, c)
	if err == nil && !ok {
		return definitionNotFound(ref)
	}
	return err
}

func definitionOf(it table.Item) (workflow.PublishedDefinition, error) {
	ref, err := parseVersionKey(it.Key().SK)
	if err != nil {
		return workflow.PublishedDefinition{}, err
	}
	source, err := table.Deflate.Decompress(it.Bytes(attrSource))
	return workflow.PublishedDefinition{
		Ref: ref, Digest: it.Text(attrDigest), Source: source,
		PublishedAt: table.FromMillis(it.Int(attrPublishedAt)), PublishedBy: it.Text(attrPublishedBy), Archived: it.Has(attrArchived),
	}, err
}
