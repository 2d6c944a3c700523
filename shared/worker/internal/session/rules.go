package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/worker/told"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Rules are what sessions go by; the fields of worker.Options say what they mean.
type Rules struct {
	Name       string
	Lease      time.Duration
	Heartbeat  time.Duration
	Skew       time.Duration
	Margin     time.Duration
	MaxClaims  int
	Unclaimed  time.Duration
	Sequential bool
	Log        *slog.Logger
	Now        func() time.Time
	Nonce      func() string
	Jitter     func() float64
	Floor      func() int64

	// Slots has room for as many jobs as may run at a time.
	Slots chan struct{}

	// Call runs one job and returns what came of it. aborted says that the context
	// ended before the job told.
	Call func(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (a Answer, aborted bool)
}

// warn tells of something about a pack that is not as it should be.
func (r *Rules) warn(ctx context.Context, what string, m *workflow.PackMessage, err error) {
	r.Log.LogAttrs(ctx, slog.LevelWarn, what, append(told.Pack(m), observe.Err(err))...)
}

// Answer is the part of a job's record that its block has a say in.
type Answer = workflow.JobRecord

// Ports is one view of the world for one message; worker.Ports describes it.
type Ports struct {
	Packs Packs
	Queue Queue
	Meter interface{ Take() workflow.Cost }
	Hold  func(ctx context.Context, d time.Duration) error

	Budget time.Duration
	Begun  func(ctx context.Context)
}

// Packs is worker.Packs.
type Packs interface {
	Claim(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	TakeOver(ctx context.Context, seen, next *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	Extend(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	Finish(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	FinishUnclaimed(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneEnd) (workflow.DoneSet, error)
	Save(ctx context.Context, key workflow.PackKey, data []byte) (workflow.Stored, error)
	Load(ctx context.Context, key workflow.PackKey, s workflow.Stored) ([]byte, error)
}

// Queue is worker.Queue.
type Queue interface {
	Offer(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)
	Notify(ctx context.Context, delay time.Duration, looks ...workflow.Look) error
}

// Disposition is worker.Disposition.
type Disposition struct {
	Done  bool
	After time.Duration
}

func later(d time.Duration) Disposition { return Disposition{After: max(d, time.Millisecond)} }

var done = Disposition{Done: true}

// These end the work on a pack without an end of it. The message is left: it comes
// back and finds out what became of the pack.
var (
	errLost      = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack is somebody else's by now"}
	errStopped   = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the worker had to stop before all jobs were run"}
	errCancelled = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack has been cancelled"}
)

// Handle answers one pack's message. An error leaves the message to redelivery:
// whatever was not done is done then, or by the engine's alarm.
func Handle(ctx context.Context, rules *Rules, m *workflow.PackMessage, p Ports) (Disposition, error) {
	now := rules.Now()
	switch {
	case now.After(m.NotAfter), rules.forgotten(m):
		return done, nil
	case now.Before(m.NotBefore):
		return later(m.NotBefore.Sub(now)), nil
	}
	s := &session{w: rules, m: m, ports: p, started: map[int]bool{}, free: rules.free(m), writing: make(chan struct{}, 1)}
	if !m.Work.Repeatable() {
		// The claim writes the first job down as started, so it must begin at once.
		if !s.seat(ctx) {
			return Disposition{}, errStopped
		}
		defer s.rise()
	}
	if !s.timeFor(ctx) {
		return later(time.Second), nil
	}
	if err := s.fetch(ctx); err != nil {
		return Disposition{}, err
	}
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return d, err
	}
	if s.pack.Final() {
		return s.after(ctx, s.pack, false)
	}
	if s.free && p.Begun != nil {
		p.Begun(ctx)
	}
	if err := s.run(ctx); err != nil {
		return Disposition{}, err
	}
	final, own, err := s.finish(ctx)
	var by *engaged
	if errors.As(err, &by) {
		return by.so, nil
	}
	if err != nil {
		return Disposition{}, err
	}
	return s.after(ctx, final, own)
}

// forgotten reports whether a message is from before the tables were restored: of a
// step run that the engine does not know of any more.
func (r *Rules) forgotten(m *workflow.PackMessage) bool {
	return r.Floor != nil && m.Work.Floor < r.Floor()
}

// free reports whether the jobs need no claim: they are pure, so it does no harm
// if two workers run them. Those that may take long are claimed all the same, so
// that nobody takes them for jobs without a worker.
func (r *Rules) free(m *workflow.PackMessage) bool {
	return m.Work.Pure && m.Work.Kind != workflow.JobRollback && m.Work.Timeout.Std() <= r.Unclaimed/2
}
