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
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// A pipe writes the results of a step run's jobs as rows into a table. It is notified of the end of
// a step run like any subscriber: by a message that a queue keeps until the rows are stored, and
// that becomes a dead letter if that fails for a day.
//
// There is one message for each table. If the definition's pipes cannot be read, there is one
// message without a table, so that other subscribers do not have to wait. The message of a step
// with many jobs is split when it is delivered, into messages that name their jobs. That way the
// step is planned only once, and a part reads no more when the step is larger.
//
// Rows are made from the results at delivery. The id of a row is derived from its job, so that the
// row is stored once even if the message is repeated.

// maxPipedJobs is for how many jobs one delivery makes rows.
const maxPipedJobs = 500

// pipedProgramTimeout bounds the reading of a definition's pipes while events are published.
const pipedProgramTimeout = 5 * time.Second

// rowDeliveries makes the deliveries to tables for the step runs that ended with one of the events.
// It cannot fail: if the tables are unknown, it makes a delivery without a table, and they are
// looked up when that is delivered.
func (e *Engine) rowDeliveries(ctx context.Context, x *workflow.Execution, after int64, events []workflow.Event) (all []*workflow.Delivery) {
	if !x.Piped {
		return nil
	}
	var program *definitions.Program
	var err error
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		ended := slices.IndexFunc(events, func(event workflow.Event) bool { return endsStepRun(&event, r) })
		if ended < 0 || r.Kind != workflow.JobExecute || r.Jobs == 0 {
			continue
		}
		if program == nil && err == nil {
			if program, err = e.pipedProgram(ctx, x); err != nil {
				e.Log.LogAttrs(ctx, slog.LevelWarn, "tables of an execution not known", append(observe.ExecutionAttrs(x.Tenant, x.ID, ""), observe.Err(err))...)
			}
		}
		d := &workflow.Delivery{Tenant: x.Tenant, Execution: x.ID, Workflow: x.Workflow.String(), After: after, Through: events[ended].Sequence, Rows: &workflow.PipedJobs{StepRun: r.Seq, To: r.Jobs}}
		if err != nil {
			all = append(all, toTable(d, ""))
			continue
		}
		all = append(all, tableDeliveries(d, program, r)...)
	}
	return all
}

// tableDeliveries returns one delivery of a step run for each of its tables.
func tableDeliveries(d *workflow.Delivery, p *definitions.Program, r *workflow.StepRun) (all []*workflow.Delivery) {
	for _, table := range pipedTables(p, r) {
		all = append(all, toTable(d, table))
	}
	return all
}

func toTable(d *workflow.Delivery, table string) *workflow.Delivery {
	to, rows := *d, *d.Rows
	rows.Table = table
	to.Subscription, to.SubscriptionID, to.Rows = workflow.TableSubscriber(table), workflow.TableSubscriber(table), &rows
	return &to
}

// endsStepRun reports whether an event is the end of a step run. Events do not carry the number of
// the step run: if two runs of one step ended in the same millisecond, each matches the other's
// event and is published once more.
func endsStepRun(e *workflow.Event, r *workflow.StepRun) bool {
	return e.Type == string(statemachines.EventStepExited) && e.Step == r.Label && e.At.Equal(r.EndedAt)
}

// pipedProgram returns the program of an execution that has pipes.
func (e *Engine) pipedProgram(ctx context.Context, x *workflow.Execution) (*definitions.Program, error) {
	ctx, cancel := context.WithTimeout(ctx, pipedProgramTimeout)
	defer cancel()
	r, program, err := e.InspectLoaded(x).w.resolveProgram(ctx)
	if err == nil && r.Problem != nil {
		err = workflow.Errorf(workflow.CodeInternal, "the pipes of execution %s are not known: %s", x.ID, r.Problem.Message)
	}
	return program, err
}

