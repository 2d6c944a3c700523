package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Exit codes of every verb.
const (
	exitFailed      = 1 // the run failed
	exitUsage       = 2
	exitRefused     = 3 // the service refused
	exitUnreachable = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	code := exitCode(err)
	if !errors.Is(err, errSilent) {
		explain(stderr, err)
	}
	if code == exitUsage {
		fmt.Fprintln(stderr, "run \"lockstep help\" or \"lockstep VERB --help\" for how to call it")
	}
	return code
}

// errSilent ends a command whose output has said everything already.
var errSilent = errors.New("the run failed")

// serviceError marks an error that came from calling the service.
type serviceError struct{ error }

func (e serviceError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var unreachable *client.UnreachableError
	var service serviceError
	var start startError
	switch {
	case errors.Is(err, errSilent), errors.As(err, &start):
		return exitFailed
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &service):
		return exitRefused
	}
	return exitUsage
}

// explain prints an error with every place it names.
func explain(w io.Writer, err error) {
	var unreachable *client.UnreachableError
	if errors.As(err, &unreachable) {
		fmt.Fprintf(w, "lockstep: %v\nIs the service running? \"lockstep dev\" starts one on this machine; --url or LOCKSTEP_URL names another.\n", unreachable)
		return
	}
	var e *workflow.Error
	if !errors.As(err, &e) {
		fmt.Fprintf(w, "lockstep: %v\n", err)
		return
	}
	fmt.Fprintf(w, "lockstep: %s (%s)\n", e.Message, e.Code)
	for _, i := range e.Issues {
		fmt.Fprintf(w, "  %s\n", i)
	}
}

func newRoot() *cobra.Command {
	c := &connection{}
	root := &cobra.Command{
		Use:           "lockstep",
		Short:         "Run workflows that lock what they touch",
		Long:          "Lockstep runs multi-step changes over fleets of entities: each entity is changed by one\nworkflow at a time, every job is done or accounted for, and a failure is told as safe or unsafe.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.flags(root)
	root.AddCommand(
		newDev(), newPublish(c), newRun(c), newWatch(c), newStatus(c), newList(c), newHistory(c), newSteps(c),
		newJobs(c), newResult(c), newCancel(c), newAcknowledge(c), newRetry(c), newResume(c), newUnlock(c), newLocks(c), newWorkers(c),
		newEntities(c), newBlocks(c), newSchedules(c), newArchive(c), newRestore(c), newCost(c), newVersion(c),
	)
	return root
}
