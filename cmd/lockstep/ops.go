package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newLocks(c *connection) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "locks [TYPE/ID]",
		Short: "Show which executions hold or wait for locks",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient(noteSkipped(cmd))
			if err != nil {
				return err
			}
			columns := []string{"ENTITY", "HELD BY", "SINCE", "TOKEN", "MODE", "RESERVED BY", "WAITING"}
			if len(args) == 0 {
				return printListOrNote(cmd, c, api.Locks(cmd.Context()), limit, columns, lockRow, "no execution holds a lock or waits for one")
			}
			key, err := workflow.ParseEntityKey(args[0])
			if err != nil {
				return err
			}
			l, err := api.Lock(cmd.Context(), key)
			if err != nil {
				return render.AsServiceError(err)
			}
			return printOne(cmd, c, l, columns, lockRow)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum number; 0 for all")
	return cmd
}

func lockRow(l views.LockView) []string {
	var waiting []string
	for _, w := range l.Waiting {
		waiting = append(waiting, w.Execution)
	}
	mode := l.Mode
	if l.HeldBy == nil {
		mode = "-" // nobody holds the lock
	}
	return []string{
		l.Entity.String(), strings.Join(append([]string{render.OrDash(l.HeldBy)}, l.SharedWith...), ","), render.Time(l.Since), fmt.Sprint(l.Token), mode, render.OrDash(l.ReservedBy), orDash(strings.Join(waiting, ",")),
	}
}

