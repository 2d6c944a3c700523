package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// A pipe is a subscriber of the end of a step run, which is told like any other: by a message that a
// queue keeps until its rows are stored, and that becomes a dead letter if that fails for a day. The
// message names jobs; the rows are made of their results when it is delivered. A row has an id that
// follows from its job, so that it is stored once, however often the message comes.

// maxPipedJobs is of how many jobs one delivery makes rows.
const maxPipedJobs = 500

// rowDeliveries makes the deliveries to tables for the step runs that ended with some of the events:
// one for each table, and for each maxPipedJobs jobs.
func (e *Engine) rowDeliveries(ctx context.Context, x *workflow.Execution, after int64, events []workflow.Event) (all []*workflow.Delivery, err error) {
	if !x.Piped {
		return nil, nil
	}
	var program *definitions.Program
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		ended := slices.IndexFunc(events, func(event workflow.Event) bool { return endsStepRun(&event, r) })
		if ended < 0 || r.Kind != workflow.JobExecute || r.Jobs == 0 {
			continue
		}
		if program == nil {
			if program, err = e.pipedProgram(ctx, x); err != nil {
				return nil, err
			}
		}
		for _, table := range pipedTables(program, r) {
			for from := 0; from < r.Jobs; from += maxPipedJobs {
				all = append(all, &workflow.Delivery{
					Tenant: x.Tenant, Subscription: workflow.TableSubscriber(table), SubscriptionID: workflow.TableSubscriber(table), Execution: x.ID, Workflow: x.Workflow.String(),
					After: after, Through: events[ended].Sequence, Rows: &workflow.PipedJobs{Table: table, StepRun: r.Seq, From: from, To: min(from+maxPipedJobs, r.Jobs)},
				})
			}
		}
	}
	return all, nil
}

// endsStepRun reports whether the step run has ended with an event. Events do not have its number:
// two step runs of one step that have ended in the same millisecond are taken for each other, and
// each is handed on once more.
func endsStepRun(e *workflow.Event, r *workflow.StepRun) bool {
	return e.Type == string(statemachines.EventStepExited) && e.Step == r.Label && e.At.Equal(r.EndedAt)
}

// pipedProgram is the program of an execution that has pipes.
func (e *Engine) pipedProgram(ctx context.Context, x *workflow.Execution) (*definitions.Program, error) {
	r, program, err := e.InspectLoaded(x).w.resolveProgram(ctx)
	if err == nil && r.Problem != nil {
		err = workflow.Errorf(workflow.CodeInternal, "the pipes of execution %s are not known: %s", x.ID, r.Problem.Message)
	}
	return program, err
}

