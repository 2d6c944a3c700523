package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newEntitiesPatch(c *connection) *cobra.Command {
	var patch views.EntityPatch
	var sets []string
	var version int64
	cmd := &cobra.Command{
		Use:     "patch TYPE/ID",
		Short:   "Change some attributes and groups of an entity, and leave the others",
		Example: "  lockstep entities patch device/sw-001 --set site=zrh --remove rack --add-group core",
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := workflow.ParseEntityKey(args[0])
			if err != nil {
				return err
			}
			raw, err := parseParameters("", sets)
			if err != nil {
				return err
			}
			if raw != nil {
				if err := json.Unmarshal(raw, &patch.Set); err != nil {
					return err
				}
			}
			if len(patch.Set)+len(patch.Remove)+len(patch.AddGroups)+len(patch.RemoveGroups) == 0 {
				return errors.New("say what to change: --set, --remove, --add-group or --remove-group")
			}
			if cmd.Flags().Changed("version") {
				patch.Version = &version
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			e, err := api.PatchEntity(cmd.Context(), key, patch)
			return printText(cmd, c, e, hintNoEntity(cmd.Context(), api, key, err),
				fmt.Sprintf("%s has version %d now", key, e.Version))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&sets, "set", nil, "one attribute as NAME=VALUE, as the parameters of run (repeatable)")
	f.StringArrayVar(&patch.Remove, "remove", nil, "remove this attribute (repeatable)")
	f.StringSliceVar(&patch.AddGroups, "add-group", nil, "make it a member of these groups")
	f.StringSliceVar(&patch.RemoveGroups, "remove-group", nil, "remove it from these groups")
	f.Int64Var(&version, "version", 0, "refuse if the entity has another version than this one")
	return cmd
}

func newEntitiesDelete(c *connection) *cobra.Command {
	var version int64
	cmd := &cobra.Command{
		Use:   "delete TYPE/ID...",
		Short: "Delete entities that no execution holds or waits for",
		Long: `Delete entities. One that an execution holds or waits for is refused, and the refusal names the
execution; the other entities are deleted. An execution that has selected an entity and has not
locked it yet fails safely.`,
		Example: "  lockstep entities delete device/sw-001",
		RunE: func(cmd *cobra.Command, args []string) error {
			if version != 0 && len(args) > 1 {
				return errors.New("--version is of one entity: name one")
			}
			var keys []workflow.EntityKey
			for _, arg := range args {
				key, err := workflow.ParseEntityKey(arg)
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			deleted, failed := []string{}, []error(nil)
			for _, key := range keys {
				if _, err := api.DeleteEntity(cmd.Context(), key, version); err != nil {
					err = hintNoEntity(cmd.Context(), api, key, render.AsServiceError(err))
					if len(keys) == 1 {
						return err
					}
					printError(cmd.ErrOrStderr(), err)
					failed = append(failed, err)
					continue
				}
				if deleted = append(deleted, key.String()); !c.json() {
					fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", key)
				}
			}
			if c.json() {
				if err := render.PrintJSON(cmd, map[string][]string{"deleted": deleted}); err != nil {
					return err
				}
			}
			if len(failed) > 0 {
				return &render.ReportedError{Worst: failed[0]}
			}
			return nil
		},
	}
	cmd.Flags().Int64Var(&version, "version", 0, "refuse if the entity has another version than this one")
	return cmd
}
