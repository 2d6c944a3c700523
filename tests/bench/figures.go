package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// printFigure prints the line of a figure.
func printFigure(out io.Writer, name string, value float64, unit string) {
	fmt.Fprintf(out, "%s %.3f %s\n", name, value, unit)
}

// pollInterval is how often an execution is read until it ends.
const pollInterval = 20 * time.Millisecond

// benchFleet executes one step over n devices.
func (s *stack) benchFleet(ctx context.Context, out io.Writer, n int) error {
	return s.benchJobs(ctx, out, "fleet", "devices", n, views.StartRequest{
		Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}},
	})
}

// benchNext prints how long it takes from the end of an execution that has failed unsafely for one device to
// the locks of another, which has waited for the others: by the engine's times.
func (s *stack) benchNext(ctx context.Context, out io.Writer) error {
	const devices = 40
	start := func(name string, from int) (client.Started, error) {
		ids := make([]string, 0, devices)
		for i := from; i < devices; i++ {
			ids = append(ids, deviceID(i))
		}
		started, _, err := s.Start(ctx, views.StartRequest{Workflow: name, ExecuteOnParameters: &workflow.Selector{IDs: ids}})
		return started, err
	}
	failing, err := start("bench/fire", 0)
	if err != nil {
		return err
	}
	waiting, err := start("bench/work", 1)
	if err != nil {
		return err
	}
	x, err := s.Wait(ctx, waiting.ID, pollInterval, nil)
	if err != nil {
		return err
	}
	ended, err := s.timeOf(ctx, failing.ID, sm.EventExecutionFailedUnsafe)
	if err != nil {
		return err
	}
	locked, err := s.timeOf(ctx, waiting.ID, sm.EventLockGranted)
	if err != nil {
		return err
	}
	if x.State != sm.ExecutionCompletedAck || !locked.After(ended) {
		return fmt.Errorf("the execution that waited is %s, with its locks at %s; the other ended at %s", x.State, locked, ended)
	}
	printFigure(out, "next_after_failed_unsafe", milliseconds(locked.Sub(ended)), "ms")
	_, err = s.Acknowledge(ctx, failing.ID, "measured") // others need its device
	return err
}

// timeOf is when an event of an execution happened, the first of its type.
func (s *stack) timeOf(ctx context.Context, id string, event sm.Event) (time.Time, error) {
	for e, err := range s.History(ctx, id) {
		if err != nil {
			return time.Time{}, err
		}
		if sm.Event(e.Type) == event {
			return e.At, nil
		}
	}
	return time.Time{}, fmt.Errorf("execution %s has no event %s", id, event)
}

// benchItems executes one step over n items.
func (s *stack) benchItems(ctx context.Context, out io.Writer, n int) error {
	items := make([]map[string]any, n)
	for i := range items {
		items[i] = map[string]any{"name": deviceID(i), "site": i % 10}
	}
	parameters, err := workflow.EncodeJSON(map[string]any{"items": items})
	if err != nil {
		return err
	}
	return s.benchJobs(ctx, out, "foreach", "items", n, views.StartRequest{Workflow: "bench/each", Parameters: parameters})
}

