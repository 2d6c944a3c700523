package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newRun(c *connection) *cobra.Command {
	var parameters, key, kind string
	var sets, ids, groups, labels []string
	var query, notBefore string
	var detach bool
	cmd := &cobra.Command{
		Use:   "run WORKFLOW",
		Short: "Start a run and follow it",
		Long: `Start a run of PACKAGE/NAME[:VERSION] and follow it to its end. Without a version the
newest is run. Ctrl-C stops following; the run goes on.

Exit code 0: it completed. 1: it failed or was cancelled. 130: Ctrl-C. 143: SIGTERM. With any other
than 0 "lockstep run ... && next" does not go on.`,
		Example: "  lockstep run fleet/upgrade_firmware --set target=2.0.0 --group core\n  lockstep run fleet/upgrade_firmware:1 --parameters '{\"target\":\"2.0.0\"}' --id sw-001 --detach",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if _, err := workflow.ParseRef(args[0]); err != nil {
				return err
			}
			req := views.StartRequest{Workflow: args[0], IdempotencyKey: key}
			if req.Parameters, err = parseParameters(parameters, sets); err != nil {
				return err
			}
			if req.Labels, err = parsePairs(labels); err != nil {
				return err
			}
			if cmd.Flags().Changed("idempotency-key") && key == "" {
				return errors.New("--idempotency-key is empty: leave it out, or name one")
			}
			if sel := (workflow.Selector{Type: kind, IDs: ids, Groups: groups, Query: query}); !sel.Empty() {
				req.ExecuteOnParameters = &sel
			} else if kind != "" {
				sel.Query = "true" // all of a type, as in a definition
				req.ExecuteOnParameters = &sel
			}
			if notBefore != "" {
				if req.NotBefore, err = time.Parse(time.RFC3339, notBefore); err != nil {
					return fmt.Errorf("--not-before is a moment such as 2026-11-21T22:00:00Z, not %q", notBefore)
				}
			}
			started, existed, err := api.Start(cmd.Context(), req)
			if err != nil {
				return hintStartFailed(cmd, api, args[0], sets, err)
			}
			if detach {
				if c.output == "json" {
					return printJSON(cmd, started)
				}
				fmt.Fprintln(cmd.OutOrStdout(), started.ID)
				return nil
			}
			if existed {
				fmt.Fprintf(cmd.ErrOrStderr(), "this idempotency key has started %s already\n", started.ID)
			}
			return follow(cmd, c, api, started.ID, func(x views.ExecutionView) {
				warnNoEntities(cmd, api, x, req.ExecuteOnParameters)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&parameters, "parameters", "p", "", "parameters as a JSON object")
	f.StringArrayVar(&sets, "set", nil, "one parameter as NAME=VALUE, which wins over --parameters; JSON values keep their type, text that looks like one is given as 'NAME=\"1\"' (repeatable)")
	f.StringVar(&kind, "type", "", "entity type, the definition's seedEntity if absent; alone, all of that type")
	f.StringSliceVar(&ids, "id", nil, "entity ids (repeatable, comma-separated)")
	f.StringSliceVar(&groups, "group", nil, "entity groups (repeatable, comma-separated)")
	f.StringVar(&query, "query", "", "CEL over entity attributes, such as entity.site == 'zrh'")
	f.StringArrayVarP(&labels, "label", "l", nil, "label as NAME=VALUE (repeatable)")
	f.StringVar(&notBefore, "not-before", "", "let the run wait until this moment, RFC 3339")
	f.StringVar(&key, "idempotency-key", "", "start at most one run under this key")
	f.BoolVarP(&detach, "detach", "d", false, "print the id and do not follow")
	return cmd
}
