package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// startFlags are the flags that describe a start.
type startFlags struct {
	parameters, kind, query, notBefore string
	key, rollback, metadata, region    string
	maxTime, maxWall                   time.Duration
	maxSteps                           int
	sets, ids, groups, labels          []string
	allowDraft                         bool
}

func (r *startFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&r.parameters, "parameters", "p", "", "parameters as a JSON object; @FILE reads them from a file")
	f.StringArrayVar(&r.sets, "set", nil, "one parameter as NAME=VALUE, overrides --parameters; JSON values keep their type, write text that looks like JSON as 'NAME=\"1\"' (repeatable)")
	f.StringVar(&r.kind, "type", "", "entity type, by default the definition's seedEntity; alone, all entities of that type, as with --query true")
	f.StringSliceVar(&r.ids, "id", nil, "entity ids (repeatable, comma-separated)")
	f.StringSliceVar(&r.groups, "group", nil, "entity groups (repeatable, comma-separated)")
	f.StringVar(&r.query, "query", "", "CEL expression over entity attributes, such as entity.site == 'zrh'")
	f.StringArrayVarP(&r.labels, "label", "l", nil, "label as NAME=VALUE (repeatable)")
	f.StringVar(&r.metadata, "metadata", "", "a JSON object that is kept with the execution and never read, such as '{\"ticket\":\"CHG-7\"}'")
	f.StringVar(&r.key, "key", "", "business key: at most one execution of the workflow with this key runs")
	f.StringVar(&r.rollback, "rollback", "", "auto or never, in place of what the definition says: whether a failure is rolled back")
	f.StringVar(&r.region, "region", "", "the pools of this region get the jobs, in place of the region of the definition")
	f.BoolVar(&r.allowDraft, "allow-draft", false, "if WORKFLOW names the exact version of a draft, start that")
	f.DurationVar(&r.maxTime, "max-time", 0, "end the execution with TIMEOUT after this time, at most the timeout of the definition")
	f.IntVar(&r.maxSteps, "max-steps", 0, "end the execution with LIMIT instead of entering one more step run than these, at most limits.steps of the definition")
	f.DurationVar(&r.maxWall, "max-wall", 0, "end the execution with LIMIT this long after it was created, whatever its tries, at most limits.wall of the definition")
	f.StringVar(&r.notBefore, "not-before", "", "do not start before this time (RFC 3339)")
}

// build makes the request to start the workflow.
func (r *startFlags) build(name string) (req views.StartRequest, err error) {
	if _, err := workflow.ParseRef(name); err != nil {
		return req, err
	}
	req.Workflow, req.Key, req.Region, req.AllowDraft = name, r.key, r.region, r.allowDraft
	req.Rollback, req.Timeout = workflow.RollbackMode(strings.ToLower(r.rollback)), workflow.Duration(r.maxTime)
	req.Limits = workflow.RunLimits{Steps: r.maxSteps, Wall: workflow.Duration(r.maxWall)}
	if req.Parameters, err = parseParameters(r.parameters, r.sets); err != nil {
		return req, err
	}
	if req.Labels, err = parsePairs("label", r.labels); err != nil {
		return req, err
	}
	if r.metadata != "" {
		if req.Metadata = json.RawMessage(r.metadata); !json.Valid(req.Metadata) {
			return req, fmt.Errorf("--metadata wants a JSON object such as '{\"ticket\":\"CHG-7\"}', and %q is not JSON", r.metadata)
		}
	}
	if sel := (workflow.Selector{Type: r.kind, IDs: r.ids, Groups: r.groups, Query: r.query}); !sel.Empty() {
		req.ExecuteOnParameters = &sel
	} else if r.kind != "" {
		sel.Query = "true" // as in a definition, all entities of the type; a type alone selects none
		req.ExecuteOnParameters = &sel
	}
	if r.notBefore != "" {
		if req.NotBefore, err = time.Parse(time.RFC3339, r.notBefore); err != nil {
			return req, fmt.Errorf("--not-before wants a time such as 2026-11-21T22:00:00Z, not %q", r.notBefore)
		}
	}
	return req, nil
}

