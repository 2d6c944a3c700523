package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// deadLetters is what is needed of the engine. Now has the resolution in which times are
// stored.
type deadLetters struct {
	ports              port.Ports
	now                func() time.Time
	nonce              func() string
	backoff            func(round int) // before deciding again after a lost race
	maxConflictRetries int
	engineVersion      string // of the engine
	log                *slog.Logger
}

// maxDeadLetterNotices bounds the notices of one run: what has died more often is only listed with
// the dead letters.
const maxDeadLetterNotices = 50

// historyPageSize is how many events of a long history are read at a time.
const historyPageSize = 200

// RecordDeadLetter writes that the message l.Dead of the run has died. An error means that the
// telling should come again; a run that does not exist is none.
func (b *deadLetters) RecordDeadLetter(ctx context.Context, l workflow.Wakeup) error {
	letter := *l.DeadLetter
	kind, _, _ := strings.Cut(letter.Reason, ":") // the rest stands in the history
	attrs := append(observe.ExecutionAttrs(l.Tenant, l.Execution, ""), slog.String(observe.MessageID, letter.MessageID),
		slog.String(observe.Queue, letter.Queue), slog.String(observe.Code, kind))
	if void, err := b.isDisproved(ctx, &letter); void || err != nil {
		return err
	}
	for conflicts := 0; conflicts <= b.maxConflictRetries; conflicts++ {
		if conflicts > 0 {
			b.backoff(conflicts)
		}
		x, err := b.ports.Store.Load(ctx, l.Tenant, l.Execution)
		if workflow.Is(err, workflow.CodeNotFound) {
			b.log.LogAttrs(ctx, slog.LevelWarn, "a message of a run that does not exist has died", attrs...)
			return nil
		}
		if err != nil {
			return err
		}
		known, err := deadLetterNotices(ctx, b.ports.Store, x, func(known map[string]workflow.DeadLetter) bool {
			_, twice := known[letter.MessageID]
			return twice || len(known) >= maxDeadLetterNotices
		})
		if err != nil {
			return err
		}
		if _, twice := known[letter.MessageID]; twice {
			return nil
		}
		if len(known) >= maxDeadLetterNotices {
			b.log.LogAttrs(ctx, slog.LevelWarn, "a message has died, of a run of which many have", attrs...)
			return nil
		}
		ok, err := b.commitNotice(ctx, x, letter, l.Cost)
		if err != nil {
			return err
		}
		if ok {
			b.log.LogAttrs(ctx, slog.LevelWarn, "a message has died", attrs...)
			return nil
		}
	}
	return workflow.Errorf(workflow.CodeConflict, "execution %s keeps changing", l.Execution)
}

// isDisproved reports whether what was feared has not happened.
func (b *deadLetters) isDisproved(ctx context.Context, letter *workflow.DeadLetter) (bool, error) {
	if !letter.Provisional || letter.Pack == nil {
		return false, nil
	}
	p, err := b.ports.Packs.Pack(ctx, *letter.Pack)
	return p != nil, err
}

// commitNotice commits the notice; false if somebody else has changed the run meanwhile.
func (b *deadLetters) commitNotice(ctx context.Context, x *workflow.Execution, letter workflow.DeadLetter, cost workflow.Cost) (bool, error) {
	next, err := lifecycle.RecordDeadLetter(x, letter, b.now())
	if err != nil {
		return false, err
	}
	next.Schema, next.Commit, next.EngineVersion = workflow.SchemaVersion, b.nonce(), b.engineVersion
	offloader := payloads{store: b.ports.Store, tenant: x.Tenant, executionID: x.ID, nonce: b.nonce}
	if err := offloader.offloadHistory(ctx, x, next); err != nil {
		return false, err
	}
	cost.Add(b.ports.Meter.Take())
	next.Cost.Add(cost)
	// What trouble there is stays, for no look has succeeded.
	_, ok, err := b.ports.Store.Commit(ctx, x.Version, next, false)
	return ok, err
}

// DeadLetterNotices are the messages of a run that have died, by their id, as its history
// has them.
func DeadLetterNotices(ctx context.Context, store port.Store, x *workflow.Execution) (map[string]workflow.DeadLetter, error) {
	return deadLetterNotices(ctx, store, x, func(known map[string]workflow.DeadLetter) bool { return len(known) >= maxDeadLetterNotices })
}

// deadLetterNotices reads until these are enough: first what rides on the run itself, which
// is the newest, then the pages.
func deadLetterNotices(ctx context.Context, store port.Store, x *workflow.Execution, enough func(known map[string]workflow.DeadLetter) bool) (map[string]workflow.DeadLetter, error) {
	letters := map[string]workflow.DeadLetter{}
	collectDeadLetters(x.Events, letters)
	for after := int64(0); after < x.PagedThrough && !enough(letters); {
		page, err := store.LoadEvents(ctx, x.Tenant, x.ID, after, historyPageSize)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		collectDeadLetters(page, letters)
		after = page[len(page)-1].Sequence
	}
	return letters, nil
}

func collectDeadLetters(events []workflow.Event, letters map[string]workflow.DeadLetter) {
	for _, e := range events {
		if e.Type != lifecycle.EventMessageDeadLettered {
			continue
		}
		var d struct {
			Message, Queue, Reason string
			Receives               int
		}
		if json.Unmarshal(e.Data, &d) == nil {
			letters[d.Message] = workflow.DeadLetter{MessageID: d.Message, Queue: d.Queue, Step: e.Step, Reason: d.Reason, ReceiveCount: d.Receives}
		}
	}
}
