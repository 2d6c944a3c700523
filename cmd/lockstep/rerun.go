package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newRerun(c *connection) *cobra.Command {
	var parameters, reason, key string
	var sets, entities []string
	var failed, unsafe, skipped, unfinished, all, detach bool
	var wait waitFlags
	cmd := &cobra.Command{
		Use:   "rerun ID",
		Short: "Start an execution again for some of its entities, and follow the new one",
		Long: `Start a new execution of the same version of the definition over some entities of one that has
ended, and follow it like "run" does. The ended one stays as it is. Labels and parameters are
those of the ended one: --set changes one parameter, --parameters replaces all.

--failed is every entity that failed, --unsafe those that ended FAILED_UNSAFE, --skipped those
whose turn never came, such as in the waves that a stopped rollout left out, --unfinished both the
failed and the skipped ones. An execution in
FAILED_UNSAFE still locks the unsafe ones: "lockstep acknowledge ID" releases them, until then the
new execution waits.

"lockstep retry ID" goes on with the ended execution itself, from the step that failed, and keeps
what completed before it; a rerun begins with the first step.`,
		Example: "  lockstep rerun ID --failed\n  lockstep rerun ID --entity device/sw-007 --set target=2.0.1 --detach",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			req := views.RerunRequest{Reason: reason, IdempotencyKey: key}
			if req.Entities, err = rerunEntities(map[views.RerunChoice]bool{views.RerunFailed: failed, views.RerunUnsafe: unsafe, views.RerunSkipped: skipped, views.RerunUnfinished: unfinished, views.RerunAll: all}, entities); err != nil {
				return err
			}
			if cmd.Flags().Changed("idempotency-key") && key == "" {
				return errors.New("--idempotency-key is empty: omit it, or give a key")
			}
			if parameters == "" && len(sets) > 0 {
				old, err := api.Execution(cmd.Context(), args[0])
				if err != nil {
					return render.AsServiceError(err)
				}
				parameters = string(old.Parameters)
			}
			if req.Parameters, err = parseParameters(parameters, sets); err != nil {
				return err
			}
			started, existed, err := api.Rerun(cmd.Context(), args[0], req)
			if err != nil {
				return render.AsServiceError(hintRerun(cmd, api, args[0], err))
			}
			if noteExisting(cmd, started.ID, existed); detach {
				if c.json() {
					return render.PrintJSON(cmd, started)
				}
				fmt.Fprintln(cmd.OutOrStdout(), started.ID)
				return nil
			}
			if wait.asked() {
				return wait.follow(cmd, c, api, started.ID)
			}
			return follow(cmd, c, api, started.ID, 0, nil)
		},
	}
	wait.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&failed, "failed", false, "the entities that failed")
	f.BoolVar(&unsafe, "unsafe", false, "the entities that failed unsafely")
	f.BoolVar(&skipped, "skipped", false, "the entities that were skipped: their turn never came, or no step's condition was true of them")
	f.BoolVar(&unfinished, "unfinished", false, "the entities that failed, and those that were skipped")
	f.BoolVar(&all, "all", false, "all its entities")
	f.StringArrayVar(&entities, "entity", nil, "an entity of it, as device/sw-007 (repeatable)")
	f.StringVarP(&parameters, "parameters", "p", "", "other parameters, as a JSON object")
	f.StringArrayVar(&sets, "set", nil, "change one parameter, NAME=VALUE, as for run (repeatable)")
	f.StringVar(&reason, "reason", "", "why, for the history")
	f.StringVar(&key, "idempotency-key", "", "start at most one execution with this key")
	f.BoolVarP(&detach, "detach", "d", false, "print the id and do not follow")
	return cmd
}

// rerunEntities returns the entities that the flags choose. Exactly one flag may be set.
func rerunEntities(flags map[views.RerunChoice]bool, named []string) (r views.RerunEntities, err error) {
	var chosen []views.RerunChoice
	flags[""] = len(named) > 0
	for choice, set := range flags {
		if set {
			chosen = append(chosen, choice)
		}
	}
	if len(chosen) != 1 {
		return r, errors.New("say which entities: --failed, --unsafe, --skipped, --unfinished, --all or --entity, one of these")
	}
	r.Choice = chosen[0]
	for _, text := range named {
		key, err := workflow.ParseEntityKey(text)
		if err != nil {
			return r, err
		}
		r.Keys = append(r.Keys, key)
	}
	return r, nil
}

// hintRerun adds to a refusal what to do about it.
func hintRerun(cmd *cobra.Command, api *client.Client, id string, err error) error {
	switch {
	case workflow.Is(err, workflow.CodeIllegalTransition):
		return withHint(err, "\"lockstep watch %s\" follows it to its end", id)
	case workflow.Is(err, workflow.CodeConflict):
		if x, failed := api.Execution(cmd.Context(), id); failed == nil {
			return withHint(err, "\"lockstep restore %s\" allows executions of it again", x.Workflow)
		}
	}
	return hintNotFound(err, "%s", executionNotFoundHint)
}
