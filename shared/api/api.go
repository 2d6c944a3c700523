// Package api is the HTTP API of the engine: an [http.Handler] on a plain
// [http.ServeMux], for a Lambda function, the local stack and tests alike.
//
// The OpenAPI document comes first: openapi.yaml describes what every route takes and
// answers. From it are generated openapi/openapi.json, which is served and enforced, and
// package gen: the routes with their typed parameters, and the types that shared/views and
// shared/workflow do not have.
//
// A tour, in the order in which a request passes:
//
//   - api.go: the services behind the API ([Services]), its [Options], and the routes that
//     need no service.
//   - access.go: which role each route needs. audit.go: who has done what.
//   - middleware.go: request ids, security headers, panics, unknown paths and methods; who
//     the caller is; validation against the document, which reports everything that is
//     wrong with a request at once (package openapi).
//   - request.go: bodies and page tokens.
//   - definitions.go, entities.go, executions.go, workers.go, operations.go: one handler
//     per route, a few lines each.
//   - response.go: answers and problems. convert.go: the types of answers.
//
// Every error is an RFC 9457 problem with a code. It never contains a stack or the text
// of an internal error.
package api

//go:generate go -C openapi run generate_json.go
//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config gen/server.yaml openapi.yaml

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/openapi"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Catalog serves definitions, blocks, schedules and entities.
type Catalog interface {
	Publish(ctx context.Context, c workflow.Caller, source []byte, dryRun bool) (p workflow.PublishedDefinition, created bool, err error)
	PublishDraft(ctx context.Context, c workflow.Caller, source []byte, dryRun bool) (p workflow.PublishedDefinition, created bool, err error)
	Definitions(ctx context.Context, c workflow.Caller, labels map[string]string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	Versions(ctx context.Context, c workflow.Caller, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	Definition(ctx context.Context, c workflow.Caller, ref workflow.Ref) (workflow.PublishedDefinition, error)
	Archive(ctx context.Context, c workflow.Caller, ref workflow.Ref) error
	Restore(ctx context.Context, c workflow.Caller, ref workflow.Ref) error

	Schedules(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[spec.Schedule], error)
	Tables(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Table], error)
	Table(ctx context.Context, c workflow.Caller, name string) (workflow.Table, error)
	PutTable(ctx context.Context, c workflow.Caller, name string, req views.TableRequest) (workflow.Table, error)
	TableDeliveries(ctx context.Context, c workflow.Caller, name string) (workflow.List[workflow.DeliveryAttempt], error)
	Subscriptions(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Subscription], error)
	Subscription(ctx context.Context, c workflow.Caller, name string) (workflow.Subscription, error)
	Deliveries(ctx context.Context, c workflow.Caller, name string) (workflow.List[workflow.DeliveryAttempt], error)
	PutSubscription(ctx context.Context, c workflow.Caller, name string, req views.SubscriptionRequest) (s workflow.Subscription, secret string, err error)
	RemoveSubscription(ctx context.Context, c workflow.Caller, name string) (workflow.Subscription, error)
	ResumeSubscription(ctx context.Context, c workflow.Caller, name string) (workflow.Subscription, error)
	Triggers(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[spec.PublishedTrigger], error)
	Trigger(ctx context.Context, c workflow.Caller, name string) (spec.PublishedTrigger, error)
	TriggerCalls(ctx context.Context, c workflow.Caller, name string) (workflow.List[workflow.TriggerCall], error)
	PauseTrigger(ctx context.Context, c workflow.Caller, name, reason string) (spec.PublishedTrigger, error)
	ResumeTrigger(ctx context.Context, c workflow.Caller, name string) (spec.PublishedTrigger, error)
	PauseSchedule(ctx context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error)
	ResumeSchedule(ctx context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error)
	RemoveSchedule(ctx context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error)

	Secrets(ctx context.Context, c workflow.Caller) (views.SecretsView, error)

	RegisterBlock(ctx context.Context, c workflow.Caller, b workflow.Block) (created bool, err error)
	Blocks(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Block], error)

	BeginAudit(ctx context.Context, c workflow.Caller, e workflow.AuditEntry) (workflow.AuditEntry, error)
	EndAudit(ctx context.Context, c workflow.Caller, e workflow.AuditEntry, status int) error
	AuditEntries(ctx context.Context, c workflow.Caller, f workflow.AuditFilter, page workflow.Page) (workflow.List[workflow.AuditEntry], error)
	MetricsSummary(ctx context.Context, c workflow.Caller, ref string, days int) (views.MetricsSummary, error)

	PutEntity(ctx context.Context, c workflow.Caller, e workflow.Entity) (workflow.Entity, error)
	Entity(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (workflow.Entity, error)
	EntityTypes(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[string], error)
	Entities(ctx context.Context, c workflow.Caller, sel workflow.Selector, page workflow.Page) (workflow.List[workflow.Entity], error)
	PatchEntity(ctx context.Context, c workflow.Caller, key workflow.EntityKey, patch views.EntityPatch) (workflow.Entity, error)
	DeleteEntity(ctx context.Context, c workflow.Caller, key workflow.EntityKey, version *int64) (workflow.Entity, error)
	ImportEntities(ctx context.Context, c workflow.Caller, r io.Reader, replace bool) (views.ImportResult, error)
}

