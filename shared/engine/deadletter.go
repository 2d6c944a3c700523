package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxDeadLetterNotices bounds the notices in the history of one execution. Further dead letters
// appear only in the list of their queue.
const maxDeadLetterNotices = 50

// historyPageSize is how many events of a paged history are read at a time.
const historyPageSize = 200

// recordDeadLetter records in an execution's history that one of its messages was dead-lettered. It
// never advances the execution, because advancing may be what the message failed at. cost is what
// the handlers of the message consumed. On an error the caller should repeat the call; a missing
// execution is not an error.
func (w *workspace) recordDeadLetter(ctx context.Context, letter workflow.DeadLetter, cost workflow.Cost) error {
	kind, _, _ := strings.Cut(letter.Reason, ":") // the full reason is in the history
	attrs := []slog.Attr{slog.String(observe.MessageID, letter.MessageID), slog.String(observe.Queue, letter.Queue), slog.String(observe.Code, kind)}
	if disproved, err := w.isDisproved(ctx, &letter); disproved || err != nil {
		return err
	}
	for conflicts := 0; conflicts <= w.e.MaxConflictRetries; conflicts++ {
		if conflicts > 0 {
			w.e.Backoff(conflicts)
		}
		x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
		if workflow.Is(err, workflow.CodeNotFound) {
			w.recorder.Log(ctx, slog.LevelWarn, "dead letter of an execution that does not exist", attrs...)
			return nil
		}
		if err != nil {
			return err
		}
		known, err := deadLetterNotices(ctx, w.ports.Store, x, func(known map[string]workflow.DeadLetter) bool {
			_, recorded := known[letter.MessageID]
			return recorded || len(known) >= maxDeadLetterNotices
		})
		if err != nil {
			return err
		}
		if _, recorded := known[letter.MessageID]; recorded {
			return nil
		}
		if len(known) >= maxDeadLetterNotices {
			w.recorder.Log(ctx, slog.LevelWarn, "dead letter not recorded: the execution has too many", attrs...)
			return nil
		}
		ok, err := w.commitDeadLetter(ctx, x, letter, cost)
		if err != nil {
			return err
		}
		if ok {
			w.recorder.Log(ctx, slog.LevelWarn, "dead letter recorded", attrs...)
			return nil
		}
	}
	return workflow.Contended(workflow.CodeConflict, "execution %s", w.id)
}

// isDisproved reports whether a provisional dead letter was a false alarm: the item of its pack
// exists, so a worker has received the pack.
func (w *workspace) isDisproved(ctx context.Context, letter *workflow.DeadLetter) (bool, error) {
	if !letter.Provisional || letter.Pack == nil {
		return false, nil
	}
	p, err := w.ports.Packs.Pack(ctx, *letter.Pack)
	return p != nil, err
}

// commitDeadLetter commits the notice. ok is false if another handler has changed the execution.
// The failure streak stays, because no wake-up has succeeded.
func (w *workspace) commitDeadLetter(ctx context.Context, x *workflow.Execution, letter workflow.DeadLetter, cost workflow.Cost) (ok bool, err error) {
	next, err := lifecycle.RecordDeadLetter(x, letter, w.e.now())
	if err != nil {
		return false, err
	}
	w.pendingCost = cost
	if err := w.prepareCommit(ctx, x, next); err != nil {
		return false, err
	}
	_, ok, err = w.ports.Store.Commit(ctx, x.Version, next, workflow.CommitOptions{})
	return ok, err
}

// DeadLetterNotices returns the dead letters recorded in an execution's history, by message id.
// There are at most 50.
func DeadLetterNotices(ctx context.Context, store port.Store, x *workflow.Execution) (map[string]workflow.DeadLetter, error) {
	return deadLetterNotices(ctx, store, x, func(known map[string]workflow.DeadLetter) bool { return len(known) >= maxDeadLetterNotices })
}

// deadLetterNotices reads notices until enough reports true. It starts with the events in the state
// item, which are the newest, and continues with the pages.
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
