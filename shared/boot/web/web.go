package web

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/core"
	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine/view"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// viewParallel bounds the reads in flight for one answer.
const viewParallel = 16

// Handler serves the HTTP interface. Behind an authorizer the caller is who the
// gateway says; only where the environment says so are headers trusted.
func Handler(c *core.Core) http.Handler {
	services := api.Services{
		Catalog: catalog.New(func() catalog.World {
			v := c.DB.With(nil)
			return catalog.World{Registry: v.Registry, Schedules: v.Registry, Board: c.Queues.With(nil)}
		}, c.Engine.Now),
		Engine: c.Engine,
		View:   view.New(c.Engine, viewParallel),

		Blackboard: board(c),
		Upkeep:     keep(c),
	}
	return traced(c.Trace, api.New(services, api.Options{
		TrustHeaders: trusted(), Identify: lambdahttp.Caller, Ready: ready(c),
		Monitor: monitor.Handler(), Version: boot.Version, Log: c.Log, Origins: origins(),
	}))
}

// origins are those whose pages may call.
func origins() []string {
	return strings.FieldsFunc(os.Getenv(topology.EnvWebOrigins), func(r rune) bool { return r == ',' })
}

// Identity tells the Lambda adapter whom the gateway has established.
func Identity() lambdahttp.Identity {
	if trusted() {
		return nil
	}
	return lambdahttp.FromAuthorizer(os.Getenv(topology.EnvTenantClaim))
}

func trusted() bool { return os.Getenv(topology.EnvTrustHeaders) == "true" }

// ready makes one cheap read: requests work when it does.
func ready(c *core.Core) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.DB.With(nil).Store.Load(ctx, "default", "00000000-0000-7000-8000-000000000000")
		if workflow.Is(err, workflow.CodeNotFound) {
			return nil
		}
		return err
	}
}
