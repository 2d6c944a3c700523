package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Registry stores what is published and registered: definitions, blocks, entities,
// schedules and idempotency keys.
type Registry struct{ t *table.Table }

// Attributes of a definition, besides the digest.
const (
	attrPublishedAt = "at"
	attrPublishedBy = "by"
	attrArchived    = "archived"
	attrDraft       = "draft"
	attrSource      = "source"
)

func definitionsKey(tenant string) string { return table.TenantPrefix(tenant) + "definitions" }

// PutDefinition stores a definition if none exists with its exact version.
func (r *Registry) PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (*workflow.PublishedDefinition, error) {
	sk, err := versionKey(d.Ref)
	if err != nil {
		return nil, err
	}
	ok, old, err := r.t.Put(ctx, definitionItem(tenant, sk, &d), table.IfAbsent, nil)
	if ok || err != nil {
		return nil, err
	}
	existing, err := definitionOf(old)
	if err != nil {
		return nil, err
	}
	// An equal one is this write after a lost reply.
	if existing.Digest == d.Digest && existing.PublishedBy == d.PublishedBy && existing.PublishedAt.UnixMilli() == d.PublishedAt.UnixMilli() && existing.Draft == d.Draft {
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

// DefinitionVersions lists definitions without their sources, ordered by name and version.
func (r *Registry) DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.PublishedDefinition]{}, err
	}
	q := versionsQuery(definitionsKey(tenant), fullName, after, pageLimit(page))
	q.Projection = []string{attrDigest, attrPublishedAt, attrPublishedBy, attrArchived, attrDraft}
	return collectPage(r.t.Query(ctx, q), pageLimit(page), definitionOf)
}

// DefinitionSources lists all definitions with their sources, in the same order. It reads as many
// units as DefinitionVersions, because the table counts items before it drops attributes that are
// not requested.
func (r *Registry) DefinitionSources(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.PublishedDefinition]{}, err
	}
	return collectPage(r.t.Query(ctx, versionsQuery(definitionsKey(tenant), "", after, pageLimit(page))), pageLimit(page), definitionOf)
}

// PublishDraft makes a draft a published version.
func (r *Registry) PublishDraft(ctx context.Context, tenant string, d workflow.PublishedDefinition) error {
	sk, err := versionKey(d.Ref)
	if err != nil {
		return err
	}
	_, _, err = r.t.Update(ctx, table.Update{
		Key:       table.Key{PK: definitionsKey(tenant), SK: sk},
		Set:       table.Item{attrPublishedAt: table.N(d.PublishedAt.UnixMilli()), attrPublishedBy: table.S(d.PublishedBy)},
		Remove:    []string{attrDraft},
		Condition: "attribute_exists(#draft)",
	})
	return err
}

// SetArchived sets or clears a definition's archived mark.
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

func definitionItem(tenant, sk string, d *workflow.PublishedDefinition) table.Item {
	it := table.Item{
		topology.AttrPK: table.S(definitionsKey(tenant)), topology.AttrSK: table.S(sk),
		attrDigest: table.S(d.Digest), attrPublishedAt: table.N(d.PublishedAt.UnixMilli()), attrPublishedBy: table.S(d.PublishedBy),
		attrSource: table.B(table.Deflate.Compress(d.Source)),
	}
	if d.Archived {
		it[attrArchived] = table.True()
	}
	if d.Draft {
		it[attrDraft] = table.True()
	}
	if d.Schema > 1 { // an older release leaves executions of the definition to a newer one
		it[table.AttrSchema] = table.N(int64(d.Schema))
	}
	return it
}

func definitionOf(it table.Item) (workflow.PublishedDefinition, error) {
	ref, err := parseVersionKey(it.Key().SK)
	if err != nil {
		return workflow.PublishedDefinition{}, err
	}
	source, err := table.Deflate.Decompress(it.Bytes(attrSource))
	return workflow.PublishedDefinition{
		Ref: ref, Digest: it.Text(attrDigest), Source: source, Schema: int(it.Int(table.AttrSchema)),
		PublishedAt: table.FromMillis(it.Int(attrPublishedAt)), PublishedBy: it.Text(attrPublishedBy), Archived: it.Has(attrArchived), Draft: it.Has(attrDraft),
	}, err
}

func blocksKey(tenant string) string { return table.TenantPrefix(tenant) + "blocks" }

// PutBlock registers a block if none exists with its exact version.
func (r *Registry) PutBlock(ctx context.Context, tenant string, b workflow.Block) (*workflow.Block, error) {
	sk, err := versionKey(b.Ref())
	if err != nil {
		return nil, err
	}
	doc, err := encodeDocument(b)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInvalid, "block %s cannot be stored: %w", b.Ref(), err)
	}
	ok, old, err := r.t.Put(ctx, table.Item{
		topology.AttrPK: table.S(blocksKey(tenant)), topology.AttrSK: table.S(sk), attrDocument: doc,
	}, table.IfAbsent, nil)
	if ok || err != nil {
		return nil, err
	}
	existing, err := blockOf(old)
	return &existing, err
}

