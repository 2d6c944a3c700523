// Package deadletter lists the messages that the queues have given up on, and puts them back into
// their queues.
//
//   - service.go implements the two requests, list and redrive.
//   - scan.go reads the dead letters of one queue, which belong to many tenants, and makes
//     sure that a tenant sees and moves only its own.
//
// A redrive delivers at least once: the message is sent to its queue, and then deleted from the
// dead-letter queue. That is safe however often and however late, since messages carry no state,
// and receivers drop what is no longer needed.
package deadletter

import (
	"cmp"
	"context"
	"errors"
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

// Service lists and redrives dead letters.
type Service struct {
	Blocks  Blocks
	Regions []string // of the pools: each has a queue in each of them
	// Open opens a queue by its role: lifecycle, or jobs- and the pool. It returns nil if
	// there is no such queue, or if it has no dead-letter queue.
	Open    func(ctx context.Context, queue string) (Queue, error)
	Decoder Decoder
	// Reasons returns why messages of an execution were dead-lettered, by message id, from
	// its history.
	Reasons func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error)
	Now     func() time.Time
	Log     *slog.Logger

	Parallel int // concurrent scans of queues; 1 keeps all of them in the caller's goroutine
}

// Blocks lists the function blocks of a tenant. They name its pools.
type Blocks interface {
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
}

// Limits of one call if the request names none.
const (
	DefaultListLimit    = 50  // dead letters listed, of all queues together
	DefaultRedriveLimit = 100 // dead letters moved
)

// DeadLetters lists dead letters of the caller, from one queue or from all. It lists about limit,
// the same number from each queue but at least one, and consumes none.
func (s *Service) DeadLetters(ctx context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error) {
	until := s.Now().Add(scanTimeout)
	names, _, err := s.queueNames(ctx, c.Tenant, queue)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = DefaultListLimit
	}
	queues, there, err := s.openQueues(ctx, names, queue)
	if err != nil {
		return nil, err
	}
	all := make([]views.DeadLetterQueue, len(queues))
	err = parallel.Each(ctx, s.Parallel, len(queues), func(ctx context.Context, i int) (err error) {
		all[i], err = s.listQueue(ctx, c.Tenant, queues[i], until, max(1, limit/max(1, there)))
		return err
	})
	return all, err
}

func (s *Service) listQueue(ctx context.Context, tenant string, q openedQueue, until time.Time, limit int) (views.DeadLetterQueue, error) {
	listed := views.DeadLetterQueue{Queue: q.name, Complete: q.asked}
	if q.Queue == nil {
		return listed, nil
	}
	var err error
	listed.Complete, err = s.scanQueue(ctx, tenant, q.name, q, until, func(m Message, about subject) bool {
		if listed.Messages++; len(listed.DeadLetters) < limit {
			one := views.DeadLetter{MessageID: m.ID, Execution: about.execution, Jobs: about.jobs, ReceiveCount: m.Receives, SentAt: m.SentAt}
			if about.step != "" {
				one.Step = &about.step
			}
			listed.DeadLetters = append(listed.DeadLetters, one)
		}
		return false
	})
	if err != nil {
		return listed, err
	}
	return listed, s.addReasons(ctx, tenant, listed.DeadLetters)
}

