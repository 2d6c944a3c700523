package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/shared/views"
)

var stepHeads = []string{"STEP", "TRY", "VISIT", "KIND", "STATUS", "JOBS", "OK", "FAILED", "UNKNOWN", "CANCELLED", "SKIPPED", "TOOK"}

func newSteps(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "steps ID",
		Short: "Summarise each step of a run, rollback waves included",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			return printList(cmd, c, api.Steps(cmd.Context(), args[0]), 0, stepHeads, stepRow)
		},
	}
}

func stepRow(s views.StepView) []string {
	kind, took := "-", "-"
	switch {
	case s.Kind != nil:
		kind = string(*s.Kind)
	case s.Child != nil:
		kind = string(s.Child.Mode)
	}
	if s.Wave != nil {
		kind += fmt.Sprintf(" %d", *s.Wave)
	}
	if s.EndedAt != nil {
		took = s.EndedAt.Sub(s.EnteredAt).String()
	}
	j := s.Jobs
	return []string{
		s.Step, fmt.Sprint(s.Try), fmt.Sprint(s.Visit), kind, string(s.Status), fmt.Sprint(j.Total), fmt.Sprint(j.Completed), fmt.Sprint(j.Failed),
		show.Count(j.Unknown), show.Count(j.Cancelled), fmt.Sprint(s.Skipped), took,
	}
}
