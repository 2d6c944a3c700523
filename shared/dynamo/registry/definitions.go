package registry

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a definition.
const (
	attrDigest   = "digest"
	attrAt       = "at"
	attrBy       = "by"
	attrArchived = "archived"
	attrSource   = "source"
)

func definitionsKey(tenant string) string { return table.Tenant(tenant) + "definitions" }

// PutDefinition stores a definition if none exists under its exact version.
func (r *Registry) PutDefinition(ctx context.Context, tenant string, d workflow.Published) (*workflow.Published, error) {
	sk, err := versionKey(d.Ref)
	if err != nil {
		return nil, err
	}
	it := table.Item{
		topology.AttrPK: table.S(definitionsKey(tenant)), topology.AttrSK: table.S(sk),
		attrDigest: table.S(d.Digest), attrAt: table.N(d.PublishedAt.UnixMilli()), attrBy: table.S(d.PublishedBy),
		attrSource: table.B(table.Plain.Pack(d.Source)),
	}
	if d.Archived {
		it[attrArchived] = table.Yes()
	}
	ok, old, err := r.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return nil, err
	}
	found, err := definitionOf(old)
	if err != nil {
		return nil, err
	}
	// What stands there is this very write, whose reply was lost.
	if found.Digest == d.Digest && found.PublishedBy == d.PublishedBy && found.PublishedAt.UnixMilli() == d.PublishedAt.UnixMilli() {
		return nil, nil
	}
	return &found, nil
}

// Definition reads one version with its source.
func (r *Registry) Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.Published, error) {
	sk, err := versionKey(ref)
	if err != nil {
		return nil, err
	}
	it, err := r.t.Get(ctx, table.Key{PK: definitionsKey(tenant), SK: sk})
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, noDefinition(ref)
	}
	found, err := definitionOf(it)
	return &found, err
}

func noDefinition(ref workflow.Ref) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no definition %s", ref)
}

// DefinitionVersions lists heads in order of name and version.
func (r *Registry) DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.Published], error) {
	after, err := afterOf(page)
	if err != nil {
		return workflow.List[workflow.Published]{}, err
	}
	rows := r.t.Query(ctx, versions(definitionsKey(tenant), fullName, after, limitOf(page)+1,
		attrDigest, attrAt, attrBy, attrArchived))
	return cut(rows, limitOf(page), definitionOf)
}

// versions asks for all versions of one name, or of all if it is empty.
func versions(pk, fullName, after string, size int, only ...string) table.Query {
	q := table.Query{
		Key: "#pk = :pk", With: table.Item{"pk": table.S(pk)},
		After: behind(pk, after), Page: size, Strong: true, Only: only,
	}
	if fullName != "" {
		q.Key += " AND begins_with(#sk, :name)"
		q.With["name"] = table.S(fullName + "#")
	}
	return q
}

// SetArchived marks a definition, or takes the mark away.
func (r *Registry) SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error {
	sk, err := versionKey(ref)
	if err != nil {
		return err
	}
	c := table.Change{Key: table.Key{PK: definitionsKey(tenant), SK: sk}, If: "attribute_exists(#pk)"}
	if archived {
		c.Set = table.Item{attrArchived: table.Yes()}
	} else {
		c.Remove = []string{attrArchived}
	}
	ok, _, err := r.t.Update(ctx, c)
	if err == nil && !ok {
		return noDefinition(ref)
	}
	return err
}

func definitionOf(it table.Item) (workflow.Published, error) {
	ref, err := refOf(it.Key().SK)
	if err != nil {
		return workflow.Published{}, err
	}
	source, err := table.Plain.Unpack(it.Bytes(attrSource))
	return workflow.Published{
		Ref: ref, Digest: it.Text(attrDigest), Source: source,
		PublishedAt: table.At(it.Int(attrAt)), PublishedBy: it.Text(attrBy), Archived: it.Has(attrArchived),
	}, err
}
