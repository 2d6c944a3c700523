package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/cmd/lockstep/transfer"
	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// offlineCatalog checks definitions without a service. It knows only the given files.
type offlineCatalog struct {
	*catalog.Catalog
	endpoints   workflow.Endpoints // all that the definitions name, since each stage has its own
	knowsBlocks bool
}

var offlineCaller = workflow.Caller{Tenant: "offline", Actor: "author"}

// newOfflineCatalog makes a catalog with the blocks of some files and the definitions of others.
// Errors in a definition are reported when that definition is checked.
func newOfflineCatalog(cmd *cobra.Command, blockFiles []string, definitions ...[]byte) (*offlineCatalog, error) {
	world := sim.New(1)
	c := &offlineCatalog{endpoints: workflow.Endpoints{}, knowsBlocks: len(blockFiles) > 0}
	c.Catalog = catalog.New(func() catalog.Ports {
		v := world.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Endpoints: c.endpoints, AnyTable: true}
	}, time.Now)
	for _, file := range blockFiles {
		source, err := readSource(cmd, file)
		if err != nil {
			return nil, err
		}
		blocks, err := transfer.ParseBlocks(source)
		if err != nil {
			return nil, &render.FileError{Path: file, Err: err}
		}
		for _, b := range blocks {
			if _, err := c.RegisterBlock(cmd.Context(), offlineCaller, b); err != nil {
				return nil, &render.FileError{Path: file, Err: err}
			}
		}
	}
	for _, source := range definitions {
		c.learn(cmd.Context(), source)
	}
	return c, nil
}

// learn adds a definition and the endpoints that it names. It skips an invalid one.
func (c *offlineCatalog) learn(ctx context.Context, source []byte) {
	d, err := definition.Parse(source)
	if err != nil {
		return
	}
	for _, s := range d.FlatSteps() {
		if name := s.Endpoint(); name != "" {
			c.endpoints[name] = "https://" + name + ".invalid"
		}
	}
	_, _, _ = c.Publish(ctx, offlineCaller, source, false) // checking the definition itself reports why it cannot be published
}

// known drops the warnings that something is not registered or published if only a service could
// know it.
func (c *offlineCatalog) known(warnings []workflow.Issue) []workflow.Issue {
	kept := []workflow.Issue{}
	for _, w := range warnings {
		if c.knowsBlocks || w.Code != "unknown_block" && w.Code != "unknown_workflow" {
			kept = append(kept, w)
		}
	}
	return kept
}

// lintReport is what `lockstep lint -o json` prints.
type lintReport struct {
	Files []lintedFile `json:"files"`
}

type lintedFile struct {
	File     string           `json:"file"`
	Valid    bool             `json:"valid"`
	Errors   []workflow.Issue `json:"errors"` // why it cannot be published
	Warnings []workflow.Issue `json:"warnings"`
}

func newLint(c *connection) *cobra.Command {
	var blockFiles []string
	var strictMode bool
	var longest time.Duration
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check definitions without a service, and warn of what is probably not meant",
		Long: `Check definitions without a service: everything that publishing refuses or warns of, and more: results that no
schema declares, long waits under locks, steps that never run. The files that are given together know each other, and
--blocks names files with blocks, as "lockstep blocks register" takes them. Without --blocks, nothing is said about
blocks and workflows that are not known. Test files (FILE.test.yaml) are left out.

If a file is not valid, the exit code is 2; with --strict it is 1 if there are warnings.`,
		Example: "  lockstep lint *.yaml\n  lockstep lint --strict --blocks blocks.json upgrade.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := withoutTests(cmd, args)
			if err != nil {
				return err
			}
			var sources [][]byte
			for _, file := range files {
				source, err := readSource(cmd, file)
				if err != nil {
					return err
				}
				sources = append(sources, source)
			}
			offline, err := newOfflineCatalog(cmd, blockFiles, sources...)
			if err != nil {
				return err
			}
			report, invalid, warnings := lintReport{Files: []lintedFile{}}, error(nil), 0
			for i, file := range files {
				linted := lintedFile{File: file, Valid: true, Errors: []workflow.Issue{}, Warnings: []workflow.Issue{}}
				found, err := offline.Lint(cmd.Context(), offlineCaller, sources[i], longest)
				if err != nil {
					invalid = &render.FileError{Path: file, Err: err}
					linted.Valid = false
					var e *workflow.Error
					if errors.As(err, &e) && len(e.Issues) > 0 {
						linted.Errors = e.Issues
					} else {
						linted.Errors = append(linted.Errors, workflow.Issue{Code: "invalid", Message: err.Error()})
					}
					if !c.json() {
						printError(cmd.ErrOrStderr(), invalid)
					}
				}
				linted.Warnings = offline.known(found)
				warnings += len(linted.Warnings)
				if !c.json() {
					for _, w := range linted.Warnings {
						fmt.Fprintf(cmd.OutOrStdout(), "%s:%s (%s)\n", file, w, w.Code)
					}
				}
				report.Files = append(report.Files, linted)
			}
			if c.json() {
				if err := render.PrintJSON(cmd, report); err != nil {
					return err
				}
			}
			switch {
			case invalid != nil:
				return &render.ReportedError{Worst: invalid}
			case strictMode && warnings > 0:
				return render.ErrSilent
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&blockFiles, "blocks", nil, "JSON file with the blocks that the definitions use (repeatable)")
	cmd.Flags().BoolVar(&strictMode, "strict", false, "exit with 1 if there are warnings")
	cmd.Flags().DurationVar(&longest, "longest-wait", time.Hour, "how long a step may wait under locks before that is a warning")
	return cmd
}