// pipedTables returns the tables of a step run's pipes, each once.
func pipedTables(p *definitions.Program, r *workflow.StepRun) (tables []string) {
	for _, number := range p.Nodes[r.StepIndex].Pipes {
		if table := p.Pipe(r.StepIndex, number).Table; !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	return tables
}

// deliverRows stores the rows of a delivery to a table, as [Engine.Deliver] does, or splits the
// delivery. It stores every row that it can, even if others fail.
func (e *Engine) deliverRows(ctx context.Context, d *workflow.Delivery, receives int) (retryAfter time.Duration, err error) {
	switch {
	case d.Rows.Table == "":
		err = e.divideAmongTables(ctx, d)
	case len(d.Rows.Jobs) == 0 && d.Rows.To-d.Rows.From > maxPipedJobs:
		err = e.divideRows(ctx, d) // at delivery, because planning may read the results of other steps
	default:
		err = e.storeRows(ctx, d)
	}
	if d.Rows.Table != "" && (err != nil || receives > 1 || d.Rows.Again) {
		e.rememberDelivery(ctx, d.Tenant, d.Subscription, workflow.DeliveryAttempt{Delivery: d.ID(), Execution: d.Execution, Attempts: receives}, err)
	}
	if err == nil {
		return 0, nil
	}
	e.Log.LogAttrs(ctx, slog.LevelWarn, "rows not stored", append(observe.ExecutionAttrs(d.Tenant, d.Execution, ""), slog.String("table", d.Rows.Table), slog.Int(observe.Receives, receives), observe.Err(err))...)
	return retryDelay(receives), err
}

// divideAmongTables sends a delivery for each table of a step; none for a step without pipes.
func (e *Engine) divideAmongTables(ctx context.Context, d *workflow.Delivery) error {
	i, r, err := e.inspectPiped(ctx, d)
	if err != nil {
		return err
	}
	all := tableDeliveries(d, i.w.program, r)
	if len(all) == 0 {
		return nil
	}
	return i.w.ports.Sender.SendDeliveries(ctx, all...)
}

// divideRows sends a delivery for each part of a step. If the handler dies in between, some are
// sent twice; they make the same rows.
func (e *Engine) divideRows(ctx context.Context, d *workflow.Delivery) error {
	i, r, err := e.inspectPiped(ctx, d)
	if err != nil {
		return err
	}
	planned, err := i.PlannedJobs(ctx, r)
	if err != nil {
		return err
	}
	var parts []*workflow.Delivery
	for from := 0; from < d.Rows.To; from += maxPipedJobs {
		part := *d
		part.Rows = &workflow.PipedJobs{Table: d.Rows.Table, StepRun: d.Rows.StepRun, From: from, To: min(from+maxPipedJobs, d.Rows.To), Again: d.Rows.Again}
		for _, in := range planned {
			if in.Index < part.Rows.From || in.Index >= part.Rows.To {
				continue
			}
			job := workflow.PipedJob{Index: in.Index, Entity: in.Entity}
			if in.Item != nil {
				job.Item = &in.Item.Number
			}
			part.Rows.Jobs = append(part.Rows.Jobs, job)
		}
		if len(part.Rows.Jobs) > 0 {
			parts = append(parts, &part)
		}
	}
	return i.w.ports.Sender.SendDeliveries(ctx, parts...)
}

// inspectPiped returns the execution of a delivery to a table, and its step run.
func (e *Engine) inspectPiped(ctx context.Context, d *workflow.Delivery) (*Inspection, *workflow.StepRun, error) {
	i, err := e.Inspect(ctx, d.Tenant, d.Execution)
	if err != nil {
		return nil, nil, err
	}
	r := i.w.execution.StepRunBySeq(d.Rows.StepRun)
	if r == nil || r.Open() {
		return nil, nil, workflow.Errorf(workflow.CodeInternal, "step run %d of execution %s has not ended", d.Rows.StepRun, d.Execution)
	}
	_, err = i.w.ensurePlanner(ctx)
	return i, r, err
}

// storeRows makes the rows of a delivery and stores them.
func (e *Engine) storeRows(ctx context.Context, d *workflow.Delivery) error {
	i, r, err := e.inspectPiped(ctx, d)
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
	jobs, err := i.pipedJobs(ctx, r, d.Rows)
	if err != nil {
		return err
	}
	made := &rowMaker{table: &table, run: r, x: i.w.execution, planner: i.w.planner}
	if err := parallel.Each(ctx, e.Parallelism, len(jobs), func(ctx context.Context, n int) error { return made.store(ctx, i.w.ports.Rows, d.Tenant, &jobs[n]) }); err != nil {
		return err
	}
	return made.refused()
}

// pipedJob is a job that has ended, with its last record.
type pipedJob struct {
	input  workflow.JobInput
	record workflow.JobRecord
	try    int // number of the attempt
}

// pipedJobs returns those jobs of a delivery that were executed.
func (i *Inspection) pipedJobs(ctx context.Context, r *workflow.StepRun, of *workflow.PipedJobs) (jobs []pipedJob, err error) {
	inputs, err := i.pipedInputs(ctx, r, of)
	if err != nil {
		return nil, err
	}
	var lanes []int
	for lane, size := of.From/max(1, r.PackSize), max(1, r.PackSize); lane*size < of.To; lane++ {
		lanes = append(lanes, lane)
	}
	packs, err := i.w.dispatcher().ReadLanes(ctx, &dispatch.StepRun{Tenant: i.w.tenant, Execution: i.w.id, Step: r}, lanes)
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
	for _, in := range inputs {
		if rec, ok := records[in.Index]; ok && rec.Executed() && in.Index >= of.From && in.Index < of.To {
			jobs = append(jobs, pipedJob{in, rec, attempts[in.Index]})
		}
	}
	return jobs, nil
}

// pipedInputs returns the inputs of a delivery's jobs. A delivery for a whole step is planned here;
// a delivery for a part names its jobs.
func (i *Inspection) pipedInputs(ctx context.Context, r *workflow.StepRun, of *workflow.PipedJobs) (inputs []workflow.JobInput, err error) {
	if len(of.Jobs) == 0 {
		return i.PlannedJobs(ctx, r)
	}
	var items []json.RawMessage
	if r.List != nil {
		if items, err = i.w.planner.Items(ctx, r); err != nil {
			return nil, err
		}
	}
	for _, job := range of.Jobs {
		in := workflow.JobInput{Index: job.Index, Entity: job.Entity}
		if n := job.Item; n != nil {
			if *n < 0 || *n >= len(items) {
				return nil, workflow.Errorf(workflow.CodeInternal, "step %q has no item %d", r.Label, *n)
			}
			in.Item = &workflow.Item{Number: *n, Value: items[*n]}
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// rowMaker makes the rows of one step run's jobs, and counts rows that do not fit the table.
type rowMaker struct {
	table   *workflow.Table
	run     *workflow.StepRun
	x       *workflow.Execution
	planner *planner.Planner

	mu     sync.Mutex
	wrong  int
	reason error
}

// store stores the rows of a job. A row that cannot be made is only counted, so that the others are
// stored.
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

// see returns a job as the expressions of pipes see it.
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

// refused returns an error if some rows could not be made. It states the reason of the first one.
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
