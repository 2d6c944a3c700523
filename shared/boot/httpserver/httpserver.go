// Package httpserver makes the HTTP API, with the monitor page, from an engine.
package httpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workerapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// queryParallelism bounds the concurrent reads for one response.
const queryParallelism = 16

// Handler serves the HTTP API. The caller is the one verified by the gateway's authorizer; headers
// name the caller only if the environment allows that.
func Handler(h *enginehost.Host) http.Handler {
	queries := query.New(h.Engine, queryParallelism)
	definitions := catalog.New(func() catalog.Ports {
		v := h.Unmetered()
		return catalog.Ports{Locks: queries, LockItems: v.Locks, Registry: v.Registry, Schedules: v.Registry, Sender: v.Sender, Secrets: h.Secrets, Endpoints: h.Endpoints, Regions: append([]string{}, h.Config.Regions...)}
	}, h.Engine.Now)
	definitions.Subscribing, definitions.CountsEnds = subscribing(h), h.Config.Observe.Metrics
	definitions.AllowsCall = httpblock.NewWithEndpoints(enginehost.AllowedHosts(h.Process), h.Endpoints).Allows
	services := api.Services{
		Catalog: definitions,
		Engine:  h.Engine,
		Queries: queries,

		WorkerAPI:  newWorkerAPI(h, queries),
		Operations: newOperations(h),
	}
	return traceRequests(h.Tracer, api.New(services, api.Options{
		TrustHeaders: trustHeaders(), Identify: lambdahttp.Caller, Ready: readinessCheck(h),
		Access:  accessOf(h.Config.Access),
		Monitor: monitor.Handler(), Version: boot.Version, Log: h.Log, Origins: webOrigins(),
	}))
}

// subscribing returns what subscriptions need besides the registry.
func subscribing(h *enginehost.Host) catalog.Subscribing {
	s := catalog.Subscribing{NewID: h.Engine.NewID, Allows: httpblock.New(enginehost.AllowedHosts(h.Process)).Allows, Age: h.Config.Observe.Age, Skew: h.Config.Clock.Skew}
	if h.Config.Token.Keys != "" {
		s.Seal = func(ctx context.Context, secret []byte) ([]byte, error) {
			keys, err := h.TokenKeys(ctx)
			if err != nil {
				return nil, err
			}
			return keys.Seal(secret)
		}
	}
	return s
}

// accessOf converts the roles and their callers to the API's type.
func accessOf(c config.Access) api.Access {
	return api.Access{
		api.RoleViewer: c.Viewer, api.RoleOperator: c.Operator, api.RoleApprover: c.Approver, api.RoleAdmin: c.Admin, api.RoleWorker: c.Worker,
	}
}

// webOrigins returns the origins whose pages may call the API.
func webOrigins() []string {
	return strings.FieldsFunc(os.Getenv(topology.EnvWebOrigins), func(r rune) bool { return r == ',' })
}

// Identity returns how the Lambda adapter names the caller; nil trusts the headers.
func Identity() lambdahttp.Identity {
	if trustHeaders() {
		return nil
	}
	return lambdahttp.FromAuthorizer(os.Getenv(topology.EnvTenantClaim), os.Getenv(topology.EnvRolesClaim))
}

func trustHeaders() bool { return os.Getenv(topology.EnvTrustHeaders) == "true" }

// readinessCheck makes one cheap read. If it succeeds, the API can serve requests.
func readinessCheck(h *enginehost.Host) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := h.Unmetered().Store.Load(ctx, topology.TenantDefault, "00000000-0000-7000-8000-000000000000")
		if workflow.Is(err, workflow.CodeNotFound) {
			return nil
		}
		return err
	}
}

// requestCost is what a worker's HTTP request costs before it is served: an invocation, and one
// request to the queue.
var requestCost = workflow.Cost{Invocations: 1, QueueRequests: 1}