// addReasons adds the reasons from the histories of the executions.
func (s *Service) addReasons(ctx context.Context, tenant string, letters []views.DeadLetter) error {
	read := map[string]map[string]workflow.DeadLetter{}
	for i := range letters {
		l := &letters[i]
		if l.Execution == "" {
			continue
		}
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

// Redrive puts dead letters of the caller back into their queues, up to the limit. Another call,
// concurrent or after a failure, moves the remaining ones. Each queue gets an equal part of the
// remaining time, so that a slow one does not block the others. A queue without time left is
// reported as incomplete.
func (s *Service) Redrive(ctx context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error) {
	until := s.Now().Add(scanTimeout)
	names, all, err := s.queueNames(ctx, c.Tenant, r.Queue)
	if err != nil {
		return views.RedriveView{}, err
	}
	queues, left, err := s.openQueues(ctx, names, r.Queue)
	if err != nil {
		return views.RedriveView{}, err
	}
	remaining := cmp.Or(r.Limit, DefaultRedriveLimit)
	v := views.RedriveView{Complete: all}
	for _, q := range queues {
		one := views.RedrivenQueue{Queue: q.name, Complete: q.asked && q.Queue == nil}
		if now := s.Now(); q.Queue != nil && now.Before(until) {
			if one, err = s.redriveQueue(ctx, c.Tenant, q, now.Add(until.Sub(now)/time.Duration(left)), remaining); err != nil {
				return v, err
			}
			left--
		}
		remaining -= one.Moved
		v.Queues = append(v.Queues, one)
		v.Moved, v.Remaining, v.Complete = v.Moved+one.Moved, v.Remaining+one.Remaining, v.Complete && one.Complete
	}
	return v, nil
}

func (s *Service) redriveQueue(ctx context.Context, tenant string, q openedQueue, until time.Time, limit int) (moved views.RedrivenQueue, err error) {
	moved.Queue = q.name
	var redriveErr error
	moved.Complete, err = s.scanQueue(ctx, tenant, q.name, q, until, func(m Message, about subject) bool {
		if moved.Moved >= limit || redriveErr != nil {
			moved.Remaining++
			return false
		}
		if redriveErr = q.Redrive(ctx, m); redriveErr != nil {
			moved.Remaining++
			return false
		}
		moved.Moved++
		s.Log.InfoContext(ctx, "dead letter redriven", observe.Queue, q.name, observe.MessageID, m.ID, observe.Tenant, tenant, observe.ExecutionID, about.execution)
		return true
	})
	if redriveErr != nil {
		s.Log.WarnContext(ctx, "dead letters not redriven; call redrive again", observe.Queue, q.name, observe.Err(redriveErr))
		if moved.Moved == 0 {
			return moved, redriveErr
		}
	}
	return moved, err // after some succeeded, report them; the others count as remaining
}

// openTimeout bounds the opening of queues, so that time is left to read the existing ones.
const openTimeout = 10 * time.Second

// openedQueue is a requested queue. It is nil if there is none.
type openedQueue struct {
	Queue
	name  string
	asked bool // false if time ran out before
}

// openQueues opens queues concurrently, since most pools have none in most regions; it leaves those
// out. For other queues that do not exist the result has a nil Queue, but a missing queue that the
// request names is an error. there is how many exist.
func (s *Service) openQueues(ctx context.Context, names []string, requested string) (queues []openedQueue, there int, err error) {
	limited, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	all := make([]openedQueue, len(names))
	err = parallel.Each(limited, s.Parallel, len(names), func(ctx context.Context, i int) error {
		q, err := s.Open(ctx, names[i])
		if q == nil && err == nil && names[i] == requested {
			err = errNoQueue(requested)
		}
		all[i].Queue, all[i].asked = q, err == nil
		return err
	})
	if err != nil && (!errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil) {
		return nil, 0, err
	}
	for i, o := range all {
		o.name = names[i]
		if o.Queue != nil {
			there++
		} else if o.asked && topology.IsQueueOfRegion(o.name) {
			continue
		}
		queues = append(queues, o)
	}
	return queues, there, nil
}

func errNoQueue(queue string) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no queue %s", queue)
}

// maxBlockPages bounds the pages of blocks that one call reads to find the pools.
const maxBlockPages = 20

// engineQueues are the queues that a deployment has once, or not at all.
var engineQueues = []string{topology.QueueLifecycle, topology.QueueEvents, topology.QueueHooksOut, topology.QueueHooksIn}

// jobsQueues returns the queues of a pool: that of each region, and the one without a region.
func (s *Service) jobsQueues(pool string) []string {
	names := []string{topology.JobsQueue(pool)}
	for _, region := range s.Regions {
		names = append(names, topology.JobsQueue(topology.PoolInRegion(pool, region)))
	}
	return names
}

// queueNames lists the queues that may hold messages of a tenant: the engine's own, and those of
// the pools that its blocks name. requested is a single queue, or "" for all. all means that every
// block was read.
func (s *Service) queueNames(ctx context.Context, tenant, requested string) (names []string, all bool, err error) {
	if pool, isPool := strings.CutPrefix(requested, topology.QueueJobsPrefix); slices.Contains(engineQueues, requested) || isPool && pool != "" {
		return []string{requested}, true, nil
	} else if requested != "" {
		return nil, false, errNoQueue(requested)
	}
	names = append(slices.Clone(engineQueues), s.jobsQueues(topology.PoolDefault)...)
	page := workflow.Page{Limit: workflow.MaxPageSize}
	for range maxBlockPages {
		blocks, err := s.Blocks.Blocks(ctx, tenant, page)
		if err != nil {
			return nil, false, err
		}
		for _, b := range blocks.Items {
			names = append(names, s.jobsQueues(cmp.Or(b.Pool, topology.PoolDefault))...)
		}
		if page.Token = blocks.NextToken; page.Token == "" {
			all = true
			break
		}
	}
	if !all {
		s.Log.WarnContext(ctx, "too many blocks to find all pools; request further queues by name", observe.Tenant, tenant)
	}
	slices.Sort(names[len(engineQueues):]) // keep the engine's queues first
	return slices.Compact(names), all, nil
}
