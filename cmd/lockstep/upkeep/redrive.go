package upkeep

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
)

// perCall is how many letters one request moves, so that progress can be told.
const perCall = 100

// Redrive is the verb that puts dead letters back.
func Redrive(s Shell) *cobra.Command {
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
			api, err := s.Open()
			if err != nil {
				return err
			}
			if list {
				return s.letters(cmd, api, queue, limit)
			}
			return s.redrive(cmd, api, queue, limit)
		},
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "one queue only: lifecycle, or jobs- and the name of a pool")
	f.BoolVar(&list, "list", false, "show what there is and move nothing")
	f.IntVar(&limit, "limit", 0, "messages moved or shown at most; 0 is all, of --list what fits an answer")
	return cmd
}

// redrive asks for one part after the other, until there is no more or nothing
// moves any more, and says how far it is.
func (s Shell) redrive(cmd *cobra.Command, api *client.Client, queue string, limit int) error {
	total := views.RedriveView{}
	byQueue := map[string]int{}
	for {
		ask := perCall
		if limit > 0 {
			ask = min(perCall, limit-total.Moved)
		}
		part, err := api.Redrive(cmd.Context(), views.RedriveRequest{Queue: queue, Limit: ask})
		if err != nil {
			if total.Moved > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %d messages were put back before this; run it again for the rest\n", total.Moved)
			}
			return s.Called(err)
		}
		total.Moved, total.Left, total.Complete = total.Moved+part.Moved, part.Left, part.Complete
		for _, q := range part.Queues {
			byQueue[q.Queue] += q.Moved
			q.Moved = byQueue[q.Queue]
			total.Queues = merge(total.Queues, q)
		}
		if part.Moved == 0 || (part.Left == 0 && part.Complete) || limit > 0 && total.Moved >= limit {
			break
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d messages put back, at least %d left\n", total.Moved, part.Left)
	}
	if !total.Complete && (limit == 0 || total.Moved < limit) {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: not everything could be looked at, perhaps because somebody else is looking; run it again in a minute")
	}
	if s.JSON() {
		return s.Print(cmd, total)
	}
	t := show.NewTable(cmd.OutOrStdout(), "QUEUE", "PUT BACK", "LEFT")
	for _, q := range total.Queues {
		t.Row([]string{q.Queue, strconv.Itoa(q.Moved), about(q.Left, q.Complete)})
	}
	return t.Flush()
}

// merge replaces what was known of a queue.
func merge(all []views.RedrivenQueue, q views.RedrivenQueue) []views.RedrivenQueue {
	for i := range all {
		if all[i].Queue == q.Queue {
			all[i] = q
			return all
		}
	}
	return append(all, q)
}

// about is a count of what was looked at, which may not have been all.
func about(n int, complete bool) string {
	if complete {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + " or more"
}

func (s Shell) letters(cmd *cobra.Command, api *client.Client, queue string, limit int) error {
	all := []views.DeadLetterQueue{}
	for q, err := range api.DeadLetters(cmd.Context(), queue, min(limit, perCall)) {
		if err != nil {
			return s.Called(err)
		}
		all = append(all, q)
	}
	if s.JSON() {
		return s.Print(cmd, all)
	}
	t := show.NewTable(cmd.OutOrStdout(), "QUEUE", "EXECUTION", "STEP", "JOBS", "RECEIVED", "SENT", "REASON")
	for _, q := range all {
		for _, l := range q.Letters {
			t.Row([]string{q.Queue, l.Execution, show.Text(l.Step), strconv.Itoa(len(l.Jobs)), strconv.Itoa(l.Receives), show.Ago(l.Since), show.Text(l.Reason)})
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, q := range all {
		if n := len(q.Letters); n < q.Messages || !q.Complete {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s holds %s, of which %d are shown\n", q.Queue, about(q.Messages, q.Complete), n)
		}
	}
	return nil
}
