package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Options are the engine's thresholds. They come from the configuration; none
// has a default here.
type Options struct {
	Policy       lifecycle.Policy
	Delivery     delivery.Limits
	JobTimeout   time.Duration // of a block that names none
	ReserveAfter int           // lock conflicts from which a run reserves
	Parallel     int           // calls in flight at a time; 1 keeps everything in one goroutine
	Inline       int           // scopes up to this many entities are driven by whoever starts the run
	MaxEntities  int           // of one run
	MaxResults   int           // bytes of earlier results that a step's expressions may see
	BindingLife  time.Duration // how long an idempotency key is remembered
	Tries        int           // reloads after lost races in one look
	Stalled      time.Duration // looks that fail for so long end a run
}

// World is what time, chance and the outside are to the engine.
type World struct {
	Now   func() time.Time
	NewID func() string     // a UUIDv7
	Nonce func() string     // a short random text
	Pause func(round int)   // a jittered pause before deciding again after a lost race
	Open  func() port.Ports // one view of the ports per piece of work
	Log   *slog.Logger
	Trace observe.Tracer // nil: nobody takes spans

	// Measure takes a value of one of the metrics of package topology; nil: nobody does.
	Measure func(ctx context.Context, metric string, n int)
}

// Engine performs lifecycle transitions. It keeps no state but a cache of
// definitions and blocks, which are immutable.
type Engine struct {
	Options
	World
	library *library.Library
	version string // of the engine, written on every state item it commits
}

// New makes an engine. version is written on every state item it commits.
func New(w World, o Options, version string) *Engine {
	return &Engine{Options: o, World: w, library: &library.Library{}, version: version}
}

// now is the time in the resolution in which it is stored, so that a value
// compares equal before and after a round trip.
func (e *Engine) now() time.Time { return e.Now().UTC().Truncate(time.Millisecond) }

// look names an execution for a message.
func look(x *workflow.Execution, why string) workflow.Look {
	return workflow.Look{Tenant: x.Tenant, Execution: x.ID, Why: why}
}
