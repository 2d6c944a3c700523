// Package catalog keeps what executions are made of: published definitions, registered
// function blocks, schedules, and the inventory of entities.
//
// Definitions and blocks are immutable under their exact version. The same content again
// is accepted, other content is a conflict. Entities can be changed at any time. What an
// execution has read of an entity under its lock stays as it was read.
//
//   - definitions.go publishes, archives and restores definitions. cycles.go refuses
//     workflows that embed themselves. warnings.go warns of what does not fit what is
//     registered.
//   - versions.go finds the newest version, and keeps the index that it is found in.
//   - schedules.go keeps the schedule of each workflow.
//   - secrets.go lists the secrets that workflows and blocks refer to.
//   - subscriptions.go keeps who is told of the events of executions, tables.go the tables that
//     pipes fill.
//   - blocks.go registers blocks, entities.go keeps the inventory; change_entity.go patches and
//     deletes an entity, audit.go keeps who has done what, merge.go merges an import into what is stored.
package catalog

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Registry stores definitions, blocks and entities. Its methods are part of the engine's
// ports and documented there.
type Registry interface {
	VersionRegistry
	PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (existing *workflow.PublishedDefinition, err error)
	Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error)
	DefinitionSources(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	PublishDraft(ctx context.Context, tenant string, d workflow.PublishedDefinition) error
	SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error
	Block(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.Block, error)
	PutBlock(ctx context.Context, tenant string, b workflow.Block) (existing *workflow.Block, err error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
	BeginAudit(ctx context.Context, tenant string, e workflow.AuditEntry) error
	EndAudit(ctx context.Context, tenant string, e workflow.AuditEntry, status int) error
	AuditEntries(ctx context.Context, tenant, month string, from, to time.Time, page workflow.Page) (workflow.List[workflow.AuditEntry], error)
	Ends(ctx context.Context, tenant, day, fullName string, page workflow.Page) (workflow.List[workflow.End], error)
	Subscriptions(ctx context.Context, tenant string) ([]workflow.Subscription, error)
	DeliveryAttempts(ctx context.Context, tenant, subscription string) ([]workflow.DeliveryAttempt, error)
	PutSubscription(ctx context.Context, tenant string, s workflow.Subscription) (ok bool, err error)
	Table(ctx context.Context, tenant, name string) (workflow.Table, error)
	PutTable(ctx context.Context, tenant string, t workflow.Table) (ok bool, err error)
	Tables(ctx context.Context, tenant string) ([]workflow.Table, error)
	Trigger(ctx context.Context, tenant, name string) (spec.PublishedTrigger, error)
	PutTrigger(ctx context.Context, tenant string, t spec.PublishedTrigger) (ok bool, err error)
	Triggers(ctx context.Context, tenant string) ([]spec.PublishedTrigger, error)
	TriggerCalls(ctx context.Context, tenant, name string) ([]workflow.TriggerCall, error)
	PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) (watchers []string, err error)
	WriteEntities(ctx context.Context, tenant string, writes []workflow.EntityWrite) (ok []bool, watchers []string, err error)
	MarkDeletion(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64) (ok bool, err error)
	DeleteEntity(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64, until time.Time) (ok bool, watchers []string, err error)
	Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error)
	EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error)
	EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error)
}

// Schedules stores schedules. Its methods are part of the engine's ports and documented
// there.
type Schedules interface {
	Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error)
	PutSchedule(ctx context.Context, s spec.Schedule) (ok bool, err error)
	Schedules(ctx context.Context, tenant string, page workflow.Page) (workflow.List[spec.Schedule], error)
}

// Sender wakes executions up when something that they wait for has changed.
type Sender interface {
	SendWakeups(ctx context.Context, delay time.Duration, wakeups ...workflow.Wakeup) error
}

// Locks reports who holds an entity.
type Locks interface {
	LockOf(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (views.LockView, error)
}

// LockItems stores the lock items. Its method is part of the engine's ports and documented there.
type LockItems interface {
	Outdate(ctx context.Context, tenant string, key workflow.EntityKey) error
}

// Ports is what the catalog needs for one request.
type Ports struct {
	Locks     Locks
	LockItems LockItems
	Registry  Registry
	Schedules Schedules
	Sender    Sender
	Secrets   Secrets // nil: which secrets exist is unknown
	Endpoints workflow.Endpoints
	Regions   []string // regions that pools of the stage are known to serve; nil: unknown
	AnyTable  bool     // the tables are unknown, so pipes may name any
}

// Catalog publishes definitions, registers blocks and imports entities.
type Catalog struct {
	Subscribing Subscribing

	// AllowsCall returns an error if workers may not call an address over HTTP. If it is nil,
	// nothing is known about that.
	AllowsCall func(address string) error

	CountsEnds bool // the ends of executions are counted

	openPorts func() Ports
	now       func() time.Time
}

// New makes a catalog. It calls openPorts for each request.
func New(openPorts func() Ports, now func() time.Time) *Catalog {
	return &Catalog{openPorts: openPorts, now: now}
}

func clampPage(p workflow.Page) workflow.Page {
	if p.Limit <= 0 {
		p.Limit = workflow.DefaultPageSize
	}
	p.Limit = min(p.Limit, workflow.MaxPageSize)
	return p
}
