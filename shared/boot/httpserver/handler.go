package httpserver

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// queryParallelism bounds the reads in flight for one answer.
const queryParallelism = 16

// Handler serves the HTTP interface. Behind an authorizer the caller is who the
// gateway says; only where the environment says so are headers trusted.
func Handler(c *enginehost.Host) http.Handler {
	services := api.Services{
		Catalog: catalog.New(func() catalog.Ports {
			v := c.DB.WithMeter(nil)
			return catalog.Ports{Registry: v.Registry, Schedules: v.Registry, Sender: c.Queues.WithMeter(nil)}
		}, c.Engine.Now),
		Engine:  c.Engine,
		Queries: query.New(c.Engine, queryParallelism),

		WorkerAPI:  newWorkerAPI(c),
		Operations: newOperations(c),
	}
	return traceRequests(c.Tracer, api.New(services, api.Options{
		TrustHeaders: trustHeaders(), Identify: lambdahttp.Caller, Ready: readinessCheck(c),
		Monitor: monitor.Handler(), Version: boot.Version, Log: c.Log, Origins: webOrigins(),
	}))
}

// webOrigins are those whose pages may call.
func webOrigins() []string {
	return strings.FieldsFunc(os.Getenv(topology.EnvWebOrigins), func(r rune) bool { return r == ',' })
}

// Identity tells the Lambda adapter whom the gateway has established.
func Identity() lambdahttp.Identity {
	if trustHeaders() {
		return nil
	}
	return lambdahttp.FromAuthorizer(os.Getenv(topology.EnvTenantClaim))
}

func trustHeaders() bool { return os.Getenv(topology.EnvTrustHeaders) == "true" }

// readinessCheck makes one cheap read: requests work when it does.
func readinessCheck(c *enginehost.Host) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.DB.WithMeter(nil).Store.Load(ctx, "default", "00000000-0000-7000-8000-000000000000")
		if workflow.Is(err, workflow.CodeNotFound) {
			return nil
		}
		return err
	}
}