// Block reads one block.
func (r *Registry) Block(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.Block, error) {
	sk, err := versionKey(ref)
	if err != nil {
		return nil, err
	}
	it, err := r.t.Get(ctx, table.Key{PK: blocksKey(tenant), SK: sk})
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, workflow.Errorf(workflow.CodeNotFound, "there is no block %s", ref)
	}
	b, err := blockOf(it)
	return &b, err
}

// BlockVersions lists all registered versions of a block, by number.
func (r *Registry) BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error) {
	q := versionsQuery(blocksKey(tenant), fullName, "", 0)
	q.PageSize = 0 // BlockVersions reads all of them
	var all []workflow.Block
	for it, err := range r.t.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		b, err := blockOf(it)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// Blocks lists all blocks ordered by name and version.
func (r *Registry) Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.Block]{}, err
	}
	rows := r.t.Query(ctx, partitionQuery(blocksKey(tenant), after, pageLimit(page)))
	return collectPage(rows, pageLimit(page), blockOf)
}

func blockOf(it table.Item) (b workflow.Block, err error) {
	return b, decodeDocument(it, &b)
}

func versionIndexKey(tenant string, kind workflow.VersionKind, fullName string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "versions#" + string(kind) + "#" + fullName, SK: "index"}
}

// VersionIndex reads the index of one name's versions, strongly consistent.
func (r *Registry) VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string) (index workflow.VersionIndex, err error) {
	it, err := r.t.Get(ctx, versionIndexKey(tenant, kind, fullName))
	if err != nil || it == nil {
		return index, err
	}
	err = decodeDocument(it, &index)
	index.Revision = it.Int(attrVersion)
	return index, err
}

func versionsRevisionKey(tenant string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "versions", SK: "revision"}
}

// VersionsRevision reads how often a version index of the tenant was written, strongly consistent.
func (r *Registry) VersionsRevision(ctx context.Context, tenant string) (int64, error) {
	it, err := r.t.Get(ctx, versionsRevisionKey(tenant))
	return it.Int(attrVersion), err
}

// RaiseVersionsRevision raises it.
func (r *Registry) RaiseVersionsRevision(ctx context.Context, tenant string) error {
	_, _, err := r.t.Update(ctx, table.Update{Key: versionsRevisionKey(tenant), Add: table.Item{attrVersion: table.N(1)}})
	return err
}

// PutVersionIndex replaces the index if its revision is still the one given.
func (r *Registry) PutVersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string, index workflow.VersionIndex) (bool, error) {
	doc, err := encodeDocument(index)
	if err != nil {
		return false, err
	}
	c := table.Update{
		Key:       versionIndexKey(tenant, kind, fullName),
		Set:       table.Item{attrVersion: table.N(index.Revision + 1), attrDocument: doc},
		Condition: table.IfAbsent,
	}
	if index.Revision > 0 {
		c.Condition, c.Values = "#version = :seen", table.Item{"seen": table.N(index.Revision)}
	}
	ok, _, err := r.t.Update(ctx, c)
	return ok, err
}

// versionKey returns a sort key that orders the versions of one name by number:
// "package/name#000001.000010.000000".
func versionKey(ref workflow.Ref) (string, error) {
	v, ok := workflow.ParseSemver(ref.Version)
	if !ok {
		return "", workflow.Errorf(workflow.CodeInvalid, "%s does not name an exact version", ref)
	}
	return fmt.Sprintf("%s#%06d.%06d.%06d", ref.FullName(), v.Major, v.Minor, v.Patch), nil
}

// parseVersionKey reads a sort key made by versionKey.
func parseVersionKey(sk string) (workflow.Ref, error) {
	name, version, _ := strings.Cut(sk, "#")
	var v workflow.Semver
	ref, err := workflow.ParseRef(name)
	if err == nil {
		_, err = fmt.Sscanf(version, "%d.%d.%d", &v.Major, &v.Minor, &v.Patch)
	}
	if err != nil {
		return ref, workflow.Errorf(workflow.CodeInternal, "%q is not the sort key of a version: %w", sk, err)
	}
	ref.Version = v.String()
	return ref, nil
}

// versionsQuery asks for the versions of one name, or of all names if it is "".
func versionsQuery(pk, fullName, after string, limit int) table.Query {
	q := partitionQuery(pk, after, limit)
	if fullName != "" {
		q.KeyCondition += " AND begins_with(#sk, :name)"
		q.Values["name"] = table.S(fullName + "#")
	}
	return q
}
