package worker

import (
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

// Options configure a worker. The zero value of each field means its default.
type Options struct {
	Name              string         // shown with every job; the host's name and the process id
	Pool              string         // of blocks that name none; "default"
	Version           string         // of the program, shown with a polling worker
	Concurrency       int            // jobs run at a time; 16
	LeaseDuration     time.Duration  // a claim without a heartbeat holds this long; 60s
	HeartbeatInterval time.Duration  // how often it is renewed; a third of Lease
	MaxClockSkew      time.Duration  // how far clocks may differ; 2s
	LeaseMargin       time.Duration  // jobs stop this long before their lease ends; 2s
	StopTimeout       time.Duration  // a process that is told to stop lets its packs end for so long; 10s
	MaxClaims         int            // of one pack, by all workers; 5
	MaxReceives       int            // of one message, before its queue gives up on it; 20
	UnclaimedTimeout  time.Duration  // jobs that nobody claims for this long fail; 60m
	HTTPBlocks        EndpointCaller // runs blocks served over HTTPBlocks; nil: this worker has none

	Logger *slog.Logger
	Tracer observe.Tracer // takes a span of each job; nil: nobody does
	// Sequential is for simulations: everything happens in the goroutine that calls
	// Handle. Jobs run one after the other, the lease is renewed between them when
	// that is due, a time-out is only noticed afterwards, and a block's panic goes on
	// to the caller, as the death of the worker.
	Sequential bool

	// Now, Nonce and Jitter are time and chance; Jitter gives a share from 0 to 1.
	// Now has to keep pace with the timers of package time, unless Sequential is set.
	Now             func() time.Time
	NewNonce        func() string
	Jitter          func() float64
	MinFencingToken func() int64 // of tokens, lock.floor of the configuration; nil: none. Messages of a lower one are from before tables were restored
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
	o.HeartbeatInterval = min(o.HeartbeatInterval, o.LeaseDuration/2) // a rarer one would come after the jobs have been aborted
	setDefault(&o.MaxClockSkew, min(2*time.Second, o.LeaseDuration/30))
	setDefault(&o.LeaseMargin, min(2*time.Second, o.LeaseDuration/30))
	o.LeaseMargin = min(o.LeaseMargin, o.LeaseDuration/4) // a longer one would let no job begin
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

// Worker offers blocks. Add all of them before it is served; then it may be used
// by many goroutines.
type Worker struct {
	Options
	blocks        map[string]registeredBlock // by exact reference
	sessionConfig sessionConfig
}

// registeredBlock is a block as the worker runs it.
type registeredBlock struct {
	block   workflow.Block
	handler jobHandler
}

// New makes a worker without blocks.
func New(o Options) *Worker {
	o = o.withDefaults()
	w := &Worker{Options: o, blocks: map[string]registeredBlock{}}
	w.sessionConfig = sessionConfig{
		Name: o.Name, LeaseDuration: o.LeaseDuration, HeartbeatInterval: o.HeartbeatInterval, MaxClockSkew: o.MaxClockSkew, LeaseMargin: o.LeaseMargin,
		MaxClaims: o.MaxClaims, UnclaimedTimeout: o.UnclaimedTimeout, Sequential: o.Sequential,
		Logger: o.Logger, Now: o.Now, NewNonce: o.NewNonce, Jitter: o.Jitter, MinFencingToken: o.MinFencingToken,
		Slots: make(chan struct{}, o.Concurrency), RunJob: w.runJob,
	}
	return w
}

// Blocks describes what the worker offers, as it is registered.
func (w *Worker) Blocks() []workflow.Block {
	var all []workflow.Block
	for _, s := range w.blocks {
		all = append(all, s.block)
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return strings.Compare(a.Ref().String(), b.Ref().String()) })
	return all
}
