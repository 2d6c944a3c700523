package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// waitFlags are the flags of a verb that changes an execution, and can wait for what becomes of it.
type waitFlags struct {
	wait    bool
	timeout time.Duration

	// stale reports whether a view is still as it was before the verb had an effect, so that the wait
	// that it shows is not a new one. nil says that no view is.
	stale func(views.ExecutionView) bool
}

// settleTime is how long a view may stay as it was before the verb. Then nothing has come of it: a signal
// that was sent before changes nothing.
const settleTime = 10 * time.Second

const waitHelp = `

With --wait the command follows the execution until it has ended, or waits again for a time, a person, a signal or
a condition. Exit code as of "lockstep run"; 0 if it waits again; 124 if --wait-timeout has passed before.`

func (w *waitFlags) add(cmd *cobra.Command) {
	cmd.Long += waitHelp
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case cmd.Flags().Changed("wait-timeout") && w.timeout <= 0:
			return errors.New("--wait-timeout is a duration above 0, such as 10m")
		case w.asked() && cmd.Flags().Changed("detach"):
			return errors.New("--wait and --detach exclude each other")
		}
		return nil
	}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "follow the execution until it has ended or waits again")
	cmd.Flags().DurationVar(&w.timeout, "wait-timeout", 0, "how long to wait at most, such as 10m; without limit by default. It implies --wait")
}

// asked reports whether the command is to wait.
func (w *waitFlags) asked() bool { return w.wait || w.timeout > 0 }

// finish prints the execution as the verb left it or, if that was asked for, as it is once it has ended or
// waits again.
func (w *waitFlags) finish(cmd *cobra.Command, c *connection, api *client.Client, x views.ExecutionView, err error) error {
	if err != nil || !w.asked() {
		return printExecution(cmd, c, x, err)
	}
	return w.follow(cmd, c, api, x.ID)
}

// follow follows an execution until it has ended or waits again, and prints it.
func (w *waitFlags) follow(cmd *cobra.Command, c *connection, api *client.Client, id string) error {
	ctx, cancel := limited(cmd.Context(), w.timeout)
	defer cancel()
	began := time.Now()
	x, err := followUntil(ctx, cmd, c, api, id, func(x views.ExecutionView) bool {
		stale := w.stale != nil && w.stale(x) && time.Since(began) < settleTime
		return client.Idle(x) || waits(x) && !stale
	})
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return waitedTooLong(id, "has neither ended nor come to a wait for anything but its own executions", w.timeout)
	case err != nil:
		return err
	case !client.Idle(x):
		return printExecution(cmd, c, x, nil)
	}
	return printEnd(cmd, c, api, x)
}

// addWaitTimeout adds the flag that bounds how long a verb follows an execution, and what its help says of it.
func addWaitTimeout(cmd *cobra.Command, timeout *time.Duration) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case cmd.Flags().Changed("wait-timeout") && *timeout <= 0:
			return errors.New("--wait-timeout is a duration above 0, such as 10m")
		case *timeout > 0 && cmd.Flags().Changed("detach"):
			return errors.New("--wait-timeout and --detach exclude each other")
		}
		return nil
	}
	cmd.Flags().DurationVar(timeout, "wait-timeout", 0, "how long to follow it at most, such as 10m; without limit by default")
}

// limited bounds a context by a time, 0 for none.
func limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

func waitedTooLong(id, what string, timeout time.Duration) error {
	return &waitTimeoutError{withHint(fmt.Errorf("execution %s %s after %s", id, what, timeout), "the execution continues; \"lockstep watch %s\" follows it again", id)}
}

// waits reports whether an execution goes on only when a time has come, or somebody does something. One that waits
// for executions that it has started is at work, as they are.
func waits(x views.ExecutionView) bool {
	switch {
	case x.Waiting != nil && x.Waiting.Kind == workflow.WaitChildInput:
		return true
	case x.Waiting != nil && x.Waiting.Kind == workflow.WaitChild:
		return false
	}
	return x.State == sm.ExecutionWaiting || x.State == sm.ExecutionBlockedWaiting
}

// staleSince returns what reports whether a view is not newer than the one given, and waits for a signal.
func staleSince(before views.ExecutionView) func(views.ExecutionView) bool {
	return func(x views.ExecutionView) bool { return x.Version <= before.Version && waitsForSignal(x) }
}

// waitsForSignal reports whether a signal can end a wait of an execution.
func waitsForSignal(x views.ExecutionView) bool {
	if x.Waiting == nil {
		return false
	}
	for _, other := range x.Waiting.All {
		if other.Kind == workflow.WaitSignal {
			return true
		}
	}
	return x.Waiting.Kind == workflow.WaitSignal
}

// waitTimeoutError ends a command whose --wait-timeout has passed.
type waitTimeoutError struct{ error }

func (e *waitTimeoutError) Unwrap() error { return e.error }