func newNext(c *connection) *cobra.Command {
	resume := newResume(c)
	cmd := &cobra.Command{
		Use:   "next ID",
		Short: "Enter the next step of an execution that goes step by step, or show what a probe would do next",
		Long: `Enter the next step of an execution that waits in front of it ("lockstep run --step"), as "lockstep resume" does;
with --all, this and all later steps.

Of a probe ("lockstep run --probe") that has completed, show what it would do next: the first step that is not
pure, and for each entity the parameters that follow from the results of the probe. --output json is that list,
or else the execution.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			x, err := api.Execution(cmd.Context(), args[0])
			switch {
			case err != nil:
				return render.AsServiceError(err)
			case x.Waiting != nil && x.Waiting.Kind == workflow.WaitStep:
				return resume.RunE(cmd, args)
			case cmd.Flags().Changed("all"):
				return fmt.Errorf("--all is for an execution that waits in front of a step, and %s does not now", args[0])
			}
			if !c.json() {
				return printNext(cmd, api, args[0])
			}
			all, err := readNext(cmd, api, args[0])
			if err != nil {
				return err
			}
			return render.PrintJSON(cmd, all)
		},
	}
	for _, name := range []string{"all", "reason"} {
		cmd.Flags().AddFlag(resume.Flags().Lookup(name))
	}
	return cmd
}

// readNext reads all pages of what a probe would do next.
func readNext(cmd *cobra.Command, api *client.Client, id string) (views.NextView, error) {
	all, err := api.Next(cmd.Context(), id, "")
	for page := all; err == nil && page.NextPageToken != nil; all.Items = append(all.Items, page.Items...) {
		page, err = api.Next(cmd.Context(), id, *page.NextPageToken)
	}
	all.NextPageToken = nil
	return all, render.AsServiceError(err)
}

func printNext(cmd *cobra.Command, api *client.Client, id string) error {
	all, err := readNext(cmd, api, id)
	if err != nil {
		return err
	}
	return render.PrintNext(cmd.OutOrStdout(), all)
}

func newPlan(c *connection) *cobra.Command {
	var request startFlags
	var probe bool
	cmd := &cobra.Command{
		Use:   "plan WORKFLOW",
		Short: "Show what a run would do, without starting it",
		Long: `Show what "lockstep run" with the same flags would do, as far as that can be told: which entities, which
of them are locked, the jobs of each step, what a failure at each step would mean, and what it would
cost. Nothing is started and nothing is stored. Entities and locks are those of now.

With --probe, if nothing fails already, it then starts a probe: an execution of the pure steps up to the
first that is not, under shared locks. It follows the probe, and shows for each entity what would be done
next, with the parameters that follow from the results. --output json is that list.

Exit code 0: nothing fails already. 1: the execution would fail, or the probe failed, and the answer says where.`,
		Example: "  lockstep plan fleet/upgrade_firmware --set target=2.0.0 --group core\n  lockstep plan fleet/upgrade_firmware --set target=2.0.0 --group core --probe",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			req, err := request.build(args[0])
			if err != nil {
				return err
			}
			if probe {
				req.Mode = views.ModeProbe
			}
			p, err := api.Plan(cmd.Context(), req)
			if err != nil {
				return hintStartFailed(cmd, api, args[0], request.sets, err)
			}
			if err = printPlan(cmd, c, p, probe); err == nil && probe {
				err = runProbe(cmd, c, api, req)
			}
			return err
		},
	}
	request.add(cmd.Flags())
	cmd.Flags().BoolVar(&probe, "probe", false, "then execute the pure steps up to the first that is not, under shared locks, and show what would be done next")
	return cmd
}

// printPlan prints a plan. It is an error without a message if the execution would fail. As JSON it
// is left out where a probe follows, whose answer is the only document then.
func printPlan(cmd *cobra.Command, c *connection, p views.PlanView, probeFollows bool) (err error) {
	switch {
	case !c.json():
		err = render.PrintPlan(cmd.OutOrStdout(), p)
	case p.Fails || !probeFollows:
		err = render.PrintJSON(cmd, p)
	}
	if err == nil && p.Fails {
		err = render.ErrSilent
	}
	return err
}

// runProbe starts a probe, follows it, and shows what would be done next, or how the probe failed.
func runProbe(cmd *cobra.Command, c *connection, api *client.Client, req views.StartRequest) error {
	started, _, err := api.Start(cmd.Context(), req)
	if err != nil {
		return render.AsServiceError(err)
	}
	if !c.json() {
		fmt.Fprintf(cmd.OutOrStdout(), "\nProbe %s\n", started.ID)
	}
	x, err := waitForEnd(cmd, c, api, started.ID)
	if err != nil {
		return err
	}
	if x.Outcome == nil || *x.Outcome != workflow.OutcomeProbed {
		return printEnd(cmd, c, api, x)
	}
	if !c.json() {
		return printNext(cmd, api, x.ID)
	}
	next, err := readNext(cmd, api, x.ID)
	if err != nil {
		return err
	}
	return render.PrintJSON(cmd, next)
}
