//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/localstack/stack"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newDev() *cobra.Command {
	var o stack.Options
	var quiet bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system on this machine",
		Long: `Run the whole system on this machine, until Ctrl-C: DynamoDB, queues, the four
functions, the schedule and the HTTP API with the monitor page. When it accepts
requests it prints one line "ready http://localhost:PORT" on standard output;
everything else goes to standard error.

State survives a restart only with --data. AWS_ENDPOINT_URL_DYNAMODB and
AWS_ENDPOINT_URL_SQS in the environment replace the embedded part by that endpoint.`,
		Example: "  lockstep dev --data .data\n  lockstep dev --worker bin/fleet-worker",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Port < 0 || o.Port > 65535 {
				return fmt.Errorf("--port is 1 to 65535, or 0 for a free one, not %d", o.Port)
			}
			o.Log = cmd.ErrOrStderr()
			s, err := startLocalStack(cmd.Context(), o)
			if err != nil {
				if cmd.Context().Err() != nil {
					return nil // Ctrl-C during the start
				}
				return err
			}
			defer s.Close()
			fmt.Fprintf(cmd.ErrOrStderr(), "monitor %s/\n", s.URL())
			fmt.Fprintf(cmd.OutOrStdout(), "ready %s\n", s.URL())
			select {
			case <-cmd.Context().Done():
				return nil
			case err := <-s.Failed():
				return startError{err}
			}
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Port, "port", 3030, "port of the HTTP API on 127.0.0.1; 0 picks a free one")
	f.StringVar(&o.DataDir, "data", "", "directory that keeps state across restarts; without it nothing is kept")
	f.StringVar(&o.ConfigFile, "config", "", "configuration file (YAML)")
	f.StringVar(&o.SecretsFile, "secrets", "", "file with the secrets that definitions refer to: a JSON object of texts by name")
	f.BoolVar(&o.NoWorker, "no-worker", false, "do not start the stock worker for HTTP blocks")
	f.StringArrayVar(&o.Workers, "worker", nil, "command of a worker program to keep running (repeatable)")
	f.BoolVar(&quiet, "quiet", false, "print no log")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		for _, w := range o.Workers { // with --quiet too, which hides its failures
			program, _, _ := strings.Cut(w, " ")
			if _, err := os.Stat(program); strings.HasPrefix(program, "/") && err != nil {
				printNote(cmd, "--worker %s: %v; it will be started again and again", w, render.ReadError(program, err))
			}
		}
		if quiet {
			cmd.SetErr(io.Discard)
		}
	}
	return cmd
}

// startLocalStack starts the local stack with the programs that are beside this one.
func startLocalStack(ctx context.Context, o stack.Options) (*stack.Stack, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, err
	}
	for _, file := range []string{o.ConfigFile, o.SecretsFile} {
		if file == "" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, render.ReadError(file, err)
		}
		if raw, err = render.Text(raw); err == nil && file == o.SecretsFile && json.Unmarshal(raw, new(map[string]string)) != nil {
			err = errors.New("want a JSON object of texts by name")
		}
		if err != nil {
			return nil, &render.FileError{Path: file, Err: err}
		}
	}
	o.BinDir = filepath.Dir(self)
	s, err := stack.Start(ctx, o)
	switch {
	case err == nil:
		return s, nil
	case workflow.Is(err, workflow.CodeInvalid):
		return nil, configError(o.ConfigFile, err)
	}
	return nil, startError{err}
}

// configError adds the file to an error in the configuration, if the error is in the
// file and not in an environment variable.
func configError(file string, err error) error {
	var e *workflow.Error
	if errors.As(err, &e) && slices.ContainsFunc(e.Issues, func(i workflow.Issue) bool { return i.Line > 0 }) {
		return &render.FileError{Path: file, Err: err}
	}
	return err
}