// Engine starts executions and changes them.
type Engine interface {
	Start(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, existed bool, err error)
	Cancel(ctx context.Context, c workflow.Caller, id string, req views.CancelRequest) (*workflow.Execution, error)
	Acknowledge(ctx context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error)
	Retry(ctx context.Context, c workflow.Caller, id string, req views.RetryRequest) (*workflow.Execution, error)
	Rerun(ctx context.Context, c workflow.Caller, id string, req views.RerunRequest) (x *workflow.Execution, existed bool, err error)
	Resume(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error)
	ResumeStep(ctx context.Context, c workflow.Caller, id, step, reason string) (*workflow.Execution, error)
	NextStep(ctx context.Context, c workflow.Caller, id string, req views.NextRequest) (*workflow.Execution, error)
	Rewind(ctx context.Context, c workflow.Caller, id string, req views.RewindRequest) (*workflow.Execution, error)
	Signal(ctx context.Context, c workflow.Caller, id, name string, data json.RawMessage, idempotencyKey, reason string) (views.SignalReceipt, error)
	SignalKey(ctx context.Context, c workflow.Caller, workflowName, key, name string, data json.RawMessage, idempotencyKey, reason string) (views.SignalReceipt, error)
	SignalWithStart(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, started, existed bool, err error)
	Answer(ctx context.Context, c workflow.Caller, id string, req views.AnswerRequest) (*workflow.Execution, error)
	IssueToken(ctx context.Context, c workflow.Caller, id string, req views.TokenRequest) (views.TokenView, error)
	RevokeTokens(ctx context.Context, c workflow.Caller, id string, req views.RevokeRequest) (*workflow.Execution, error)
	AnswerByToken(ctx context.Context, token string, req views.TokenAnswer) (views.TokenReceipt, error)
	QuestionOfToken(ctx context.Context, token string) (views.QuestionView, error)
	CallTrigger(ctx context.Context, tenant, name string, call views.TriggerCall) (views.TriggerReceipt, error)
	Form(ctx context.Context, tenant, name string) (views.FormView, error)
	TakeEvent(ctx context.Context, caller workflow.Caller, event json.RawMessage) (views.EventReceipt, error)
	FireTrigger(ctx context.Context, c workflow.Caller, name string, req views.FireRequest) (views.TriggerReceipt, error)
	Unlock(ctx context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error)
}

// Queries reads executions and locks. Its pages are smaller than about 1 MiB.
type Queries interface {
	Plan(ctx context.Context, c workflow.Caller, req views.StartRequest) (views.PlanView, error)
	Execution(ctx context.Context, c workflow.Caller, id string) (views.ExecutionView, error)
	Executions(ctx context.Context, c workflow.Caller, f views.ExecutionFilter, page workflow.Page) (workflow.List[views.ExecutionView], error)
	History(ctx context.Context, c workflow.Caller, id string, after int64, page workflow.Page) (workflow.List[workflow.Event], error)
	Jobs(ctx context.Context, c workflow.Caller, id string, f views.JobFilter, page workflow.Page) (workflow.List[workflow.Job], error)
	Steps(ctx context.Context, c workflow.Caller, id string, page workflow.Page) (workflow.List[views.StepView], error)
	Children(ctx context.Context, c workflow.Caller, id, step string, page workflow.Page) (workflow.List[views.ChildExecutionView], error)
	Result(ctx context.Context, c workflow.Caller, id string) (views.ResultView, error)
	Cost(ctx context.Context, c workflow.Caller, id string) (views.CostView, error)
	PinnedDefinition(ctx context.Context, c workflow.Caller, id string) (views.PinnedDefinition, error)
	Next(ctx context.Context, c workflow.Caller, id string, page workflow.Page) (views.NextView, error)
	Status(ctx context.Context, c workflow.Caller, id string) (views.StatusView, error)
	Inputs(ctx context.Context, c workflow.Caller, id string, mine bool) ([]views.InputView, error)
	Tokens(ctx context.Context, c workflow.Caller, id string) ([]views.TokenStateView, error)
	Inbox(ctx context.Context, c workflow.Caller, mine bool, page workflow.Page) (workflow.List[views.InputView], error)
	Schedule(ctx context.Context, c workflow.Caller, fullName string) (views.ScheduleView, error)
	Locks(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.LockView], error)
	Lock(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (views.LockView, error)
	Failures(ctx context.Context, c workflow.Caller, f views.FailureFilter, page workflow.Page) (workflow.List[views.FailedEntityView], error)
	Rows(ctx context.Context, c workflow.Caller, table, where string, page workflow.Page) (workflow.List[workflow.Row], error)
	EntityExecutions(ctx context.Context, c workflow.Caller, key workflow.EntityKey) ([]views.EntityExecutionView, error)
}

