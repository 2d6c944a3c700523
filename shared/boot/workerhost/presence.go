package workerhost

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// presence is the roster as one worker sees it.
type presence struct {
	workers *workers.Registry
	tenant  string
}

func newPresence(p *boot.Process) presence {
	w := p.Config.Worker
	return presence{&workers.Registry{
		Workers: p.DB.WithMeter(nil).Workers, Now: time.Now,
		Timeouts: workers.LivenessTimeouts{Unreachable: w.Unreachable, Offline: w.Offline, Forget: w.Forget},
	}, workerTenant()}
}

// workerTenant is whose worker this is shown as. Its pool may serve every tenant.
func workerTenant() string { return cmp.Or(os.Getenv(topology.EnvTenant), topology.TenantDefault) }

// Register says who the worker is.
func (p presence) Register(ctx context.Context, w workflow.Worker) error {
	w.Tenant = p.tenant
	_, err := p.workers.Register(ctx, w)
	return err
}

// Heartbeat says that it lives.
func (p presence) Heartbeat(ctx context.Context, id string, held []workflow.ClaimedPack) error {
	return p.workers.Heartbeat(ctx, p.tenant, id, held)
}

// Unregister says that it leaves.
func (p presence) Unregister(ctx context.Context, id string) error {
	_, err := p.workers.Unregister(ctx, p.tenant, id)
	return err
}
