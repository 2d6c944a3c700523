package deadletter

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Service is the dead letters.
type Service struct {
	Blocks Blocks
	// Open finds a queue by its role: lifecycle, or jobs- and a pool; nil if there is
	// none, or none that keeps its dead letters.
	Open    func(ctx context.Context, queue string) (Queue, error)
	Decoder Decoder
	// Reasons are why messages of a run have died, by message, as its history has
	// them.
	Reasons func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error)
	Now     func() time.Time
	Log     *slog.Logger

	Parallel int // queues looked through at a time; 1 keeps everything in the caller's goroutine
}

// Blocks says which pools there are: a pool is what a block names.
type Blocks interface {
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
}

// How many letters are shown and moved by one call.
const (
	DefaultListLimit    = 50
	DefaultRedriveLimit = 100
)

// DeadLetters shows what the caller's queues, or one of them, have given up on:
// the first few of each, limit together, without consuming any.
func (s *Service) DeadLetters(ctx context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error) {
	until := s.Now().Add(scanTimeout)
	names, _, err := s.queueNames(ctx, c.Tenant, queue)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = DefaultListLimit
	}
	all := make([]views.DeadLetterQueue, len(names))
	err = parallel.Each(ctx, s.Parallel, len(names), func(ctx context.Context, i int) (err error) {
		all[i], err = s.listQueue(ctx, c.Tenant, names[i], names[i] == queue, until, max(1, limit/len(names)))
		return err
	})
	return all, err
}

func (s *Service) listQueue(ctx context.Context, tenant, name string, required bool, until time.Time, limit int) (views.DeadLetterQueue, error) {
	shown := views.DeadLetterQueue{Queue: name, Complete: true}
	q, err := s.openQueue(ctx, name, required)
	if q == nil || err != nil {
		return shown, err
	}
	shown.Complete, err = s.scanQueue(ctx, tenant, name, q, until, func(l Message, about subject) bool {
		if shown.Messages++; len(shown.DeadLetters) < limit {
			one := views.DeadLetter{MessageID: l.ID, Execution: about.execution, Jobs: about.jobs, ReceiveCount: l.Receives, SentAt: l.SentAt}
			if about.step != "" {
				one.Step = &about.step
			}
			shown.DeadLetters = append(shown.DeadLetters, one)
		}
		return false
	})
	if err != nil {
		return shown, err
	}
	return shown, s.addReasons(ctx, tenant, shown.DeadLetters)
}

// addReasons adds the reasons that the histories of the runs know.
func (s *Service) addReasons(ctx context.Context, tenant string, letters []views.DeadLetter) error {
	read := map[string]map[string]workflow.DeadLetter{}
	for i := range letters {
		l := &letters[i]
		known, loaded := read[l.Execution]
		if !loaded {
			var err error
			if known, err = s.Reasons(ctx, tenant, l.Execution); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
				return err
			}
			read[l.Execution] = known
		}
		if d, ok := known[l.MessageID]; ok {
			l.Reason = &d.Reason
		}
	}
	return nil
}

// Redrive puts dead letters of the caller back into their queues, up to the limit.
// Calling it again, at the same time or after a failure, moves what is left. Each
// queue has its part of the time, so that none keeps the others from their turn;
// what there is no time for is not complete.
func (s *Service) Redrive(ctx context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error) {
	until := s.Now().Add(scanTimeout)
	names, all, err := s.queueNames(ctx, c.Tenant, r.Queue)
	if err != nil {
		return views.RedriveView{}, err
	}
	remaining := cmp.Or(r.Limit, DefaultRedriveLimit)
	v := views.RedriveView{Complete: all}
	for i, name := range names {
		now := s.Now()
		if !now.Before(until) {
			v.Queues, v.Complete = append(v.Queues, views.RedrivenQueue{Queue: name}), false
			continue
		}
		part := until.Sub(now) / time.Duration(len(names)-i)
		one, err := s.redriveQueue(ctx, c.Tenant, name, name == r.Queue, now.Add(part), remaining)
		if err != nil {
			return v, err
		}
		remaining -= one.Moved
		v.Queues = append(v.Queues, one)
		v.Moved, v.Remaining, v.Complete = v.Moved+one.Moved, v.Remaining+one.Remaining, v.Complete && one.Complete
	}
	return v, nil
}

func (s *Service) redriveQueue(ctx context.Context, tenant, name string, required bool, until time.Time, limit int) (views.RedrivenQueue, error) {
	moved := views.RedrivenQueue{Queue: name, Complete: true}
	q, err := s.openQueue(ctx, name, required)
	if q == nil || err != nil {
		return moved, err
	}
	var redriveErr error
	moved.Complete, err = s.scanQueue(ctx, tenant, name, q, until, func(l Message, about subject) bool {
		if moved.Moved >= limit || redriveErr != nil {
			moved.Remaining++
			return false
		}
		if redriveErr = q.Redrive(ctx, l); redriveErr != nil {
			moved.Remaining++
			return false
		}
		moved.Moved++
		s.Log.InfoContext(ctx, "a dead letter was put back", observe.Queue, name, observe.MessageID, l.ID, observe.Tenant, tenant, observe.ExecutionID, about.execution)
		return true
	})
	if redriveErr != nil {
		s.Log.WarnContext(ctx, "not all dead letters were put back", observe.Queue, name, observe.Err(redriveErr))
		if moved.Moved == 0 {
			return moved, redriveErr
		}
	}
	return moved, err // what was moved is told; the rest is among what is left
}

// openQueue finds a queue. nil is one that need not be there, unless it was asked for.
func (s *Service) openQueue(ctx context.Context, name string, required bool) (Queue, error) {
	q, err := s.Open(ctx, name)
	if q == nil && err == nil && required {
		err = errNoQueue(name)
	}
	return q, err
}

func errNoQueue(queue string) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no queue %s", queue)
}

// maxBlockPages bounds what one call reads to find out which pools there are.
const maxBlockPages = 20

// queueNames are the queues that hold messages of a tenant: the engine's, and those of
// the pools that its blocks name; all says that it has no more blocks than were
// read. asked is one of them, "" for all.
func (s *Service) queueNames(ctx context.Context, tenant, requested string) (names []string, all bool, err error) {
	if pool, isPool := strings.CutPrefix(requested, topology.QueueJobsPrefix); requested == topology.QueueLifecycle || isPool && pool != "" {
		return []string{requested}, true, nil
	} else if requested != "" {
		return nil, false, errNoQueue(requested)
	}
	names = []string{topology.QueueLifecycle, topology.JobsQueue(topology.PoolDefault)}
	page := workflow.Page{Limit: workflow.MaxPageSize}
	for range maxBlockPages {
		blocks, err := s.Blocks.Blocks(ctx, tenant, page)
		if err != nil {
			return nil, false, err
		}
		for _, b := range blocks.Items {
			names = append(names, topology.JobsQueue(cmp.Or(b.Pool, topology.PoolDefault)))
		}
		if page.Token = blocks.NextToken; page.Token == "" {
			all = true
			break
		}
	}
	if !all {
		s.Log.WarnContext(ctx, "pools that only further blocks name have to be asked for by name", observe.Tenant, tenant)
	}
	slices.Sort(names[1:]) // the engine's own first
	return slices.Compact(names), all, nil
}
