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
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Options are the engine's thresholds. They come from the configuration; none
// has a default here.
type Options struct {
	Policy             lifecycle.Policy
	Dispatch           dispatch.Limits
	JobTimeout         time.Duration // of a block that names none
	ReserveAfter       int           // lock conflicts from which a run reserves
	Parallelism        int           // calls in flight at a time; 1 keeps everything in one goroutine
	InlineMaxEntities  int           // scopes up to this many entities are driven by whoever starts the run
	MaxEntities        int           // of one run
	MaxResultBytes     int           // bytes of earlier results that a step's expressions may see
	IdempotencyKeyTTL  time.Duration // how long an idempotency key is remembered
	MaxConflictRetries int           // reloads after lost races in one look
	StallTimeout       time.Duration // looks that fail for so long end a run
}

// Deps is what time, chance and the outside are to the engine.
type Deps struct {
	Now       func() time.Time
	NewID     func() string     // a UUIDv7
	Nonce     func() string     // a short random text
	Backoff   func(round int)   // a jittered pause before deciding again after a lost race
	OpenPorts func() port.Ports // one view of the ports per piece of work
	Log       *slog.Logger
	Tracer    observe.Tracer // nil: nobody takes spans

	// RecordMetric takes a value of one of the metrics of package topology; nil: nobody does.
	RecordMetric func(ctx context.Context, metric string, n int)
}

// Engine performs lifecycle transitions. It keeps no state but a cache of
// definitions and blocks, which are immutable.
type Engine struct {
	Options
	Deps
	definitions *definitions.Cache
	version     string // of the engine, written on every state item it commits
}

// New makes an engine. version is written on every state item it commits.
func New(deps Deps, o Options, version string) *Engine {
	return &Engine{Options: o, Deps: deps, definitions: &definitions.Cache{}, version: version}
}

// now is the time in the resolution in which it is stored, so that a value
// compares equal before and after a round trip.
func (e *Engine) now() time.Time { return e.Now().UTC().Truncate(time.Millisecond) }

// wakeup names an execution for a message.
func wakeup(x *workflow.Execution, why string) workflow.Wakeup {
	return workflow.Wakeup{Tenant: x.Tenant, Execution: x.ID, Reason: why}
}
