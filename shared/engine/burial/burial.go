package burial

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/beside"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Burial is what is needed of the engine. Now has the resolution in which times are
// stored.
type Burial struct {
	Ports   port.Ports
	Now     func() time.Time
	Nonce   func() string
	Pause   func(round int) // before deciding again after a lost race
	Tries   int
	Version string // of the engine
	Log     *slog.Logger
}

// most bounds the notices of one run: what has died more often is only listed with
// the dead letters.
const most = 50

// historyPage is how many events of a long history are read at a time.
const historyPage = 200

// Bury writes that the message l.Dead of the run has died. An error means that the
// telling should come again; a run that does not exist is none.
func (b *Burial) Bury(ctx context.Context, l workflow.Look) error {
	dead := *l.Dead
	kind, _, _ := strings.Cut(dead.Reason, ":") // the rest stands in the history
	attrs := append(observe.Run(l.Tenant, l.Execution, ""), slog.String(observe.MessageID, dead.Message),
		slog.String(observe.Queue, dead.Queue), slog.String(observe.Code, kind))
	if void, err := b.void(ctx, &dead); void || err != nil {
		return err
	}
	for lost := 0; lost <= b.Tries; lost++ {
		if lost > 0 {
			b.Pause(lost)
		}
		x, err := b.Ports.Store.Load(ctx, l.Tenant, l.Execution)
		if workflow.Is(err, workflow.CodeNotFound) {
			b.Log.LogAttrs(ctx, slog.LevelWarn, "a message of a run that does not exist has died", attrs...)
			return nil
		}
		if err != nil {
			return err
		}
		known, err := notices(ctx, b.Ports.Store, x, func(known map[string]workflow.Dead) bool {
			_, twice := known[dead.Message]
			return twice || len(known) >= most
		})
		if err != nil {
			return err
		}
		if _, twice := known[dead.Message]; twice {
			return nil
		}
		if len(known) >= most {
			b.Log.LogAttrs(ctx, slog.LevelWarn, "a message has died, of a run of which many have", attrs...)
			return nil
		}
		ok, err := b.write(ctx, x, dead, l.Cost)
		if err != nil {
			return err
		}
		if ok {
			b.Log.LogAttrs(ctx, slog.LevelWarn, "a message has died", attrs...)
			return nil
		}
	}
	return workflow.Errorf(workflow.CodeConflict, "execution %s keeps changing", l.Execution)
}

// void reports whether what was feared has not happened.
func (b *Burial) void(ctx context.Context, dead *workflow.Dead) (bool, error) {
	if !dead.Feared || dead.Pack == nil {
		return false, nil
	}
	p, err := b.Ports.Packs.Pack(ctx, *dead.Pack)
	return p != nil, err
}

// write commits the notice; false if somebody else has changed the run meanwhile.
func (b *Burial) write(ctx context.Context, x *workflow.Execution, dead workflow.Dead, cost workflow.Cost) (bool, error) {
	next, err := lifecycle.Died(x, dead, b.Now())
	if err != nil {
		return false, err
	}
	next.Schema, next.Commit, next.Engine = workflow.SchemaVersion, b.Nonce(), b.Version
	beside := beside.Beside{Store: b.Ports.Store, Tenant: x.Tenant, Execution: x.ID, Nonce: b.Nonce}
	if err := beside.KeepHistory(ctx, x, next); err != nil {
		return false, err
	}
	cost.Add(b.Ports.Meter.Take())
	next.Cost.Add(cost)
	// What trouble there is stays, for no look has succeeded.
	_, ok, err := b.Ports.Store.Commit(ctx, x.Version, next, false)
	return ok, err
}

// Notices are the messages of a run that have died, by their id, as its history
// has them.
func Notices(ctx context.Context, store port.Store, x *workflow.Execution) (map[string]workflow.Dead, error) {
	return notices(ctx, store, x, func(known map[string]workflow.Dead) bool { return len(known) >= most })
}

// notices reads until these are enough: first what rides on the run itself, which
// is the newest, then the pages.
func notices(ctx context.Context, store port.Store, x *workflow.Execution, enough func(known map[string]workflow.Dead) bool) (map[string]workflow.Dead, error) {
	dead := map[string]workflow.Dead{}
	gather(x.Events, dead)
	for after := int64(0); after < x.Paged && !enough(dead); {
		page, err := store.LoadEvents(ctx, x.Tenant, x.ID, after, historyPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		gather(page, dead)
		after = page[len(page)-1].Sequence
	}
	return dead, nil
}

func gather(events []workflow.Event, dead map[string]workflow.Dead) {
	for _, e := range events {
		if e.Type != lifecycle.NoticeMessageDead {
			continue
		}
		var d struct {
			Message, Queue, Reason string
			Receives               int
		}
		if json.Unmarshal(e.Data, &d) == nil {
			dead[d.Message] = workflow.Dead{Message: d.Message, Queue: d.Queue, Step: e.Step, Reason: d.Reason, Receives: d.Receives}
		}
	}
}
