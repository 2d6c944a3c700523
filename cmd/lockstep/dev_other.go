//go:build !unix

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// newTry returns the verb for systems without a local stack.
func newTry(*connection) *cobra.Command {
	cmd := newDev()
	cmd.Use, cmd.Short = "try FILE", "Execute a definition on a local stack that is gone afterwards (Linux and macOS)"
	return cmd
}

// newDev returns the verb for systems without process groups and file locks, which the local stack
// needs.
func newDev() *cobra.Command {
	return &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system on this machine (Linux and macOS)",
		Args:  cobra.ArbitraryArgs,
		// Accept any flags: the verb has flags on other systems.
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return startError{errors.New("the local stack runs on Linux and macOS, not here: use it in WSL, or name a service with --url")}
		},
	}
}