func newWorkers(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers [WORKER]",
		Short: "Show the polling workers",
		Long: `Show the polling workers. One whose process has ended without a word shows the state and the jobs that it reported
last: it becomes UNREACHABLE with the first sweep after its last heartbeat is too old (worker.unreachable), which is
up to three minutes by default. LAST HEARTBEAT tells earlier.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			columns := []string{"WORKER", "STATE", "POOL", "BLOCKS", "VERSION", "LAST HEARTBEAT", "JOBS"}
			if len(args) == 0 {
				return printListOrNote(cmd, c, api.Workers(cmd.Context()), 0, columns, workerRow, "no worker is polling; functions that AWS starts are not listed")
			}
			w, err := api.Worker(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			return printOne(cmd, c, w, columns, workerRow)
		},
	}
	cmd.AddCommand(newDrain(c))
	return cmd
}

func workerRow(w views.WorkerView) []string {
	heard := "-"
	if w.LastHeartbeat != nil {
		heard = render.Ago(*w.LastHeartbeat)
	}
	return []string{
		w.ID, string(w.State), orDash(w.Pool), orDash(strings.Join(w.Blocks, ",")), render.OrDash(w.Version), heard, orDash(strings.Join(w.Packs, ",")),
	}
}

func newSweep(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "sweep",
		Short: "Show what the next sweep would do, without doing it",
		Long: "Show what the next sweep would do, without doing it: which executions it would advance because their timer\n" +
			"is due, which polling workers it would count as unreachable, and which schedules it would fire.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.NextSweep(cmd.Context())
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, v)
			}
			t := render.NewTable(cmd.OutOrStdout(), "DUE", "NAME", "NOW", "WOULD", "SINCE")
			for _, x := range v.Executions {
				t.Row([]string{"execution", x.Execution, string(x.State), "advance", render.Ago(x.Since)})
			}
			for _, w := range v.Workers {
				t.Row([]string{"worker", w.Worker, string(w.State), "become " + string(w.NextState), render.Ago(w.Since)})
			}
			for _, s := range v.Schedules {
				would := "be skipped: its last execution has not ended"
				if !s.Skipped {
					would = "start " + render.OrDash(s.ExecutionID)
				}
				t.Row([]string{"schedule", s.Schedule, "-", would, render.Ago(s.FireTime)})
			}
			if err := t.Flush(); err != nil {
				return err
			}
			if !v.Complete {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: more is due than this shows")
			}
			return nil
		},
	}
}

// redriveBatch is the number of messages that one request moves. Batches let the command show
// progress.
const redriveBatch = 100

func newRedrive(c *connection) *cobra.Command {
	var queue string
	var list bool
	var limit int
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Move dead letters back to their queues",
		Long: "Move dead letters back to their queues, once you have removed their cause. The history of an execution says\n" +
			"why a message of it became a dead letter. Redriving is safe at any time and any number of times: the engine\n" +
			"drops messages that are no longer of use.",
		Example: "  lockstep redrive --list\n  lockstep redrive --queue jobs-default --limit 1000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if list {
				return listDeadLetters(c, cmd, api, queue, limit)
			}
			return redriveAll(c, cmd, api, queue, limit)
		},
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "only this queue: lifecycle, or jobs- and the name of a pool")
	f.BoolVar(&list, "list", false, "list the dead letters and move nothing")
	f.IntVar(&limit, "limit", 0, "maximum number to move or list; 0 for all, with --list for what fits one response")
	return cmd
}

// redriveAll sends one request after another until no message is left, none moves any more, or the
// limit is reached. It prints the progress.
func redriveAll(c *connection, cmd *cobra.Command, api *client.Client, queue string, limit int) error {
	total := views.RedriveView{}
	byQueue := map[string]int{}
	for {
		batch := redriveBatch
		if limit > 0 {
			batch = min(redriveBatch, limit-total.Moved)
		}
		part, err := api.Redrive(cmd.Context(), views.RedriveRequest{Queue: queue, Limit: batch})
		if err != nil {
			if total.Moved > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %d messages were moved before this; run the command again for the rest\n", total.Moved)
			}
			return render.AsServiceError(err)
		}
		total.Moved, total.Remaining, total.Complete = total.Moved+part.Moved, part.Remaining, part.Complete
		for _, q := range part.Queues {
			byQueue[q.Queue] += q.Moved
			q.Moved = byQueue[q.Queue]
			total.Queues = replaceQueue(total.Queues, q)
		}
		if part.Moved == 0 || (part.Remaining == 0 && part.Complete) || limit > 0 && total.Moved >= limit {
			break
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d messages moved, at least %d left\n", total.Moved, part.Remaining)
	}
	if !total.Complete && (limit == 0 || total.Moved < limit) {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: some messages could not be received, perhaps because somebody else holds them; run the command again in a minute")
	}
	if c.json() {
		return render.PrintJSON(cmd, total)
	}
	t := render.NewTable(cmd.OutOrStdout(), "QUEUE", "MOVED", "LEFT")
	for _, q := range total.Queues {
		t.Row([]string{q.Queue, strconv.Itoa(q.Moved), countText(q.Remaining, q.Complete)})
	}
	return t.Flush()
}

// replaceQueue replaces the entry of the same queue, or appends it.
func replaceQueue(all []views.RedrivenQueue, q views.RedrivenQueue) []views.RedrivenQueue {
	for i := range all {
		if all[i].Queue == q.Queue {
			all[i] = q
			return all
		}
	}
	return append(all, q)
}

// countText formats a count of messages; an incomplete one is a lower bound.
func countText(n int, complete bool) string {
	if complete {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + " or more"
}

func listDeadLetters(c *connection, cmd *cobra.Command, api *client.Client, queue string, limit int) error {
	all := []views.DeadLetterQueue{}
	for q, err := range api.DeadLetters(cmd.Context(), queue, min(limit, redriveBatch)) {
		if err != nil {
			return render.AsServiceError(err)
		}
		all = append(all, q)
	}
	if c.json() {
		return render.PrintJSON(cmd, all)
	}
	t := render.NewTable(cmd.OutOrStdout(), "QUEUE", "EXECUTION", "STEP", "JOBS", "RECEIVED", "SENT", "REASON")
	for _, q := range all {
		for _, l := range q.DeadLetters {
			t.Row([]string{q.Queue, l.Execution, render.OrDash(l.Step), strconv.Itoa(len(l.Jobs)), strconv.Itoa(l.ReceiveCount), render.Ago(l.SentAt), render.OrDash(l.Reason)})
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, q := range all {
		if n := len(q.DeadLetters); n < q.Messages || !q.Complete {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s holds %s, this shows %d\n", q.Queue, countText(q.Messages, q.Complete), n)
		}
	}
	return nil
}