// pipedTables are the tables of the pipes of a step run, each once.
func pipedTables(p *definitions.Program, r *workflow.StepRun) (tables []string) {
	for _, number := range p.Nodes[r.StepIndex].Pipes {
		if table := p.Pipe(r.StepIndex, number).Table; !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	return tables
}

// deliverRows stores the rows of a delivery to a table, as [Engine.Deliver]. Those that can be stored
// are, whatever becomes of the others.
func (e *Engine) deliverRows(ctx context.Context, d *workflow.Delivery, receives int) (retryAfter time.Duration, err error) {
	sending, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	if err = e.storeRows(sending, d); err == nil && receives <= 1 {
		return 0, nil
	}
	e.rememberDelivery(ctx, d.Tenant, d.Subscription, workflow.DeliveryAttempt{Delivery: d.ID(), Execution: d.Execution, Attempts: receives}, err)
	if err == nil {
		return 0, nil
	}
	e.Log.LogAttrs(ctx, slog.LevelWarn, "rows not stored", append(observe.ExecutionAttrs(d.Tenant, d.Execution, ""), slog.String("table", d.Rows.Table), slog.Int(observe.Receives, receives), observe.Err(err))...)
	return retryDelays[min(max(receives, 1), len(retryDelays))-1], err
}

// storeRows makes the rows of a delivery and stores them.
func (e *Engine) storeRows(ctx context.Context, d *workflow.Delivery) error {
	i, err := e.Inspect(ctx, d.Tenant, d.Execution)
	if err != nil {
		return err
	}
	table, err := i.w.ports.Registry.Table(ctx, d.Tenant, d.Rows.Table)
	if err != nil {
		return err
	}
	if table.Revision == 0 {
		return workflow.Invalid("the rows cannot be stored", []workflow.Issue{{Path: "table", Code: workflow.IssueTableNotFound, Message: "there is no table " + d.Rows.Table}})
	}
	r := i.w.execution.StepRunBySeq(d.Rows.StepRun)
	if r == nil || r.Open() {
		return workflow.Errorf(workflow.CodeInternal, "step run %d of execution %s has not ended", d.Rows.StepRun, d.Execution)
	}
	jobs, err := i.pipedJobs(ctx, r, d.Rows.From, d.Rows.To)
	if err != nil {
		return err
	}
	made := &rowMaker{table: &table, run: r, x: i.w.execution, planner: i.w.planner}
	if err := parallel.Each(ctx, e.Parallelism, len(jobs), func(ctx context.Context, n int) error { return made.store(ctx, i.w.ports.Rows, d.Tenant, &jobs[n]) }); err != nil {
		return err
	}
	return made.refused()
}

// pipedJob is a job that has ended, and its last record.
type pipedJob struct {
	input  workflow.JobInput
	record workflow.JobRecord
	try    int // number of the attempt
}

// pipedJobs are the jobs of a step run with an index in a range that were executed.
func (i *Inspection) pipedJobs(ctx context.Context, r *workflow.StepRun, from, to int) (jobs []pipedJob, err error) {
	planned, err := i.PlannedJobs(ctx, r)
	if err != nil {
		return nil, err
	}
	perShard := max(1, r.PackSize) * workflow.LanesPerShard
	for shard := from / perShard; shard*perShard < to; shard++ {
		packs, err := i.ShardPacks(ctx, r, shard)
		if err != nil {
			return nil, err
		}
		attempts, records := map[int]int{}, plan.LatestRecords(packs)
		for _, p := range packs {
			for _, rec := range p.Jobs {
				if rec.Executed() {
					attempts[rec.Index] = max(attempts[rec.Index], p.Key.Attempt)
				}
			}
		}
		for _, in := range planned {
			if rec, ok := records[in.Index]; ok && rec.Executed() && in.Index >= from && in.Index < to {
				jobs = append(jobs, pipedJob{in, rec, attempts[in.Index]})
			}
		}
	}
	return jobs, nil
}

// rowMaker makes the rows of jobs of one step run, and counts those that do not fit the table.
type rowMaker struct {
	table   *workflow.Table
	run     *workflow.StepRun
	x       *workflow.Execution
	planner *planner.Planner

	mu     sync.Mutex
	wrong  int
	reason error
}

// store stores the rows of a job. One that cannot be made is counted: the others are stored.
func (m *rowMaker) store(ctx context.Context, rows port.Rows, tenant string, job *pipedJob) error {
	seen, p := (*program.PipedJob)(nil), m.planner.Program
	for _, number := range p.Nodes[m.run.StepIndex].Pipes {
		pipe := p.Pipe(m.run.StepIndex, number)
		if pipe.Table != m.table.Name || !pipe.Takes(job.record.Code == workflow.JobCodeOK) {
			continue
		}
		if seen == nil {
			var err error
			if seen, err = m.see(ctx, job); err != nil {
				return err
			}
		}
		values, err := m.values(number, seen)
		if workflow.Is(err, workflow.CodeInvalid) || workflow.Is(err, workflow.CodeTooLarge) {
			m.refuse(err)
			continue
		}
		if err != nil {
			return err
		}
		row := workflow.Row{ID: workflow.RowID(m.x.ID, m.run.Seq, job.input.Index, number), At: m.run.EndedAt, Execution: m.x.ID, Workflow: m.x.Workflow.String(), Step: m.run.Label, Values: values}
		var until time.Time
		if kept := m.table.Retention.Std(); kept > 0 {
			until = row.At.Add(kept)
		}
		if err := rows.PutRow(ctx, tenant, m.table.Name, row, until); err != nil {
			return err
		}
	}
	return nil
}

func (m *rowMaker) values(pipe int, job *program.PipedJob) (json.RawMessage, error) {
	values, err := m.planner.Program.PipeValues(m.run.StepIndex, pipe, job)
	if err != nil {
		return nil, err
	}
	return m.table.MakeRow(values)
}

// see is a job as expressions of pipes see it.
func (m *rowMaker) see(ctx context.Context, job *pipedJob) (*program.PipedJob, error) {
	status := map[workflow.JobCode]statemachines.JobState{workflow.JobCodeOK: statemachines.JobCompleted, workflow.JobCodeFail: statemachines.JobFailed, workflow.JobCodeUnknown: statemachines.JobUnknown}
	seen := &program.PipedJob{
		Result: job.record.Result, Failure: job.record.Failure, Entity: job.input.Entity,
		Execution: map[string]any{"id": m.x.ID, "workflow": m.x.Workflow.String(), "key": m.x.Key, "createdBy": m.x.CreatedBy},
		Job:       map[string]any{"status": string(status[job.record.Code]), "attempt": int64(job.try), "startedAt": job.record.StartedAt, "endedAt": job.record.EndedAt},
	}
	if job.input.Item != nil {
		seen.Item = job.input.Item.Value
	}
	if ref := job.record.ResultRef; ref != nil && ref.Pack != nil {
		var err error
		if seen.Result, err = m.planner.Dispatcher.Packs.LoadPayload(ctx, *ref.Pack, *ref); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

func (m *rowMaker) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong++; m.reason == nil {
		m.reason = err
	}
}

// refused is an error if rows could not be made: the first of them says why.
func (m *rowMaker) refused() error {
	if m.wrong == 0 {
		return nil
	}
	var first *workflow.Error
	if errors.As(m.reason, &first) {
		return &workflow.Error{Code: first.Code, Message: fmt.Sprintf("%d rows of step %s are not stored, the first one because: %s", m.wrong, m.run.Label, first.Message), Issues: first.Issues}
	}
	return m.reason
}
