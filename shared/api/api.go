package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/openapi"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Catalog is what is published, registered and known.
type Catalog interface {
	Publish(ctx context.Context, c workflow.Caller, source []byte, dryRun bool) (p workflow.PublishedDefinition, created bool, err error)
	Definitions(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	Versions(ctx context.Context, c workflow.Caller, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	Definition(ctx context.Context, c workflow.Caller, ref workflow.Ref) (workflow.PublishedDefinition, error)
	Archive(ctx context.Context, c workflow.Caller, ref workflow.Ref) error
	Restore(ctx context.Context, c workflow.Caller, ref workflow.Ref) error

	Schedules(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[spec.Schedule], error)

	RegisterBlock(ctx context.Context, c workflow.Caller, b workflow.Block) (created bool, err error)
	Blocks(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Block], error)

	PutEntity(ctx context.Context, c workflow.Caller, e workflow.Entity) (workflow.Entity, error)
	Entity(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (workflow.Entity, error)
	EntityTypes(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[string], error)
	Entities(ctx context.Context, c workflow.Caller, sel workflow.Selector, page workflow.Page) (workflow.List[workflow.Entity], error)
	ImportEntities(ctx context.Context, c workflow.Caller, r io.Reader) (n int, err error)
}

// Engine is what changes runs.
type Engine interface {
	Start(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, existed bool, err error)
	Cancel(ctx context.Context, c workflow.Caller, id string, req views.CancelRequest) (*workflow.Execution, error)
	Acknowledge(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error)
	Retry(ctx context.Context, c workflow.Caller, id string, req views.RetryRequest) (*workflow.Execution, error)
	Resume(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error)
	Unlock(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error)
}

// Queries is what shows runs and locks. It keeps pages under about 1 MiB.
type Queries interface {
	Execution(ctx context.Context, c workflow.Caller, id string) (views.ExecutionView, error)
	Executions(ctx context.Context, c workflow.Caller, f views.ExecutionFilter, page workflow.Page) (workflow.List[views.ExecutionView], error)
	History(ctx context.Context, c workflow.Caller, id string, page workflow.Page) (workflow.List[workflow.Event], error)
	Jobs(ctx context.Context, c workflow.Caller, id string, f views.JobFilter, page workflow.Page) (workflow.List[workflow.Job], error)
	Steps(ctx context.Context, c workflow.Caller, id string, page workflow.Page) (workflow.List[views.StepView], error)
	Result(ctx context.Context, c workflow.Caller, id string) (views.ResultView, error)
	Cost(ctx context.Context, c workflow.Caller, id string) (views.CostView, error)
	Status(ctx context.Context, c workflow.Caller, id string) (views.StatusView, error)
	Locks(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.LockView], error)
	Lock(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (views.LockView, error)
}

// WorkerAPI is the polling workers, and what they are given.
type WorkerAPI interface {
	RegisterWorker(ctx context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error)
	HeartbeatWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	UnregisterWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	Worker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	Workers(ctx context.Context, c workflow.Caller, block *workflow.Ref, page workflow.Page) (workflow.List[views.WorkerView], error)

	Poll(ctx context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error)
	Extend(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error)
	Finish(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error)
	Pools(ctx context.Context, c workflow.Caller) ([]views.PoolView, error)
}

// Operations is what operators keep in order.
type Operations interface {
	DeadLetters(ctx context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error)
	Redrive(ctx context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error)
	NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error)
}

// Services is what the interface offers to the world. All are required.
type Services struct {
	Catalog    Catalog
	Engine     Engine
	Queries    Queries
	WorkerAPI  WorkerAPI
	Operations Operations
}

// Options is what is set from outside.
type Options struct {
	// TrustHeaders takes the tenant and the actor from X-Tenant and X-Actor
	// (default and local without them). Only a local stack may do that.
	TrustHeaders bool

	// Identify names the caller from what an authorizer has established, where
	// headers are not trusted. Without either every request is unauthorized.
	Identify func(r *http.Request) (workflow.Caller, error)

	// Ready tells whether requests work; nil means always.
	Ready func(ctx context.Context) error

	// Monitor serves the page at / and what lies under /monitor/; nil: 404.
	Monitor http.Handler

	// Origins are those of other sites whose pages may call from a browser, through a
	// gateway that writes the headers of CORS. Each is scheme://host[:port].
	Origins []string

	// Version and Commit name the build.
	Version, Commit string

	// Log takes what goes wrong; nil is slog.Default().
	Log *slog.Logger

	// NewID makes ids of requests that bring none; nil makes random ones.
	NewID func() string
}

type routes struct {
	Services
	opt Options
	doc *openapi.Document
}

var _ gen.ServerInterface = (*routes)(nil)

// New is the HTTP interface of the services.
func New(s Services, opt Options) http.Handler {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.NewID == nil {
		opt.NewID = uuid.NewString
	}
	a := &routes{Services: s, opt: opt, doc: openapi.Load()}
	mux := &validatingMux{routes: a, mux: http.NewServeMux()}
	gen.HandlerWithOptions(a, gen.StdHTTPServerOptions{
		BaseRouter: mux,
		// The guard has judged every parameter before; this is what it missed.
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			a.writeError(w, r, workflow.Errorf(workflow.CodeInvalid, "%s", err.Error()))
		},
	})
	mux.HandleFunc("GET /health", a.health)
	mux.HandleFunc("GET /version", a.version)
	mux.HandleFunc("GET /openapi.json", a.openapi)
	for pattern, op := range a.doc.Operations {
		if op.Planned {
			mux.HandleFunc(pattern, a.notImplemented)
		}
	}
	if opt.Monitor != nil {
		mux.mux.Handle("GET /{$}", opt.Monitor)
		mux.mux.Handle("GET /monitor/", opt.Monitor)
	}
	return a.middleware(mux.mux)
}
