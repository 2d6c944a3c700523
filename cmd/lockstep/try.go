//go:build unix

package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/localstack/stack"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// pointlessInTry are the flags of run that mean nothing if the stack is gone afterwards.
var pointlessInTry = []string{"batch", "detach", "hold", "step", "idempotency-key", "idempotency-life", "signal", "signal-id", "wait-timeout"}

func newTry(c *connection) *cobra.Command {
	local := &connection{} // to the stack, once there is one
	run, register, load, put := newRun(local), newBlocksRegister(local), newEntitiesImport(local), newTablesPut(local)
	var o stack.Options
	var blocks, entities, tables []string
	var log bool
	cmd := &cobra.Command{
		Use:   "try FILE",
		Short: "Execute a definition on a local stack that is gone afterwards",
		Long: `Start a local stack on a free port, publish a definition, execute it as "lockstep run" does with the same flags,
and stop the stack. Nothing is kept. --blocks and --entities register and import before, and --worker serves blocks.
The exit code is that of "lockstep run".`,
		Example: "  lockstep try greet.yaml --set name=Ann\n" +
			"  lockstep try upgrade.yaml --blocks blocks.json --entities fleet.jsonl --worker bin/fleet-worker --set target=2.0.0 --group core",
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := readSource(cmd, args[0])
			if err != nil {
				return err
			}
			if o.Log = io.Discard; log {
				o.Log = cmd.ErrOrStderr()
			}
			if d, err := definition.Parse(source); err == nil { // publishing refuses an invalid one
				o.Regions = slices.DeleteFunc([]string{d.Config.Region, run.Flag("region").Value.String()}, func(region string) bool { return !topology.ValidRegion(region) })
			}
			s, err := startLocalStack(cmd.Context(), o)
			if err != nil {
				return err
			}
			defer s.Close()
			*local = connection{output: c.output, flags: c.flags, stderr: c.stderr, temporary: true, found: &service{url: setting{s.URL(), "try"}}}
			call := func(verb *cobra.Command, out io.Writer, arg string) error {
				verb.SetContext(cmd.Context())
				verb.SetIn(cmd.InOrStdin())
				verb.SetOut(out)
				verb.SetErr(cmd.ErrOrStderr())
				return verb.RunE(verb, []string{arg})
			}
			for _, file := range blocks {
				if err := call(register, io.Discard, file); err != nil {
					return err
				}
			}
			for _, file := range entities {
				if err := call(load, io.Discard, file); err != nil {
					return err
				}
			}
			for _, file := range tables {
				if err := call(put, io.Discard, file); err != nil {
					return err
				}
			}
			api, err := local.newClient()
			if err != nil {
				return err
			}
			d, _, err := api.Publish(cmd.Context(), source, false)
			if err != nil {
				return &render.FileError{Path: args[0], Err: render.AsServiceError(err)}
			}
			printIssues(cmd.ErrOrStderr(), "warning: "+args[0]+":", d.Warnings)
			return call(run, cmd.OutOrStdout(), d.Package+"/"+d.Name+":"+d.Version)
		},
	}
	f := cmd.Flags()
	run.Flags().VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(pointlessInTry, flag.Name) {
			f.AddFlag(flag)
		}
	})
	f.StringArrayVar(&blocks, "blocks", nil, "file with blocks to register before (repeatable)")
	f.StringArrayVar(&entities, "entities", nil, "file with entities to import before, as JSON lines (repeatable)")
	f.StringArrayVar(&tables, "tables", nil, "file with a table that pipes fill, as for \"lockstep tables put\" (repeatable)")
	f.StringArrayVar(&o.Workers, "worker", nil, "command of a worker program to keep running (repeatable)")
	f.StringVar(&o.ConfigFile, "config", "", "configuration file (YAML)")
	f.StringVar(&o.SecretsFile, "secrets", "", "file with the secrets that definitions refer to: a JSON object of texts by name")
	f.BoolVar(&log, "log", false, "print the log of the stack")
	return cmd
}
