// Command lockstep is the command line of the service. It publishes definitions,
// starts and follows executions, shows what they wait for, and starts the whole
// system on one machine.
//
// run.go, rerun.go, executions.go and operator_verbs.go start, show and change executions;
// definitions.go, blocks.go, entities.go and ops.go are the other verbs of the
// service; dev.go, page.go, config.go, version.go and functions.go work on this machine; profiles.go
// reads the file in which a user names services. errors.go maps
// errors to exit codes, flags.go checks command lines, connection.go finds the
// service, complete.go what shells complete, and print.go writes lists. Package render holds what all verbs share,
// package doctor checks a deployment, and package transfer moves definitions,
// blocks and entities between stages.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor"
	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/cmd/lockstep/transfer"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func main() {
	log.SetFlags(0)
	log.SetOutput(observe.LibraryLog(func(line string) { fmt.Fprintf(render.Escaped(os.Stderr), "note: %s\n", line) }))
	ctx, stop := withInterrupt(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = render.Escaped(stdout), render.Escaped(stderr)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addShellScripts(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if interrupt := interruptCause(ctx); interrupt != nil && !errors.Is(err, render.ErrSilent) {
		var hint *hintedError
		if !errors.As(err, &hint) {
			fmt.Fprintf(stderr, "lockstep: %v\n", interrupt)
		}
		printHint(stderr, err)
		return interrupt.exitCode()
	}
	code := exitCode(err)
	var reported *render.ReportedError
	if printed := errors.Is(err, render.ErrSilent) || errors.As(err, &reported); !printed {
		printError(stderr, err)
		if f := root.PersistentFlags().Lookup("output"); f.Value.String() == "json" || !f.Changed && asksForJSON(args) {
			printErrorDocument(stdout, err)
		}
	}
	if file := (*render.FileError)(nil); code == exitUsage && reported == nil && !errors.As(err, &file) { // the file is wrong, not the command line
		fmt.Fprintln(stderr, "run \"lockstep help\" or \"lockstep VERB --help\" for usage")
	}
	return code
}

// asksForJSON reports whether a command line says --output json. Behind a flag that is wrong, none is read.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case arg == "--output=json", arg == "-o=json", arg == "-ojson":
			return true
		case (arg == "--output" || arg == "-o") && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

func newRoot() *cobra.Command {
	c := &connection{}
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "Run workflows that lock the entities they change",
		Long: `Lockstep runs multi-step changes over fleets of entities. One workflow at a time changes an entity,
every job is done or accounted for, and every failure is reported as safe or unsafe.

Exit codes: 0 success, 1 the execution failed, 2 wrong usage, 3 the service refused, 4 the service is unreachable,
5 it completed, but some entities failed, 124 --wait-timeout has passed, 130 interrupted by Ctrl-C, 143 by SIGTERM.

A table on a terminal is as wide as the terminal: its longest texts are cut, and end with …; ids are not. What goes to a
file or a pipe, and JSON, is never cut. No output has colours, so that NO_COLOR has nothing to turn off.`,
		Version:       commandVersion(debug.ReadBuildInfo),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("lockstep {{.Version}}\n")
	c.addFlags(root)
	root.AddCommand(
		newDev(), newTry(c), newPublish(c), newPlan(c), newRun(c), newNext(c), newWatch(c), newStatus(c), newShow(c), newList(c), newHistory(c), newSteps(c), newTree(c),
		newJobs(c), newLogs(c), newCompensations(c), newResult(c), newCancel(c), newAcknowledge(c), newRetry(c), newRerun(c), newFailures(c), newResume(c), newRewind(c), newInputs(c), newAnswer(c), newToken(c), newTokens(c), newSignal(c), newUnlock(c), newLocks(c), newWorkers(c),
		newEntities(c), newBlocks(c), newDefinitions(c), newSubscriptions(c), newTables(c), newTriggers(c), newSchedules(c), newSecrets(c), newArchive(c), newRestore(c), newCost(c), newMetrics(c), newVersion(c), newWhoami(c), newFunctions(c), newTest(c), newLint(c), newGraph(c), newInit(c),
		newBatch(c), newBulk(c), newRedrive(c), newAudit(c), newSweep(c), newDoctor(c), newPage(c.page), newConfig(c),
		transfer.NewExport(c.env(), time.Now), transfer.NewImport(c.env(), time.Now),
	)
	root.SetHelpCommand(newHelp(root))
	enforceUsage(root)
	c.addCompletion(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := workflow.Invalid("an environment variable is not valid", config.MisspelledVariables(os.Environ())); err != nil {
			return err
		}
		return validateFlags(cmd)
	}
	return root
}

// addShellScripts adds the library's command that writes the scripts of shells, and makes it check its arguments. The
// scripts go to the output that root has now.
func addShellScripts(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		enforceUsage(completion)
	}
}

// newHelp replaces cobra's help command, which exits with 0 for an unknown verb.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB...]",
		Short: "Show how to use a verb",
		RunE: func(_ *cobra.Command, words []string) error {
			cmd, rest, err := root.Find(words)
			if err != nil || len(rest) > 0 {
				return unknownVerbError(cmd, words[len(words)-max(len(rest), 1)])
			}
			return cmd.Help()
		},
	}
}

func newDoctor(c *connection) *cobra.Command {
	return doctor.NewCommand(c.env(), doctor.Options{
		Version: commandVersion(debug.ReadBuildInfo),
		URLSet:  c.urlIsSet,
		OpenAWS: func(ctx context.Context) (doctor.AWS, error) { return aws.Open(ctx) },
		Now:     time.Now,
	})
}

// interruptError is the signal that ended a command. The exit code is the usual
// one, 128 plus the signal's number, so that a shell does not take it for success.
type interruptError struct{ signal syscall.Signal }

func (i *interruptError) Error() string {
	if i.signal == syscall.SIGTERM {
		return "terminated (SIGTERM)"
	}
	return "interrupted"
}

func (i *interruptError) exitCode() int { return 128 + int(i.signal) }

// withInterrupt returns a context that the first SIGINT or SIGTERM cancels, with an
// interruptError as its cause. Further signals have their usual effect.
func withInterrupt(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(&interruptError{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// interruptCause returns the signal that cancelled a context, nil if none did.
func interruptCause(ctx context.Context) *interruptError {
	var i *interruptError
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}
