package worker

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Options configure a worker. The zero value of a field means its default.
type Options struct {
	// Name identifies the worker. It is shown with every job the worker runs.
	// Default: the host name and six random characters.
	Name string

	// Pool serves the blocks that name no pool. Default: "default".
	Pool string

	// Region is the region of the executions that it works for; empty for executions without one.
	Region string

	// Version is the version of the program. It is shown with a polling worker.
	Version string

	// Concurrency limits how many jobs run at a time, over all packs. Default: 16.
	Concurrency int

	// LeaseDuration is how long a claim is valid without a heartbeat. A pack whose
	// worker crashed is taken over after this time. Default: 60s.
	LeaseDuration time.Duration

	// HeartbeatInterval is how often the lease is renewed. Default: a third of
	// LeaseDuration; at most half of it.
	HeartbeatInterval time.Duration

	// MaxClockSkew is how far the clocks of two workers may differ. Default: 2s, or
	// a thirtieth of LeaseDuration if that is less.
	MaxClockSkew time.Duration

	// LeaseMargin is how long before the end of their lease jobs are aborted.
	// Default: 2s, or a thirtieth of LeaseDuration if that is less; at most a quarter
	// of LeaseDuration.
	LeaseMargin time.Duration

	// StopTimeout is how long a polling worker that is asked to stop waits for its
	// packs to finish. Default: 10s.
	StopTimeout time.Duration

	// MaxClaims limits how often one pack may be claimed, by all workers together.
	// Default: 5.
	MaxClaims int

	// MaxReceives is how often the queue delivers a message before it becomes a
	// dead letter. It must match the queue's redrive policy. Default: 20.
	MaxReceives int

	// UnclaimedTimeout is how long a job may wait without being claimed before the
	// engine fails it. Pure blocks with a time-out of up to half of this run without
	// a claim. Default: 60m.
	UnclaimedTimeout time.Duration

	// PoolMarks bounds the marks of pools that a process leaves. Workers of one process may share it. Nil: this worker
	// has its own.
	PoolMarks *PoolMarks

	// HTTPBlocks calls blocks that are served over HTTP. Nil: the worker runs none.
	HTTPBlocks EndpointCaller

	// Secrets returns the values of the secrets that jobs are called with. Nil: such jobs fail.
	Secrets SecretSource

	// Sealed opens the sealed parameters that jobs are called with. Nil: such jobs fail.
	Sealed SealedSource

	// Logger receives the worker's log. Default: slog.Default().
	Logger *slog.Logger

	// Tracer records a span for each job. Nil: no spans.
	Tracer observe.Tracer

	// Sequential is for simulations: everything happens in the goroutine that calls
	// Handle. Jobs run one after the other, the lease is renewed between jobs, a
	// time-out is noticed only after the job, and a block's panic reaches the caller
	// as a crash of the worker would.
	Sequential bool

	// Now returns the current time. It must keep pace with the timers of package
	// time, unless Sequential is set. Default: time.Now.
	Now func() time.Time

	// NewNonce returns a short random string, unique for each claim.
	NewNonce func() string

	// Jitter returns a random number from 0 to 1, which spreads retries.
	Jitter func() float64

	// MinFencingToken returns the lowest valid lock token, the configuration's
	// lock.floor. The worker drops messages with a lower one: they are older than the
	// last restore of the tables. Nil: every message is valid.
	MinFencingToken func() int64
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		o.Name = host + "-" + strings.ToLower(rand.Text()[:6])
	}
	setDefault := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	setDefault(&o.LeaseDuration, time.Minute)
	setDefault(&o.HeartbeatInterval, o.LeaseDuration/3)
	o.HeartbeatInterval = min(o.HeartbeatInterval, o.LeaseDuration/2) // a longer one would come after the jobs were aborted
	setDefault(&o.MaxClockSkew, min(2*time.Second, o.LeaseDuration/30))
	setDefault(&o.LeaseMargin, min(2*time.Second, o.LeaseDuration/30))
	o.LeaseMargin = min(o.LeaseMargin, o.LeaseDuration/4) // a longer one would let no job start
	setDefault(&o.StopTimeout, 10*time.Second)
	setDefault(&o.UnclaimedTimeout, time.Hour)
	if o.Pool == "" {
		o.Pool = "default"
	}
	if o.Concurrency == 0 {
		o.Concurrency = 16
	}
	if o.MaxClaims == 0 {
		o.MaxClaims = 5
	}
	if o.MaxReceives == 0 {
		o.MaxReceives = topology.MaxReceiveJobs
	}
	if o.PoolMarks == nil {
		o.PoolMarks = &PoolMarks{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewNonce == nil {
		o.NewNonce = func() string { return rand.Text()[:12] }
	}
	if o.Jitter == nil {
		o.Jitter = mathrand.Float64
	}
	return o
}

// Worker runs the jobs of the blocks that are registered with it. Register all
// blocks before the worker handles its first message; after that it is safe for
// concurrent use.
type Worker struct {
	opts   Options
	blocks map[string]registeredBlock // by exact reference, package/name:version
	slots  chan struct{}              // holds one entry for each running job
}

// registeredBlock is a block with the handler that runs its jobs.
type registeredBlock struct {
	block   workflow.Block
	handler jobHandler
}

// New returns a worker without blocks. Add them with [Register].
func New(o Options) *Worker {
	o = o.withDefaults()
	return &Worker{opts: o, blocks: map[string]registeredBlock{}, slots: make(chan struct{}, o.Concurrency)}
}

// Options returns the worker's options with all defaults filled in.
func (w *Worker) Options() Options { return w.opts }

// Blocks returns the descriptions of the registered blocks, sorted by reference, as
// they are registered with the service.
func (w *Worker) Blocks() []workflow.Block {
	var all []workflow.Block
	for _, s := range w.blocks {
		all = append(all, s.block)
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return strings.Compare(a.Ref().String(), b.Ref().String()) })
	return all
}

// serves reports whether this worker can run the message's jobs.
func (w *Worker) serves(m *workflow.PackMessage) bool {
	if m.Work.HTTP != nil {
		return w.opts.HTTPBlocks != nil
	}
	return w.blocks[m.Work.Block].handler != nil
}

// handlerFor returns the handler for the message's jobs, which are called with the secrets.
func (w *Worker) handlerFor(m *workflow.PackMessage, secrets jobSecrets) jobHandler {
	if m.Work.HTTP != nil {
		endpoint := secrets.endpoint(m.Work.HTTP)
		return func(ctx context.Context, job *Job) JobResult { return w.opts.HTTPBlocks.Call(ctx, endpoint, job) }
	}
	return w.blocks[m.Work.Block].handler
}