// WorkerAPI serves polling workers.
type WorkerAPI interface {
	RegisterWorker(ctx context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error)
	HeartbeatWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	DrainWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	UnregisterWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	Worker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error)
	Workers(ctx context.Context, c workflow.Caller, block *workflow.Ref, page workflow.Page) (workflow.List[views.WorkerView], error)

	Poll(ctx context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error)
	Extend(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error)
	Finish(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error)
	Pools(ctx context.Context, c workflow.Caller) ([]views.PoolView, error)
}

// Operations serves operators: dead letters, the sweep, and schedules that are fired by hand.
type Operations interface {
	DeadLetters(ctx context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error)
	Redrive(ctx context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error)
	NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error)
	TestSubscription(ctx context.Context, c workflow.Caller, name string) (workflow.DeliveryAttempt, error)
	FireSchedule(ctx context.Context, c workflow.Caller, fullName, idempotencyKey string) (id string, existed bool, err error)
	RetryRows(ctx context.Context, c workflow.Caller, table string) (views.RowsRetry, error)
}

// Services are the services behind the API. All are required.
type Services struct {
	Catalog    Catalog
	Engine     Engine
	Queries    Queries
	WorkerAPI  WorkerAPI
	Operations Operations
}

// Options configure [New].
type Options struct {
	// TrustHeaders takes the tenant, the actor and the roles from X-Tenant, X-Actor and
	// X-Roles ("default", "local" and none without them). Only a local stack may set it.
	TrustHeaders bool

	// Identify names the caller that an authorizer has verified, if headers are not
	// trusted. Without either, every request is unauthorized.
	Identify func(r *http.Request) (workflow.Caller, error)

	// Access says who has which role. The zero value lets everybody do everything.
	Access Access

	// Ready returns an error if requests cannot be served; nil means always ready.
	Ready func(ctx context.Context) error

	// Monitor serves the pages at / and /answer and their files under /monitor/; nil answers 404.
	Monitor http.Handler

	// Origins are other origins whose pages may call the API from a browser, behind a gateway that
	// writes the CORS headers. Each is scheme://host[:port].
	Origins []string

	// Version and Commit name the build.
	Version, Commit string

	// Log is for errors; nil is slog.Default().
	Log *slog.Logger

	// NewID makes ids for requests that have none; nil makes random ones.
	NewID func() string

	// Sleep waits between two checks of a request that waits; nil uses a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

type routes struct {
	Services
	opt Options
	doc *openapi.Document
}

var _ gen.ServerInterface = (*routes)(nil)

// New makes the HTTP API of the services.
func New(s Services, opt Options) http.Handler {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Sleep == nil {
		opt.Sleep = sleep
	}
	if opt.NewID == nil {
		opt.NewID = uuid.NewString
	}
	a := &routes{Services: s, opt: opt, doc: openapi.Load()}
	mux := &validatingMux{routes: a, mux: http.NewServeMux()}
	gen.HandlerWithOptions(a, gen.StdHTTPServerOptions{
		BaseRouter: mux,
		// Parameters have been validated before; this is for what validation missed.
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			a.writeError(w, r, workflow.Errorf(workflow.CodeInvalid, "%s", err.Error()))
		},
	})
	mux.HandleFunc("GET /health", a.health)
	mux.HandleFunc("GET /version", a.version)
	mux.HandleFunc("GET /openapi.json", a.openapi)
	if opt.Monitor != nil {
		mux.mux.Handle("GET /{$}", opt.Monitor)
		mux.mux.Handle("GET "+workflow.AnswerPage, opt.Monitor)
		mux.mux.Handle("GET /monitor/", opt.Monitor)
	}
	return a.middleware(mux.mux)
}

func (a *routes) health(w http.ResponseWriter, r *http.Request) {
	if a.opt.Ready != nil {
		if err := a.opt.Ready(r.Context()); err != nil {
			a.writeError(w, r, &workflow.Error{Code: workflow.CodeUnavailable, Message: "not ready", Cause: err})
			return
		}
	}
	a.respond(w, r, http.StatusOK, map[string]string{"status": "ok"}, nil)
}

func (a *routes) version(w http.ResponseWriter, r *http.Request) {
	a.respond(w, r, http.StatusOK, map[string]string{"version": a.opt.Version, "commit": a.opt.Commit, "go": runtime.Version()}, nil)
}

func (a *routes) openapi(w http.ResponseWriter, _ *http.Request) {
	a.writeJSON(w, http.StatusOK, openapi.JSON)
}
