package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
			api, err := c.open()
			if err != nil {
				return err
			}
			if _, err := workflow.ParseRef(args[0]); err != nil {
				return err
			}
			req := views.StartRequest{Workflow: args[0], IdempotencyKey: key}
			if req.Parameters, err = gather(parameters, sets); err != nil {
				return err
			}
			if req.Labels, err = pairs(labels); err != nil {
				return err
			}
			if sel := (workflow.Selector{Type: kind, IDs: ids, Groups: groups, Query: query}); !sel.Empty() {
				req.ExecuteOnParameters = &sel
			}
			if notBefore != "" {
				if req.NotBefore, err = time.Parse(time.RFC3339, notBefore); err != nil {
					return fmt.Errorf("--not-before is a moment such as 2026-11-21T22:00:00Z, not %q", notBefore)
				}
			}
			started, existed, err := api.Start(cmd.Context(), req)
			if err != nil {
				return missing(called(err), "%s", listHint(args[0]))
			}
			if detach {
				if c.output == "json" {
					return printJSON(cmd, started)
				}
				fmt.Fprintln(cmd.OutOrStdout(), started.Id)
				return nil
			}
			if existed {
				fmt.Fprintf(cmd.ErrOrStderr(), "this idempotency key has started %s already\n", started.Id)
			}
			return follow(cmd, c, api, fmt.Sprint(started.Id), func(x views.ExecutionView) {
				if req.ExecuteOnParameters != nil && len(x.Entities) == 0 && x.Error == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: 0 entities matched %s\n", selection(*req.ExecuteOnParameters))
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&parameters, "parameters", "p", "", "parameters as a JSON object")
	f.StringArrayVar(&sets, "set", nil, "one parameter as NAME=VALUE; JSON values keep their type (repeatable)")
	f.StringVar(&kind, "type", "", "entity type; the definition's seedEntity if absent")
	f.StringSliceVar(&ids, "id", nil, "entity ids (repeatable, comma-separated)")
	f.StringSliceVar(&groups, "group", nil, "entity groups (repeatable, comma-separated)")
	f.StringVar(&query, "query", "", "CEL over entity attributes, such as entity.site == 'zrh'")
	f.StringArrayVarP(&labels, "label", "l", nil, "label as NAME=VALUE (repeatable)")
	f.StringVar(&notBefore, "not-before", "", "let the run wait until this moment, RFC 3339")
	f.StringVar(&key, "idempotency-key", "", "start at most one run under this key")
	f.BoolVarP(&detach, "detach", "d", false, "print the id and do not follow")
	return cmd
}

// selection is a selector as it was written on the command line.
func selection(s workflow.Selector) string {
	var parts []string
	for _, p := range [][2]string{
		{"--type", s.Type}, {"--id", strings.Join(s.IDs, ",")}, {"--group", strings.Join(s.Groups, ",")}, {"--query", s.Query},
	} {
		if p[1] != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p[0], p[1]))
		}
	}
	return strings.Join(parts, " ")
}

// gather merges --parameters with the --set values, which win.
func gather(object string, sets []string) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &all); err != nil {
			var kind *json.UnmarshalTypeError
			if errors.As(err, &kind) {
				return nil, fmt.Errorf("--parameters wants a JSON object such as '{\"target\":\"2.0.0\"}', not a %s", kind.Value)
			}
			return nil, fmt.Errorf("--parameters wants a JSON object such as '{\"target\":\"2.0.0\"}', and %q is not JSON", object)
		}
		if all == nil {
			return nil, errors.New("--parameters wants a JSON object, not null")
		}
	}
	given, err := pairs(sets)
	if err != nil {
		return nil, err
	}
	for name, value := range given {
		raw := json.RawMessage(value)
		if !json.Valid(raw) || isNumberText(value) {
			if raw, err = json.Marshal(value); err != nil {
				return nil, err
			}
		}
		all[name] = raw
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// isNumberText reports whether a value looks like a number but would not keep
// its spelling as one: 2.0 is a version more often than a number, and 007 is no
// JSON at all.
func isNumberText(s string) bool {
	return strings.Contains(s, ".") && strings.Trim(s, "0123456789.-+eE") == ""
}

// pairs reads NAME=VALUE texts.
func pairs(texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, t := range texts {
		name, value, ok := strings.Cut(t, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", t)
		}
		all[name] = value
	}
	return all, nil
}
