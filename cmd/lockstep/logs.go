package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// logLine is a line that a job has logged, with the job.
type logLine struct {
	workflow.LogLine
	Job     string              `json:"job"`
	Step    string              `json:"step"`
	Visit   int                 `json:"visit"`
	Kind    workflow.JobKind    `json:"kind"`
	Entity  *workflow.EntityKey `json:"entity"`
	Item    *int                `json:"item"`
	Attempt int                 `json:"attempt"`
}

func newLogs(c *connection) *cobra.Command {
	var step, entity, level string
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print what the jobs of an execution have logged",
		Long: "Print what the jobs of an execution have logged, job by job in the order of steps and entities, with every attempt.\n" +
			"The last 8 KiB of each attempt are kept with it; a note says of which lines before that are missing.\n" +
			"What a running job has logged comes with its heartbeats. With --output json it prints one line of a log a line.",
		Example: "  lockstep logs ID --level WARN\n  lockstep logs ID --step upgrade --entity device/sw-007",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			f := views.JobFilter{Step: step}
			if f.Entity, err = parseJobEntity(entity); err != nil {
				return err
			}
			least, lines, jobs := workflow.LogLevel(strings.ToUpper(level)), 0, 0
			for j, err := range api.Jobs(cmd.Context(), args[0], f) {
				if err != nil {
					return render.AsServiceError(err)
				}
				jobs++
				n, err := printLogs(cmd, c, &j, least)
				if lines += n; err != nil {
					return err
				}
			}
			switch {
			case jobs == 0:
				noteNoJobs(cmd, api, args[0], f)
			case lines == 0:
				printNote(cmd, "no job of this execution has logged anything that matches")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&step, "step", "", "only this step")
	f.StringVar(&entity, "entity", "", "only this entity, TYPE/ID or ID")
	f.StringVar(&level, "level", string(workflow.LogDebug), "only lines of this level or above: DEBUG, INFO, WARN, ERROR")
	return cmd
}

// printLogs prints the lines of a job that matter as much as the level, and notes how many lines are
// missing before them. It returns how many it has printed, with that note.
func printLogs(cmd *cobra.Command, c *connection, j *workflow.Job, least workflow.LogLevel) (printed int, err error) {
	if j.LogsDropped > 0 {
		printNote(cmd, "%s: %d earlier lines are not kept", logSubject(j), j.LogsDropped)
		printed++
	}
	for _, l := range j.Logs {
		if !l.Level.AtLeast(least) {
			continue
		}
		printed++
		if c.json() {
			err = render.PrintJSONLine(cmd, logLine{l, j.ID, j.Step, j.StepRunOrdinal, j.Kind, j.Entity, j.Item, j.Attempt})
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %-5s  %s  %s\n", l.At.Local().Format(time.DateTime+".000"), l.Level, logSubject(j), render.OneLine(l.Text))
		}
		if err != nil {
			return printed, err
		}
	}
	return printed, nil
}

// logSubject names an attempt of a job: its step, its visit after the first, its entity, its attempt
// after the first.
func logSubject(j *workflow.Job) string {
	subject := j.Step
	if j.StepRunOrdinal > 1 {
		subject += fmt.Sprintf(" visit %d", j.StepRunOrdinal)
	}
	if entity := jobEntity(j); entity != "-" {
		subject += " " + entity
	}
	if j.Kind != workflow.JobExecute {
		subject += " " + string(j.Kind)
	}
	if j.Attempt > 1 {
		subject += fmt.Sprintf(" attempt %d", j.Attempt)
	}
	return subject
}
