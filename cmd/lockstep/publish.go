package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newPublish(c *connection) *cobra.Command {
	var dryRun, strictMode bool
	cmd := &cobra.Command{
		Use:     "publish FILE...",
		Short:   "Publish workflow definitions",
		Long:    "Publish workflow definitions (YAML or JSON; - reads standard input). A definition is immutable:\nthe same content again is accepted, other content needs a new version. All files are checked; with --output json each prints a\ndocument of its own, an error {\"error\": ...}.",
		Example: "  lockstep publish examples/fleet/upgrade_firmware.yaml\n  lockstep publish --dry-run *.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			var worst error
			for _, file := range files {
				err := publish(cmd, c, api, file, dryRun, strictMode)
				if err == nil {
					continue
				}
				printError(cmd.ErrOrStderr(), err)
				if c.output == "json" {
					printErrorDocument(cmd.OutOrStdout(), err)
				}
				if worst == nil || exitCode(err) > exitCode(worst) {
					worst = err
				}
				if exitCode(err) == exitUnreachable {
					break // the next file would meet the same
				}
			}
			if worst != nil {
				return &reportedError{worst}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strictMode, "strict", false, "take warnings for errors: nothing of a file with any is stored")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, store nothing")
	return cmd
}

// publish publishes one file and says what has come of it.
func publish(cmd *cobra.Command, c *connection, api *client.Client, file string, dryRun, strictMode bool) error {
	source, err := readSource(cmd, file)
	if err != nil {
		return err
	}
	d, created, err := api.Publish(cmd.Context(), source, dryRun || strictMode)
	if err == nil && strictMode && len(d.Warnings) > 0 {
		err = workflow.Invalid("it does not fit what is registered now", d.Warnings)
	} else if err == nil && strictMode && !dryRun {
		d, created, err = api.Publish(cmd.Context(), source, false)
	}
	if err != nil {
		return &fileError{file, asServiceError(err)}
	}
	if len(d.Warnings) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s does not fit what is registered now\n", file)
		printIssues(cmd.ErrOrStderr(), file+":", d.Warnings)
	}
	if c.output == "json" {
		return printJSON(cmd, d)
	}
	what := "published"
	switch {
	case dryRun:
		what = "valid"
	case !created:
		what = "unchanged"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s/%s:%s\n", what, d.Package, d.Name, d.Version)
	if d.Archived {
		printNote(cmd, "it is archived, and starts no runs; \"lockstep restore %s/%s:%s\" takes that back", d.Package, d.Name, d.Version)
	}
	return nil
}

// blankRE is a text without content: white space and YAML's comments.
var blankRE = regexp.MustCompile(`^(\s*(#[^\n]*)?(\n|$))*$`)

// readSource reads a file, or standard input for "-". One without content is
// refused: it is hardly what was meant.
func readSource(cmd *cobra.Command, file string) ([]byte, error) {
	var source []byte
	var err error
	if file == "-" {
		source, err = io.ReadAll(cmd.InOrStdin())
	} else {
		source, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, readError(file, err)
	}
	if blankRE.Match(source) {
		return nil, &fileError{file, errors.New("it is empty")}
	}
	return source, nil
}
