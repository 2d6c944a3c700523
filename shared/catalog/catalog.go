package catalog

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Registry is what the catalog needs of the world. Its methods are described
// beside the engine's ports, of which they are a part.
type Registry interface {
	PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (existing *workflow.PublishedDefinition, err error)
	Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error)
	DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	PutBlock(ctx context.Context, tenant string, b workflow.Block) (existing *workflow.Block, err error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
	PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) (watchers []string, err error)
	Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error)
	EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error)
	EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error)
}

// Schedules is what the catalog needs of the schedules, as the engine's port has
// it.
type Schedules interface {
	Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error)
	PutSchedule(ctx context.Context, s spec.Schedule) (ok bool, err error)
	Schedules(ctx context.Context, tenant string, page workflow.Page) (workflow.List[spec.Schedule], error)
}

// Sender tells runs that something they wait for has changed.
type Sender interface {
	SendWakeups(ctx context.Context, delay time.Duration, looks ...workflow.Wakeup) error
}

// Ports is one view of the world, for one piece of work.
type Ports struct {
	Registry  Registry
	Schedules Schedules
	Sender    Sender
}

// Catalog publishes, registers and imports.
type Catalog struct {
	openPorts func() Ports
	now       func() time.Time
}

// New makes a catalog. open gives one view of the world per piece of work.
func New(open func() Ports, now func() time.Time) *Catalog { return &Catalog{open, now} }

func clampPage(p workflow.Page) workflow.Page {
	if p.Limit <= 0 {
		p.Limit = workflow.DefaultPageSize
	}
	p.Limit = min(p.Limit, workflow.MaxPageSize)
	return p
}
