package pool

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// presence is the roster as one worker sees it.
type presence struct {
	roster *roster.Roster
	tenant string
}

func presenceOf(p *boot.Parts) presence {
	w := p.Config.Worker
	return presence{&roster.Roster{
		Workers: p.DB.With(nil).Workers, Now: time.Now,
		Silence: roster.Silence{Unreachable: w.Unreachable, Offline: w.Offline, Forget: w.Forget},
	}, tenant()}
}

// tenant is whose worker this is shown as. Its pool may serve every tenant.
func tenant() string { return cmp.Or(os.Getenv(topology.EnvTenant), topology.TenantDefault) }

// Register says who the worker is.
func (p presence) Register(ctx context.Context, w workflow.Worker) error {
	w.Tenant = p.tenant
	_, err := p.roster.Register(ctx, w)
	return err
}

// Beat says that it lives.
func (p presence) Beat(ctx context.Context, id string, held []workflow.HeldPack) error {
	return p.roster.Beat(ctx, p.tenant, id, held)
}

// Unregister says that it leaves.
func (p presence) Unregister(ctx context.Context, id string) error {
	_, err := p.roster.Unregister(ctx, p.tenant, id)
	return err
}
