package deadletter

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
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
	names, err := s.queues(ctx, c.Tenant, queue)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = Shown
	}
	all := make([]views.DeadLetterQueue, len(names))
	err = parallel.Each(ctx, s.Parallel, len(names), func(ctx context.Context, i int) (err error) {
		all[i], err = s.show(ctx, c.Tenant, names[i], max(1, limit/len(names)))
		return err
	})
	return all, err
}

func (s *Service) show(ctx context.Context, tenant, name string, limit int) (views.DeadLetterQueue, error) {
	shown := views.DeadLetterQueue{Queue: name, Complete: true}
	q, err := s.Open(ctx, name)
	if q == nil || err != nil {
		return shown, err
	}
	shown.Complete, err = s.walk(ctx, tenant, name, q, func(l Letter, about subject) bool {
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
// Calling it again, at the same time or after a failure, moves what is left.
func (s *Service) Redrive(ctx context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error) {
	names, err := s.queues(ctx, c.Tenant, r.Queue)
	if err != nil {
		return views.RedriveView{}, err
	}
	room := cmp.Or(r.Limit, Moved)
	v := views.RedriveView{Complete: true}
	for _, name := range names {
		one, err := s.redrive(ctx, c.Tenant, name, room)
		if err != nil {
			return v, err
		}
		room -= one.Moved
		v.Queues = append(v.Queues, one)
		v.Moved, v.Left, v.Complete = v.Moved+one.Moved, v.Left+one.Left, v.Complete && one.Complete
	}
	return v, nil
}

func (s *Service) redrive(ctx context.Context, tenant, name string, room int) (views.RedrivenQueue, error) {
	moved := views.RedrivenQueue{Queue: name, Complete: true}
	q, err := s.Open(ctx, name)
	if q == nil || err != nil {
		return moved, err
	}
	var trouble error
	moved.Complete, err = s.walk(ctx, tenant, name, q, func(l Letter, about subject) bool {
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

// queues are the queues that hold messages of a tenant: the engine's, and those of
// the pools that its blocks name. asked is one of them, "" for all.
func (s *Service) queues(ctx context.Context, tenant, asked string) ([]string, error) {
	names := []string{topology.QueueLifecycle, topology.JobsQueue(topology.PoolDefault)}
	page := workflow.Page{Limit: workflow.MaxPage}
	for {
		blocks, err := s.Blocks.Blocks(ctx, tenant, page)
		if err != nil {
			return nil, err
		}
		for _, b := range blocks.Items {
			names = append(names, topology.JobsQueue(cmp.Or(b.Pool, topology.PoolDefault)))
		}
		if page.Token = blocks.Next; page.Token == "" {
			break
		}
	}
	slices.Sort(names[1:]) // the engine's own first
	names = slices.Compact(names)
	if asked == "" {
		return names, nil
	}
	if !slices.Contains(names, asked) {
		return nil, workflow.Errorf(workflow.CodeNotFound, "there is no queue %s", asked)
	}
	return []string{asked}, nil
}