// newWorkerAPI serves workers that poll over HTTP.
func newWorkerAPI(h *enginehost.Host, queries *query.Service) *workerapi.Service {
	cfg := h.Config
	visibility := max(cfg.Job.Lease, time.Second) // SQS has whole seconds only
	return &workerapi.Service{
		WorkerRegistry: h.Workers(),
		BlockRegistry:  h.Unmetered().Registry,
		NewPorts: func() workerapi.Ports {
			v := h.Metered(requestCost)
			return workerapi.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
		},
		Regions: cfg.Regions, Parallel: 32,
		UnclaimedJobs: queries.UnclaimedJobs,
		PoolQueue: func(ctx context.Context, pool string) (workerapi.PoolQueue, error) {
			url, err := h.Queues.PoolQueueURL(ctx, time.Now(), pool)
			if err != nil {
				return nil, err
			}
			return sqs.NewReceiver(h.SQS, url, visibility), nil
		},
		// Without a claim that names the tenant, every caller belongs to the default tenant. Only a
		// local stack, which trusts headers, has other tenants then.
		OwnsQueues: func(tenant string) bool {
			return tenant == topology.TenantDefault && os.Getenv(topology.EnvTenantClaim) == ""
		},
		Decode:    sqs.DecodePack,
		TokenKeys: h.Engine.TokenKeys,
		WorkerOptions: worker.Options{
			LeaseDuration: cfg.Job.Lease, HeartbeatInterval: cfg.Job.Heartbeat, MaxClockSkew: cfg.Clock.Skew, LeaseMargin: cfg.Clock.Margin,
			MaxClaims: cfg.Job.MaxTakeovers, UnclaimedTimeout: cfg.Job.Unclaimed,
			MinFencingToken: func() int64 { return int64(cfg.Lock.MinFencingToken) },
		},
		Now:      time.Now,
		NewNonce: func() string { return strings.ToLower(rand.Text()[:12]) },
		Log:      h.Log,
	}
}

// operations serves the operators' routes.
type operations struct {
	*deadletter.Service
	host      *enginehost.Host
	receivers *enginehost.Receivers
}

// NextSweep returns what the next sweep would do for the caller's tenant.
func (o operations) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return scheduler.PlanSweep(ctx, o.host.Engine, o.host.LivenessTimeouts(), topology.DueShards, c.Tenant)
}

// TestSubscription sends one event to the webhook of a subscription.
func (o operations) TestSubscription(ctx context.Context, c workflow.Caller, name string) (workflow.DeliveryAttempt, error) {
	return o.host.Engine.TestSubscription(ctx, o.receivers, c.Tenant, name)
}

// RetryRows retries rows that a table rejected.
func (o operations) RetryRows(ctx context.Context, c workflow.Caller, table string) (views.RowsRetry, error) {
	return o.host.Engine.RetryRows(ctx, c.Tenant, table)
}

// FireSchedule starts an execution of a schedule now.
func (o operations) FireSchedule(ctx context.Context, c workflow.Caller, fullName, idempotencyKey string) (id string, existed bool, err error) {
	return scheduler.Fire(ctx, o.host.Engine, c, fullName, idempotencyKey)
}

func newOperations(h *enginehost.Host) operations {
	return operations{&deadletter.Service{
		Blocks: h.Unmetered().Registry, Regions: h.Config.Regions,
		Open: func(ctx context.Context, queue string) (deadletter.Queue, error) {
			return openDeadLetters(ctx, h, queue)
		},
		Decoder: deadletter.Decoder{Wakeup: sqs.DecodeWakeup, Pack: sqs.DecodePack, Announcement: sqs.DecodeAnnouncement, Delivery: sqs.DecodeDelivery, BusEvent: sqs.DecodeBusEvent},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			store := h.Unmetered().Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return engine.DeadLetterNotices(ctx, store, x)
		},
		Now: time.Now, Log: h.Log, Parallel: 16,
	}, h, enginehost.NewReceivers(h.Process)}
}

// openDeadLetters opens the dead-letter queue of a queue, named by its role; nil if
// there is none.
func openDeadLetters(ctx context.Context, h *enginehost.Host, queue string) (deadletter.Queue, error) {
	url := h.Queues.EngineQueueURL(queue)
	if pool, ok := strings.CutPrefix(queue, topology.QueueJobsPrefix); ok {
		var err error
		if url, err = h.Queues.LookupPoolQueue(ctx, time.Now(), pool); url == "" || err != nil {
			return nil, err
		}
	}
	if url == "" {
		return nil, nil
	}
	q, err := sqs.OpenDeadLetterQueue(ctx, h.SQS, url)
	if q == nil || err != nil {
		return nil, err // not q: an interface with a nil pointer is not nil
	}
	return q, nil
}
