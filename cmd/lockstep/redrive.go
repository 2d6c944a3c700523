package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
)

// redriveBatch is how many letters one request moves, so that progress can be told.
const redriveBatch = 100

// newRedrive is the verb that puts dead letters back.
func newRedrive(s render.Env) *cobra.Command {
	var queue string
	var list bool
	var limit int
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Put back the messages that queues have given up on",
		Long: "Put back the messages that queues have given up on, once their cause is repaired. The history of a run\n" +
			"says why a message of it has died. Putting back is safe however often and however late: what is no longer\n" +
			"of use is recognised and dropped.",
		Example: "  lockstep redrive --list\n  lockstep redrive --queue jobs-default --limit 1000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := s.NewClient()
			if err != nil {
				return err
			}
			if list {
				return listDeadLetters(s, cmd, api, queue, limit)
			}
			return redriveAll(s, cmd, api, queue, limit)
		},
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "one queue only: lifecycle, or jobs- and the name of a pool")
	f.BoolVar(&list, "list", false, "show what there is and move nothing")
	f.IntVar(&limit, "limit", 0, "messages moved or shown at most; 0 is all, of --list what fits an answer")
	return cmd
}

// redriveAll asks for one part after the other, until there is no more or nothing
// moves any more, and says how far it is.
func redriveAll(s render.Env, cmd *cobra.Command, api *client.Client, queue string, limit int) error {
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
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %d messages were put back before this; run it again for the rest\n", total.Moved)
			}
			return s.ServiceError(err)
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
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d messages put back, at least %d left\n", total.Moved, part.Remaining)
	}
	if !total.Complete && (limit == 0 || total.Moved < limit) {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: not everything could be looked at, perhaps because somebody else is looking; run it again in a minute")
	}
	if s.JSON() {
		return s.PrintJSON(cmd, total)
	}
	t := render.NewTable(cmd.OutOrStdout(), "QUEUE", "PUT BACK", "LEFT")
	for _, q := range total.Queues {
		t.Row([]string{q.Queue, strconv.Itoa(q.Moved), countText(q.Remaining, q.Complete)})
	}
	return t.Flush()
}

// replaceQueue replaces what was known of a queue.
func replaceQueue(all []views.RedrivenQueue, q views.RedrivenQueue) []views.RedrivenQueue {
	for i := range all {
		if all[i].Queue == q.Queue {
			all[i] = q
			return all
		}
	}
	return append(all, q)
}

// countText is a count of what was looked at, which may not have been all.
func countText(n int, complete bool) string {
	if complete {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + " or more"
}

func listDeadLetters(s render.Env, cmd *cobra.Command, api *client.Client, queue string, limit int) error {
	all := []views.DeadLetterQueue{}
	for q, err := range api.DeadLetters(cmd.Context(), queue, min(limit, redriveBatch)) {
		if err != nil {
			return s.ServiceError(err)
		}
		all = append(all, q)
	}
	if s.JSON() {
		return s.PrintJSON(cmd, all)
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
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s holds %s, of which %d are shown\n", q.Queue, countText(q.Messages, q.Complete), n)
		}
	}
	return nil
}
