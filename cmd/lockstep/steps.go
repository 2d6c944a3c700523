package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
)

var stepColumns = []string{"STEP", "TRY", "VISIT", "KIND", "STATUS", "JOBS", "OK", "FAILED", "UNKNOWN", "CANCELLED", "SKIPPED", "TOOK"}

func newSteps(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "steps ID",
		Short: "Summarise each step of a run, rollback waves included",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printList(cmd, c, api.Steps(cmd.Context(), args[0]), 0, stepColumns, stepRow)
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
		s.Step, fmt.Sprint(s.Try), fmt.Sprint(s.Ordinal), kind, string(s.Status), fmt.Sprint(j.Total), fmt.Sprint(j.Completed), fmt.Sprint(j.Failed),
		render.CountOrDash(j.Unknown), render.CountOrDash(j.Cancelled), fmt.Sprint(s.Skipped), took,
	}
}
