package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// sessionConfig are what sessions go by; the fields of worker.Options say what they mean.
type sessionConfig struct {
	Name              string
	LeaseDuration     time.Duration
	HeartbeatInterval time.Duration
	MaxClockSkew      time.Duration
	LeaseMargin       time.Duration
	MaxClaims         int
	UnclaimedTimeout  time.Duration
	Sequential        bool
	Logger            *slog.Logger
	Now               func() time.Time
	NewNonce          func() string
	Jitter            func() float64
	MinFencingToken   func() int64

	// Slots has room for as many jobs as may run at a time.
	Slots chan struct{}

	// RunJob runs one job and returns what came of it. aborted says that the context
	// ended before the job told.
	RunJob func(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (a jobRecord, aborted bool)
}

// logWarning tells of something about a pack that is not as it should be.
func (r *sessionConfig) logWarning(ctx context.Context, msg string, m *workflow.PackMessage, err error) {
	r.Logger.LogAttrs(ctx, slog.LevelWarn, msg, append(PackAttrs(m), observe.Err(err))...)
}

// jobRecord is the part of a job's record that its block has a say in.
type jobRecord = workflow.JobRecord

// sessionPorts is one view of the world for one message; worker.Ports describes it.
type sessionPorts struct {
	Packs            sessionPacks
	Sender           sessionSender
	Meter            interface{ Take() workflow.Cost }
	ExtendVisibility func(ctx context.Context, d time.Duration) error

	TimeBudget       time.Duration
	OnUnclaimedStart func(ctx context.Context)
}

// sessionPacks is worker.Packs.
type sessionPacks interface {
	Claim(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	TakeOver(ctx context.Context, seen, next *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	Extend(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	Finish(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	FinishUnclaimed(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error)
	SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error)
	LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error)
}

// sessionSender is worker.Queue.
type sessionSender interface {
	SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)
	SendWakeups(ctx context.Context, delay time.Duration, looks ...workflow.Wakeup) error
}

// sessionDisposition is worker.Disposition.
type sessionDisposition struct {
	Done       bool
	RetryAfter time.Duration
}

func retryDisposition(d time.Duration) sessionDisposition {
	return sessionDisposition{RetryAfter: max(d, time.Millisecond)}
}

var doneDisposition = sessionDisposition{Done: true}

// These end the work on a pack without an end of it. The message is left: it comes
// back and finds out what became of the pack.
var (
	errClaimLost     = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack is somebody else's by now"}
	errWorkerStopped = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the worker had to stop before all jobs were run"}
	errPackCancelled = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack has been cancelled"}
)

// handlePack answers one pack's message. An error leaves the message to redelivery:
// whatever was not done is done then, or by the engine's alarm.
func handlePack(ctx context.Context, rules *sessionConfig, m *workflow.PackMessage, p sessionPorts) (sessionDisposition, error) {
	now := rules.Now()
	switch {
	case now.After(m.NotAfter), rules.predatesRestore(m):
		return doneDisposition, nil
	case now.Before(m.NotBefore):
		return retryDisposition(m.NotBefore.Sub(now)), nil
	}
	s := &session{config: rules, m: m, ports: p, started: map[int]bool{}, unclaimed: rules.needsNoClaim(m), writeSlot: make(chan struct{}, 1)}
	if !m.Work.Repeatable() {
		// The claim writes the first job down as started, so it must begin at once.
		if !s.acquireSlot(ctx) {
			return sessionDisposition{}, errWorkerStopped
		}
		defer s.releaseSlot()
	}
	if !s.hasTimeFor(ctx) {
		return retryDisposition(time.Second), nil
	}
	if err := s.loadRollbackInputs(ctx); err != nil {
		return sessionDisposition{}, err
	}
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return d, err
	}
	if s.pack.Final() {
		return s.sendFollowUps(ctx, s.pack, false)
	}
	if s.unclaimed && p.OnUnclaimedStart != nil {
		p.OnUnclaimedStart(ctx)
	}
	if err := s.runJobs(ctx); err != nil {
		return sessionDisposition{}, err
	}
	finalPack, ownWrite, err := s.finish(ctx)
	var claimed *claimedElsewhereError
	if errors.As(err, &claimed) {
		return claimed.disposition, nil
	}
	if err != nil {
		return sessionDisposition{}, err
	}
	return s.sendFollowUps(ctx, finalPack, ownWrite)
}

// predatesRestore reports whether a message is from before the tables were restored: of a
// step run that the engine does not know of any more.
func (r *sessionConfig) predatesRestore(m *workflow.PackMessage) bool {
	return r.MinFencingToken != nil && m.Work.MinFencingToken < r.MinFencingToken()
}

// needsNoClaim reports whether the jobs need no claim: they are pure, so it does no harm
// if two workers run them. Those that may take long are claimed all the same, so
// that nobody takes them for jobs without a worker.
func (r *sessionConfig) needsNoClaim(m *workflow.PackMessage) bool {
	return m.Work.Pure && m.Work.Kind != workflow.JobRollback && m.Work.Timeout.Std() <= r.UnclaimedTimeout/2
}
