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
	Open   func(ctx context.Context, queue string) (Queue, error)
	Decode Decode
	// Reasons are why messages of a run have died, by message, as its history has
	// them.
	Reasons func(ctx context.Context, tenant, execution string) (map[string]workflow.Dead, error)
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
	Shown = 50
	Moved = 100
)

// DeadLetters shows what the caller's queues, or one of them, have given up on:
// the first few of each, limit together, without consuming any.
func (s *Service) DeadLetters(ctx context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error) {
	until := s.Now().Add(walkTime)
	names, _, err := s.queues(ctx, c.Tenant, queue)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = Shown
	}
	all := make([]views.DeadLetterQueue, len(names))
	err = parallel.Each(ctx, s.Parallel, len(names), func(ctx context.Context, i int) (err error) {
		all[i], err = s.show(ctx, c.Tenant, names[i], names[i] == queue, until, max(1, limit/len(names)))
		return err
	})
	return all, err
}

func (s *Service) show(ctx context.Context, tenant, name string, asked bool, until time.Time, limit int) (views.DeadLetterQueue, error) {
	shown := views.DeadLetterQueue{Queue: name, Complete: true}
	q, err := s.open(ctx, name, asked)
	if q == nil || err != nil {
		return shown, err
	}
	shown.Complete, err = s.walk(ctx, tenant, name, q, until, func(l Letter, about subject) bool {
		if shown.Messages++; len(shown.Letters) < limit {
			one := views.DeadLetter{Message: l.ID, Execution: about.execution, Jobs: about.jobs, Receives: l.Receives, Since: l.SentAt}
			if about.step != "" {
				one.Step = &about.step
			}
			shown.Letters = append(shown.Letters, one)
		}
		return false
	})
	if err != nil {
		return shown, err
	}
	return shown, s.explain(ctx, tenant, shown.Letters)
}

// explain adds the reasons that the histories of the runs know.
func (s *Service) explain(ctx context.Context, tenant string, letters []views.DeadLetter) error {
	read := map[string]map[string]workflow.Dead{}
	for i := range letters {
		l := &letters[i]
		known, asked := read[l.Execution]
		if !asked {
			var err error
			if known, err = s.Reasons(ctx, tenant, l.Execution); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
				return err
			}
			read[l.Execution] = known
		}
		if d, ok := known[l.Message]; ok {
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
	until := s.Now().Add(walkTime)
	names, all, err := s.queues(ctx, c.Tenant, r.Queue)
	if err != nil {
		return views.RedriveView{}, err
	}
	room := cmp.Or(r.Limit, Moved)
	v := views.RedriveView{Complete: all}
	for i, name := range names {
		now := s.Now()
		if !now.Before(until) {
			v.Queues, v.Complete = append(v.Queues, views.RedrivenQueue{Queue: name}), false
			continue
		}
		part := until.Sub(now) / time.Duration(len(names)-i)
		one, err := s.redrive(ctx, c.Tenant, name, name == r.Queue, now.Add(part), room)
		if err != nil {
			return v, err
		}
		room -= one.Moved
		v.Queues = append(v.Queues, one)
		v.Moved, v.Left, v.Complete = v.Moved+one.Moved, v.Left+one.Left, v.Complete && one.Complete
	}
	return v, nil
}

func (s *Service) redrive(ctx context.Context, tenant, name string, asked bool, until time.Time, room int) (views.RedrivenQueue, error) {
	moved := views.RedrivenQueue{Queue: name, Complete: true}
	q, err := s.open(ctx, name, asked)
	if q == nil || err != nil {
		return moved, err
	}
	var trouble error
	moved.Complete, err = s.walk(ctx, tenant, name, q, until, func(l Letter, about subject) bool {
		if moved.Moved >= room || trouble != nil {
			moved.Left++
			return false
		}
		if trouble = q.Return(ctx, l); trouble != nil {
			moved.Left++
			return false
		}
		moved.Moved++
		s.Log.InfoContext(ctx, "a dead letter was put back", observe.Queue, name, observe.MessageID, l.ID, observe.Tenant, tenant, observe.ExecutionID, about.execution)
		return true
	})
	if trouble != nil {
		s.Log.WarnContext(ctx, "not all dead letters were put back", observe.Queue, name, observe.Err(trouble))
		if moved.Moved == 0 {
			return moved, trouble
		}
	}
	return moved, err // what was moved is told; the rest is among what is left
}

// open finds a queue. nil is one that need not be there, unless it was asked for.
func (s *Service) open(ctx context.Context, name string, asked bool) (Queue, error) {
	q, err := s.Open(ctx, name)
	if q == nil && err == nil && asked {
		err = missing(name)
	}
	return q, err
}

func missing(queue string) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no queue %s", queue)
}

// blockPages bounds what one call reads to find out which pools there are.
const blockPages = 20

// queues are the queues that hold messages of a tenant: the engine's, and those of
// the pools that its blocks name; all says that it has no more blocks than were
// read. asked is one of them, "" for all.
func (s *Service) queues(ctx context.Context, tenant, asked string) (names []string, all bool, err error) {
	if pool, isPool := strings.CutPrefix(asked, topology.QueueJobsPrefix); asked == topology.QueueLifecycle || isPool && pool != "" {
		return []string{asked}, true, nil
	} else if asked != "" {
		return nil, false, missing(asked)
	}
	names = []string{topology.QueueLifecycle, topology.JobsQueue(topology.PoolDefault)}
	page := workflow.Page{Limit: workflow.MaxPage}
	for range blockPages {
		blocks, err := s.Blocks.Blocks(ctx, tenant, page)
		if err != nil {
			return nil, false, err
		}
		for _, b := range blocks.Items {
			names = append(names, topology.JobsQueue(cmp.Or(b.Pool, topology.PoolDefault)))
		}
		if page.Token = blocks.Next; page.Token == "" {
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
