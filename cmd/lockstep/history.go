package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var eventColumns = []string{"#", "AT", "EVENT", "STEP", "FROM", "TO", "BY", "DATA"}

func newHistory(c *connection) *cobra.Command {
	var following bool
	var after int64
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Print every event of an execution",
		Long: "Print every event of an execution.\n\nWith --follow also those that come, until the execution has ended and settled, or waits for an operator to\n" +
			"acknowledge it. The service waits for what is new and answers within a second, which holds an invocation of its function api.\n" +
			"With --output json it then prints one event a line. Ctrl-C stops following; the execution continues.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if following {
				return followHistory(cmd, c, api, args[0], after)
			}
			return printList(cmd, c, api.HistoryAfter(cmd.Context(), args[0], after), 0, eventColumns, eventRow)
		},
	}
	cmd.Flags().BoolVarP(&following, "follow", "f", false, "also print what comes, until the execution has ended")
	cmd.Flags().Int64Var(&after, "after", 0, "only the events that follow the one with this number")
	return cmd
}

func eventRow(e workflow.Event) []string {
	return []string{
		fmt.Sprint(e.Sequence), e.At.Local().Format(time.TimeOnly + ".000"), e.Type,
		orDash(e.Step), orDash(e.From), orDash(e.To), orDash(e.Actor), string(e.Data),
	}
}

// Pauses between two requests while following: usually, and at most while the service is
// unavailable.
const (
	followShortest = pollInterval
	followLongest  = 10 * time.Second
)

// followHistory prints events as they arrive. After an error it continues behind the last event
// printed.
func followHistory(cmd *cobra.Command, c *connection, api *client.Client, id string, after int64) error {
	out := cmd.OutOrStdout()
	print := func(row []string) {
		fmt.Fprintf(out, "%-4s  %-12s  %-26s  %-16s  %-22s  %-22s  %-10s  %s\n", row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])
	}
	if !c.json() {
		print(eventColumns)
	}
	lost := func(err error) { printNote(cmd, "the service does not answer, and is asked again: %s", err) }
	for e, err := range api.FollowHistory(cmd.Context(), id, after, followShortest, followLongest, lost) {
		switch {
		case err != nil && errors.Is(cmd.Context().Err(), context.Canceled):
			return withHint(err, "the execution continues; \"lockstep history %s --follow --after %d\" goes on from here", id, after)
		case err != nil:
			return withHint(render.AsServiceError(err), "\"lockstep history %s --follow --after %d\" goes on from here", id, after)
		case c.json():
			if err := render.PrintJSONLine(cmd, e); err != nil {
				return err
			}
		default:
			print(eventRow(e))
		}
		after = e.Sequence
	}
	return nil
}
