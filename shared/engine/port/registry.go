package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Registry keeps what is published and registered.
type Registry interface {
	// PutDefinition stores a definition if none exists under its exact version;
	// otherwise it returns the stored one.
	PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (existing *workflow.PublishedDefinition, err error)
	// Definition is CodeNotFound if there is none.
	Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error)
	// DefinitionVersions lists the heads (no source) of one definition, or of
	// all if name is "", in order of name and version.
	DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error

	PutBlock(ctx context.Context, tenant string, b workflow.Block) (existing *workflow.Block, err error)
	// BlockVersions lists all registered versions of a block; Blocks all blocks.
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)

	// PutEntities upserts: attributes and groups are replaced, the version grows,
	// the token stays. Their watchers are removed by the same writes and returned,
	// each once, also with an error: whoever was watching wants to look again. What
	// a lost reply hides, the watchers' alarms cover.
	PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) (watchers []string, err error)
	// AddWatcher adds an execution to those that want to know when the entity is written;
	// ok is false if there is no such entity. The set is bounded (64); a full set
	// answers ok without adding: the alarm covers it.
	AddWatcher(ctx context.Context, tenant string, key workflow.EntityKey, execution string) (ok bool, err error)
	// ReplaceEntity writes an entity, its token included, if the version is still
	// the one seen; the version grows by one, and watchers are as of PutEntities. A
	// write whose reply was lost is recognised by the token.
	ReplaceEntity(ctx context.Context, tenant string, e workflow.Entity, seenVersion int64) (ok bool, watchers []string, err error)
	// Entities reads by key; missing ones are left out. strong asks for strongly
	// consistent reads.
	Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error)
	// EntityTypes lists the types of which an entity has been put, in order.
	EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error)
	// EntitiesOf lists a type's entities in order of id.
	EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error)

	// BindIdempotencyKey binds an idempotency key to an execution id and a digest of the
	// request, if it is free or has expired at now; otherwise it returns what it
	// is bound to.
	BindIdempotencyKey(ctx context.Context, tenant, key string, want workflow.IdempotencyRecord, now time.Time) (bound workflow.IdempotencyRecord, fresh bool, err error)
	// IdempotencyRecord reads what a key is bound to; the zero Binding if it is free or has
	// expired at now.
	IdempotencyRecord(ctx context.Context, tenant, key string, now time.Time) (workflow.IdempotencyRecord, error)
}
