package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/transfer"
	"github.com/lockstep-run/lockstep/shared/client/auth"
)

func main() {
	ctx, stop := withInterrupt(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if interrupt := interruptCause(ctx); interrupt != nil && !errors.Is(err, errSilent) {
		var hint *hintedError
		if !errors.As(err, &hint) {
			fmt.Fprintf(stderr, "lockstep: %v\n", interrupt)
		}
		printHint(stderr, err)
		return interrupt.exitCode()
	}
	code := exitCode(err)
	var reported *reportedError
	if printed := errors.Is(err, errSilent) || errors.As(err, &reported); !printed {
		printError(stderr, err)
		if f := root.PersistentFlags().Lookup("output"); f.Value.String() == "json" {
			printErrorDocument(stdout, err)
		}
	}
	if file := (*fileError)(nil); code == exitUsage && reported == nil && !errors.As(err, &file) { // the call was right, the file is not
		fmt.Fprintln(stderr, "run \"lockstep help\" or \"lockstep VERB --help\" for how to call it")
	}
	return code
}

// newHelp is the verb help, which the library's own would end well of a verb that
// there is not.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB...]",
		Short: "Say how to call a verb",
		RunE: func(_ *cobra.Command, words []string) error {
			cmd, rest, err := root.Find(words)
			if err != nil || len(rest) > 0 {
				return unknownVerbError(cmd, words[len(words)-max(len(rest), 1)])
			}
			return cmd.Help()
		},
	}
}

func newRoot() *cobra.Command {
	c := &connection{}
	root := &cobra.Command{
		Use:           "lockstep",
		Short:         "Run workflows that lock what they touch",
		Long:          "Lockstep runs multi-step changes over fleets of entities: each entity is changed by one\nworkflow at a time, every job is done or accounted for, and a failure is told as safe or unsafe.\n\nExit codes: 0 success, 1 the run failed, 2 wrong usage, 3 the service refused, 4 the service is unreachable,\n130 interrupted by Ctrl-C, 143 by SIGTERM.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.addFlags(root)
	root.AddCommand(
		newDev(), newPublish(c), newRun(c), newWatch(c), newStatus(c), newList(c), newHistory(c), newSteps(c),
		newJobs(c), newResult(c), newCancel(c), newAcknowledge(c), newRetry(c), newResume(c), newUnlock(c), newLocks(c), newWorkers(c),
		newEntities(c), newBlocks(c), newDefinitions(c), newSchedules(c), newArchive(c), newRestore(c), newCost(c), newVersion(c),
		newRedrive(c.env()), newSweep(c.env()), newDoctor(c), newPage(&c.url, &c.tenant, auth.NewTransport(auth.DefaultCredentials(), time.Now)), transfer.NewExport(c.env(), time.Now), transfer.NewImport(c.env(), time.Now),
	)
	root.SetHelpCommand(newHelp(root))
	enforceUsage(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return validateFlags(cmd) }
	return root
}
