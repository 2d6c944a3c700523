package engine

import (
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	// maxResultBytes bounds the earlier results that a step's expressions may read.
	maxResultBytes = 32 << 20
	// maxPlanCost bounds the total cost of the expressions of one plan. This limits planning to
	// about ten seconds, without a clock that could change the plan. It leaves a thousand for each
	// of a hundred thousand entities; most expressions cost less than ten.
	maxPlanCost = 100_000_000
	// inlineMaxBytes bounds what a request reads of the inventory. It is a second or two of its 29: an
	// index of a table that is new answers 12,000 units of 8 KB a second.
	inlineMaxBytes = 16 << 20
	// maxConflictRetries bounds how often the engine starts over because another handler has
	// committed first.
	maxConflictRetries = 12
)

// ConfiguredOptions returns the options of a configuration, for a stage with these endpoints.
func ConfiguredOptions(c config.Config, endpoints workflow.Endpoints) Options {
	return Options{
		Policy: lifecycle.Policy{
			PollInterval: c.Poll, LockTimeout: c.Lock.Wait, StartTimeout: c.Start.Wait, MessageLifetime: c.Pack.MessageLife,
			PackSize: c.Pack.Size, MinPackedJobs: c.Pack.MinJobs, MaxStepRuns: c.Execution.MaxSteps,
			Retention: c.Execution.Retention, MinFencingToken: int64(c.Lock.MinFencingToken),
		},
		Dispatch: dispatch.Limits{
			Skew: c.Clock.Skew, Grace: c.Clock.Grace, RedispatchInterval: c.Poll, MaxTakeovers: c.Job.MaxTakeovers,
			MessageLife: c.Pack.MessageLife, Unclaimed: c.Job.Unclaimed, Stuck: c.Job.Stuck, ChainBytes: c.Pack.ChainBytes, Parallel: c.Lock.Parallel,
		},
		JobTimeout: c.Job.Timeout, ReserveAfter: c.Lock.ReserveAfter, Parallelism: c.Lock.Parallel,
		InlineMaxEntities: c.Execution.InlineEntities, InlineMaxBytes: inlineMaxBytes, MaxEntities: c.Execution.MaxEntities, EntitiesAtOnce: maxEntitiesAtOnce, MaxDescendants: c.Execution.MaxDescendants, MaxResultBytes: maxResultBytes, MaxPlanCost: maxPlanCost,
		Address: c.Token.Address, Endpoints: endpoints, Regions: c.Regions, IdempotencyKeyTTL: c.Idempotency.Life, MaxConflictRetries: maxConflictRetries, StallTimeout: c.Execution.Stalled,
	}
}