// benchJobs executes one step with n jobs and prints the cost of a job, with the writes of its
// lock as a figure of their own.
func (s *stack) benchJobs(ctx context.Context, out io.Writer, name, unit string, n int, req views.StartRequest) error {
	before, err := s.programTimes()
	if err != nil {
		return err
	}
	began := time.Now()
	started, _, err := s.Start(ctx, req)
	if err != nil {
		return err
	}
	x, err := s.Wait(ctx, started.ID, pollInterval, nil)
	if err != nil {
		return err
	}
	wall := time.Since(began)
	if x.State != sm.ExecutionCompletedAck || x.Progress.Jobs.Completed != n {
		return fmt.Errorf("the execution over %d %s ended in %s with %d jobs completed", n, unit, x.State, x.Progress.Jobs.Completed)
	}
	bill, err := s.Cost(ctx, x.ID)
	if err != nil {
		return err
	}
	writes, locks := 0.0, bill.WriteUnits[topology.TableLocks]
	for _, units := range bill.WriteUnits {
		writes += units
	}
	reads := 0.0
	for _, units := range bill.ReadUnits {
		reads += units
	}
	jobs := float64(n)
	printFigure(out, name+"_"+unit, jobs, unit)
	printFigure(out, name+"_wall", wall.Seconds(), "s")
	printFigure(out, name+"_jobs_per_second", jobs/wall.Seconds(), "1/s")
	printFigure(out, name+"_write_units_per_job", (writes-locks)/jobs, "WRU")
	printFigure(out, name+"_lock_write_units_per_job", locks/jobs, "WRU")
	printFigure(out, name+"_read_units_per_job", reads/jobs, "RRU")
	printFigure(out, name+"_queue_requests_per_job", bill.QueueRequests/jobs, "requests")
	printFigure(out, name+"_invocations_per_job", bill.Invocations/jobs, "invocations")
	printFigure(out, name+"_dollars_per_million_jobs", bill.Dollars/jobs*1e6, "USD")
	return s.printProgramTimes(out, name, "job", before, n)
}

// runSingle executes n executions over one device each, some at a time. It returns their ids, and
// how long they took from their start to COMPLETED_ACK, the shortest first.
func (s *stack) runSingle(ctx context.Context, n, atOnce int) (ids []string, durations []time.Duration, err error) {
	durations, ids = make([]time.Duration, n), make([]string, n)
	errs := make(chan error, n)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			started, _, err := s.Start(ctx, views.StartRequest{
				Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{IDs: []string{deviceID(i)}},
			})
			if err != nil {
				errs <- err
				return
			}
			ids[i] = started.ID
			x, err := s.Wait(ctx, ids[i], pollInterval, nil)
			if err == nil && x.State != sm.ExecutionCompletedAck {
				err = fmt.Errorf("execution %s ended in %s", x.ID, x.State)
			}
			if err != nil {
				errs <- err
				return
			}
			durations[i] = x.EndedAt.Sub(x.CreatedAt) // by the engine's times, without the delay of the poll
		})
	}
	wg.Wait()
	select {
	case err = <-errs:
	default:
	}
	slices.Sort(durations)
	return ids, durations, err
}

// benchSingle executes n executions over one device each, some at a time, and prints what an
// execution costs and how long it takes.
func (s *stack) benchSingle(ctx context.Context, out io.Writer, n, atOnce int) error {
	began := time.Now()
	ids, durations, err := s.runSingle(ctx, n, atOnce)
	if err != nil {
		return err
	}
	wall := time.Since(began)
	var writes, reads, queue, invocations, dollars float64
	for _, id := range ids {
		bill, err := s.Cost(ctx, id)
		if err != nil {
			return err
		}
		for _, units := range bill.WriteUnits {
			writes += units
		}
		for _, units := range bill.ReadUnits {
			reads += units
		}
		queue += bill.QueueRequests
		invocations += bill.Invocations
		dollars += bill.Dollars
	}
	executions := float64(n)
	printFigure(out, "single_executions", executions, "executions")
	printFigure(out, "single_at_once", float64(atOnce), "executions")
	printFigure(out, "single_executions_per_second", executions/wall.Seconds(), "1/s")
	printFigure(out, "single_p50", float64(durations[n/2].Microseconds())/1000, "ms")
	printFigure(out, "single_p99", float64(durations[n*99/100].Microseconds())/1000, "ms")
	printFigure(out, "single_write_units_per_execution", writes/executions, "WRU")
	printFigure(out, "single_read_units_per_execution", reads/executions, "RRU")
	printFigure(out, "single_queue_requests_per_execution", queue/executions, "requests")
	printFigure(out, "single_invocations_per_execution", invocations/executions, "invocations")
	printFigure(out, "single_dollars_per_million_executions", dollars/executions*1e6, "USD")
	return nil
}
