// Package engine moves executions forward: load, decide, commit, perform.
//
//	API request / message / timer
//	        |  execution id
//	        v
//	load the state item -> decide (package lifecycle) -> one conditional write -> send messages -> repeat until idle
//
// Where to start reading: start.go creates executions, command.go carries out
// an operator's verbs, and signal.go stores a signal. All lead to advance.go, the loop behind every message. The
// loop asks package lifecycle what comes next. When the decider needs a fact, the
// answer is in the file named for it, fetch_<need>.go. What a commit causes (packs,
// children, wake-ups) is in effects.go.
//
// The other files: validate_start.go checks start requests, payload.go stores what
// is too large for the state item, deadletter.go records dead-lettered messages,
// failures.go counts wake-ups that fail, telemetry.go writes logs, metrics and
// spans, inspect.go reads executions for the queries.
//
// Losing a race is normal here: the loop reloads and decides again. A message may
// arrive twice, late or never, and a handler may crash between any two lines. It
// then leaves either nothing, or a committed state whose timer brings the next
// handler.
//
// The packages below: port (what the engine needs from outside), locking and
// dispatch (the two protocols), definitions (compiled definitions and blocks),
// planner (the jobs of a step run), workers (the polling workers), scheduler (what
// has become due) and query (the read side).
package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Options are the engine's thresholds. They come from the configuration; none has a default here.
type Options struct {
	Policy             lifecycle.Policy
	Dispatch           dispatch.Limits
	JobTimeout         time.Duration // for blocks that set none
	ReserveAfter       int           // lock conflicts after which an execution makes a reservation
	Parallelism        int           // calls in flight at a time; 1 keeps everything in one goroutine
	InlineMaxEntities  int           // requests advance executions with up to this many entities
	InlineMaxBytes     int           // requests read up to this much of the inventory to select entities; 0 for no limit
	MaxEntities        int           // per execution
	EntitiesAtOnce     int           // bounds the entities of all large executions that one process handles at the same time; 0 for no limit
	MaxDescendants     int           // how many executions an execution and its descendants may start
	MaxResultBytes     int           // bytes of earlier results that a step's expressions may read
	MaxPlanCost        uint64        // for all expressions of one plan together; 0 for no limit
	IdempotencyKeyTTL  time.Duration // how long an idempotency key stays bound
	MaxConflictRetries int           // reloads after lost races, per wake-up
	StallTimeout       time.Duration // wake-ups that fail for this long end an execution

	Address   string             // where people reach this stage; "" if not configured
	Endpoints workflow.Endpoints // of this stage
	Regions   []string           // regions that pools of this stage are known to serve

	Alerts           workflow.AlertTarget // who is notified of every failure
	SubscriptionsAge time.Duration        // how long a process may overlook a new subscription; 0 means no subscriptions
	CountEnds        bool                 // the ends of all executions are counted

	StartsByWakeup bool // wake-up handlers advance new executions, because this process lacks the rights
}

// Deps are the engine's sources of time, randomness and I/O.
type Deps struct {
	Now       func() time.Time
	NewID     func() string     // returns a UUIDv7
	Nonce     func() string     // returns a short random string
	Backoff   func(round int)   // pauses, with jitter, before deciding again after a lost race
	OpenPorts func() port.Ports // opens one set of ports per piece of work
	Log       *slog.Logger
	Tracer    observe.Tracer // nil records no spans

	// Sealer seals parameters; nil for a process that seals none.
	Sealer Sealer

	// TokenKeys returns the keys of resume tokens; nil if there are none.
	TokenKeys func(ctx context.Context) (token.Keys, error)

	// Secret returns a tenant's secret, which proves calls of triggers; nil if there are none.
	Secret func(ctx context.Context, tenant, name string) (string, error)

	// Captcha asks a captcha provider; nil if there is none.
	Captcha CaptchaCheck

	// RecordMetric records a value of one of package topology's metrics; nil records none.
	RecordMetric func(ctx context.Context, metric string, n int)
}

// Engine performs lifecycle transitions. Its only state is a cache of definitions and blocks, which
// are immutable, and costs that have not been counted yet.
type Engine struct {
	Options
	Deps
	definitions *definitions.Cache
	uncounted   *uncountedCosts
	large       *largeScopes
	observers   *observedTenants
	refused     *refusedCalls
	events      *keptTriggers
	version     string // written to every state item that the engine commits
}

// New makes an engine. version is written to every state item that it commits.
func New(deps Deps, o Options, version string) *Engine {
	return &Engine{Options: o, Deps: deps, definitions: &definitions.Cache{}, uncounted: &uncountedCosts{}, large: newLargeScopes(o.EntitiesAtOnce), observers: &observedTenants{tenants: map[string]observedTenant{}}, refused: &refusedCalls{last: map[string]int64{}}, events: &keptTriggers{tenants: map[string]tenantTriggers{}}, version: version}
}

// now returns the current time at the resolution in which times are stored, so that a value
// compares equal before and after a round trip.
func (e *Engine) now() time.Time { return e.Now().UTC().Truncate(time.Millisecond) }

// Forget forgets which versions of definitions and blocks there are and which tenants have subscriptions, as if
// the process had just begun. A simulation does so that continues in another world: what it does must not depend
// on the world before.
func (e *Engine) Forget() {
	e.definitions.ForgetVersions()
	e.observers.forget()
}
