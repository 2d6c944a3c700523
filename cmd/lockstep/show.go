package main

import (
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// shownExecution is everything known about an execution, for programs.
type shownExecution struct {
	Execution  views.ExecutionView `json:"execution"`
	Steps      []views.StepView    `json:"steps"`
	FailedJobs []workflow.Job      `json:"failedJobs"`
	Result     views.ResultView    `json:"result"`
	History    []workflow.Event    `json:"history"`
	Cost       views.CostView      `json:"cost"`
}

func newShow(c *connection) *cobra.Command {
	var definition bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all of an execution: status, steps, failed jobs, history and cost",
		Long: `Show all of an execution, as "lockstep status", "steps", "jobs", "history" and "cost" do one after
the other. With --output json it is one object, with the results of "lockstep result" too.

With --definition, only the definition with which it works, as JSON, and the versions of workflows and blocks to which
it is pinned.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if definition {
				return showDefinition(cmd, c, args[0])
			}
			if c.json() {
				return showJSON(cmd, c, args[0])
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			jobs := &cobra.Command{Use: "jobs", RunE: func(jobs *cobra.Command, args []string) error {
				return printJobs(jobs, c, api, args[0], views.JobFilter{FinallyFailed: true}, 0)
			}}
			for _, part := range []struct {
				title string
				verb  *cobra.Command
			}{{"", newStatus(c)}, {"Steps", newSteps(c)}, {"Failed jobs", jobs}, {"History", newHistory(c)}, {"Cost", newCost(c)}} {
				if part.title != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", part.title)
				}
				part.verb.SetContext(cmd.Context())
				part.verb.SetOut(cmd.OutOrStdout())
				part.verb.SetErr(cmd.ErrOrStderr())
				if err := part.verb.RunE(part.verb, args); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&definition, "definition", false, "only the definition with which it works, as JSON")
	return cmd
}

func showDefinition(cmd *cobra.Command, c *connection, id string) error {
	api, err := c.newClient()
	if err != nil {
		return err
	}
	d, err := api.PinnedDefinition(cmd.Context(), id)
	if err != nil {
		return render.AsServiceError(err)
	}
	return render.PrintJSON(cmd, d)
}

func showJSON(cmd *cobra.Command, c *connection, id string) error {
	api, err := c.newClient()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var all shownExecution
	if all.Execution, err = api.Execution(ctx, id); err != nil {
		return render.AsServiceError(err)
	}
	if all.Steps, err = readAll(api.Steps(ctx, id)); err != nil {
		return render.AsServiceError(err)
	}
	if all.FailedJobs, err = readAll(api.Jobs(ctx, id, views.JobFilter{FinallyFailed: true})); err != nil {
		return render.AsServiceError(err)
	}
	if all.Result, err = api.Result(ctx, id); err != nil {
		return render.AsServiceError(err)
	}
	if all.History, err = readAll(api.History(ctx, id)); err != nil {
		return render.AsServiceError(err)
	}
	if all.Cost, err = api.Cost(ctx, id); err != nil {
		return render.AsServiceError(err)
	}
	return render.PrintJSON(cmd, all)
}

// readAll reads a whole list.
func readAll[T any](items iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}
