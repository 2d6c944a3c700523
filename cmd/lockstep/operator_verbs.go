package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newCancel(c *connection) *cobra.Command {
	var req views.CancelRequest
	var rollback string
	var cascade, noCascade bool
	var wait waitFlags
	cmd := &cobra.Command{
		Use:     "cancel ID",
		Short:   "End an execution early and cleanly",
		Long:    "End an execution early and cleanly: it starts no new work, running jobs stop at their next\nheartbeat, and changes are rolled back unless --rollback=never. The executions that it\nstarted are cancelled too, unless --no-cascade.",
		Example: "  lockstep cancel ID --reason 'wrong window'\n  lockstep cancel ID --rollback never --no-cascade",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			req.Rollback = workflow.RollbackMode(rollback)
			if cascade = cascade && !noCascade; !cascade {
				req.Cascade = &cascade
			}
			x, err := api.Cancel(cmd.Context(), args[0], req)
			return wait.finish(cmd, c, api, x, hintIllegalCancel(cmd, api, args[0], err))
		},
	}
	wait.add(cmd)
	f := cmd.Flags()
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	f.StringVar(&rollback, "rollback", "auto", "auto or never")
	f.StringVar(&req.Source, "source", "", "in whose name: user (the default), system or admin, which need the role admin")
	f.BoolVar(&noCascade, "no-cascade", false, "do not cancel the executions that it started")
	f.BoolVar(&cascade, "cascade", true, "also cancel the executions that it started")
	return cmd
}

// hintIllegalCancel adds to a refusal why the execution cannot be cancelled.
func hintIllegalCancel(cmd *cobra.Command, api *client.Client, id string, err error) error {
	if !workflow.Is(err, workflow.CodeIllegalTransition) {
		return err
	}
	x, failed := api.Execution(cmd.Context(), id)
	switch {
	case failed != nil:
		return err
	case x.State == sm.ExecutionCancelling:
		return withHint(err, "it is already being cancelled; \"lockstep watch %s\" follows it", id)
	case x.EndedAt != nil || sm.Terminal(x.State):
		return withHint(err, "it has already ended. %s\n%s", render.DescribeExecution(x), render.IllegalStateHint("cancel", x))
	}
	return withHint(err, "it has failed and is being closed or rolled back; \"lockstep watch %s\" follows it", id)
}

func newAcknowledge(c *connection) *cobra.Command {
	return newReleaseCommand(c, (*client.Client).Acknowledge, "what you found, for the history", &cobra.Command{
		Use:     "acknowledge ID",
		Short:   "Confirm that you checked an execution that ended unsafely, and release its locks",
		Long:    "Confirm that you checked an execution that ended unsafely or was cancelled, and release its\nlocks. With --entity, only those entities are released; the last one that it holds\nacknowledges the execution.",
		Example: "  lockstep acknowledge ID --reason 'sw-007 repaired by hand'\n  lockstep acknowledge ID --entity device/sw-007 --entity device/sw-008 --reason 'both are fine'",
	})
}

func newResume(c *connection) *cobra.Command {
	var all bool
	var step string
	hint := func(id string, x views.ExecutionView, err error) (views.ExecutionView, error) {
		var refused *workflow.Error
		if errors.As(err, &refused) && len(refused.Issues) > 0 && refused.Issues[0].Path == "input" {
			err = withHint(err, "it waits for an answer: \"lockstep answer %s --ask\"", id)
		}
		return x, err
	}
	resume := func(api *client.Client, ctx context.Context, id, reason string, _ ...string) (views.ExecutionView, error) {
		if step != "" {
			x, err := api.ResumeStep(ctx, id, step, reason)
			return hint(id, x, err)
		}
		x, err := api.Execution(ctx, id)
		switch {
		case err != nil:
			return x, err
		case x.Waiting != nil && x.Waiting.Sequence != nil:
			return api.NextStep(ctx, id, views.NextRequest{Reason: reason, Sequence: *x.Waiting.Sequence, All: all})
		case all:
			return x, fmt.Errorf("--all is for an execution that waits in front of a step (\"lockstep run --step\"), and %s does not now", id)
		}
		x, err = api.Resume(ctx, id, reason)
		return hint(id, x, err)
	}
	cmd := newReasonCommand(c, resume, "why, for the history", new([]string), new(waitFlags), &cobra.Command{
		Use:     "resume ID",
		Short:   "Continue now an execution that waits for a time, is held, or waits in front of a step",
		Long:    "Continue now an execution that waits for a time, that its starter holds (\"lockstep run --hold\"), or\nthat waits in front of each step (\"lockstep run --step\"): it enters one step or, with --all, all.",
		Example: "  lockstep resume ID --reason 'the window is open'\n  lockstep resume ID --all",
	})
	cmd.Flags().StringVar(&step, "step", "", "label of the step that waits for a time, where several wait")
	cmd.Flags().BoolVar(&all, "all", false, "do not wait in front of later steps")
	return cmd
}

func newRewind(c *connection) *cobra.Command {
	var req views.RewindRequest
	rewind := func(api *client.Client, ctx context.Context, id, reason string, _ ...string) (views.ExecutionView, error) {
		req.Reason = reason
		return api.Rewind(ctx, id, req)
	}
	cmd := newReasonCommand(c, rewind, "why, for the history", new([]string), new(waitFlags), &cobra.Command{
		Use:   "rewind ID",
		Short: "Take an execution that waits back to an earlier step, under its locks",
		Long: `Take an execution that waits back to an earlier step, under its locks. What it waited for does not
count any more. If something that is not pure was executed since that step, this is refused:
with --force it is executed once more. Where the step was executed several times, the first of them
is meant; in a loop, the whole loop.`,
		Example: "  lockstep rewind ID --to check --reason 'it was looked at too early'",
	})
	cmd.Flags().StringVar(&req.To, "to", "", "label of the step to go back to")
	cmd.Flags().BoolVar(&req.Force, "force", false, "even if something that is not pure was executed since")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func newUnlock(c *connection) *cobra.Command {
	return newReleaseCommand(c, (*client.Client).Unlock, "why, for the history", &cobra.Command{
		Use:     "unlock ID",
		Short:   "Release the locks of an execution that ended unsafely, to be checked later",
		Long:    "Release the locks of an execution that ended unsafely or was cancelled. Its state stays until\n\"lockstep acknowledge\". With --entity, only those entities are released. The fence keeps out workers that still run a job of it.\nA rollback that has failed cannot be tried again after that: \"lockstep retry ID --rollback\" comes first.",
		Example: "  lockstep unlock ID --reason 'the devices are needed elsewhere'",
	})
}

// onEntities applies a verb to an execution, or to some of its entities.
type onEntities func(api *client.Client, ctx context.Context, id, reason string, entities ...string) (views.ExecutionView, error)

// newReleaseCommand completes a verb that takes an execution, a reason and entities.
func newReleaseCommand(c *connection, do onEntities, usage string, cmd *cobra.Command) *cobra.Command {
	var entities []string
	newReasonCommand(c, do, usage, &entities, nil, cmd)
	cmd.Flags().StringArrayVar(&entities, "entity", nil, "an entity of it, as device/sw-007; repeatable; by default all that it holds")
	return cmd
}

// newReasonCommand completes a verb that takes an execution and a reason. wait is nil for a verb of an execution
// that has ended, of which nothing more is to be waited for.
func newReasonCommand(c *connection, do onEntities, usage string, entities *[]string, wait *waitFlags, cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := c.newClient()
		if err != nil {
			return err
		}
		x, err := do(api, cmd.Context(), args[0], reason, *entities...)
		if err = hintIllegalState(cmd, api, args[0], err); wait == nil {
			return printExecution(cmd, c, x, err)
		}
		return wait.finish(cmd, c, api, x, err)
	}
	if wait != nil {
		wait.add(cmd)
	}
	cmd.Flags().StringVar(&reason, "reason", "", usage)
	return cmd
}

// hintIllegalState adds to a refusal the states that allow the verb and the verbs that the
// execution accepts.
func hintIllegalState(cmd *cobra.Command, api *client.Client, id string, err error) error {
	if !workflow.Is(err, workflow.CodeIllegalTransition) {
		return err
	}
	x, failed := api.Execution(cmd.Context(), id)
	if failed != nil || render.VerbAllowed(cmd.Name(), x.State) { // else it was refused for another reason, which the error gives
		return err
	}
	return withHint(err, "%s", render.IllegalStateHint(cmd.Name(), x))
}

// printExecution prints the execution as an operator's verb left it.
func printExecution(cmd *cobra.Command, c *connection, x views.ExecutionView, err error) error {
	if err != nil {
		return render.AsServiceError(err)
	}
	if c.json() {
		return render.PrintJSON(cmd, x)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n", x.ID, x.State, render.DescribeExecution(x))
	if f := x.FailedRollback; cmd.Name() == "unlock" && f != nil && f.Obstacle != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "Its rollback, which has failed, cannot be tried again: %s. \"lockstep retry %s\" goes forward.\n", render.OneLine(*f.Obstacle), x.ID)
	}
	return nil
}

func newRetry(c *connection) *cobra.Command {
	var req views.RetryRequest
	var entities string
	var wait waitFlags
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Retry a failed execution",
		Long: `Retry a failed execution, from the step that failed or from a named one. It keeps the locks
that it still holds and acquires the others again. It keeps what completed before that step,
with the results that it had then. If another execution has held one of these entities since,
and may have changed it ("lockstep entities history TYPE/ID"), the retry is refused, or ends once
it has its locks: begin with the step that reads (--from STEP --entities all), start another
execution ("lockstep rerun ID"), or go on regardless (--force).

After a rollback that has failed there are two ways: forward, as above, or --rollback, which goes
on with the rollback once you have mended what it failed for. It undoes what failed to be undone
or was never reached, under the locks that the execution has kept. A workflow that undoes another
execution does so with --force although others have changed its entities since. Forward gives that
rollback up: steps that were undone, or should have been, are executed again, also those whose
undoing has failed.

Take retry to go on with this execution, under its id, once what failed is mended: with the same
parameters, and for the entities that it has. Take "lockstep rerun ID" for another execution that
begins with the first step: with other parameters, for some of the entities only, for those whose
turn never came, or after this one was acknowledged.`,
		Example: "  lockstep retry ID --reason 'power is back'\n  lockstep retry ID --from read --entities all\n  lockstep retry ID --force --reason 'sw-007 is as it was'\n  lockstep retry ID --rollback --reason 'sw-007 is back'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			switch req.Entities = views.RetryEntities(entities); req.Entities {
			case "", views.RetryFailed, views.RetryAll:
			default:
				return fmt.Errorf("--entities is failed or all, not %q", entities)
			}
			x, err := api.Retry(cmd.Context(), args[0], req)
			if !req.Rollback { // a refused rollback already says what to do
				err = hintRetrySteps(cmd, api, args[0], req.From, hintIllegalState(cmd, api, args[0], err))
			}
			if err = hintRetryConflict(args[0], err); err == nil {
				noteRerun(cmd, api, x)
				noteUnacknowledged(cmd, api, x)
			}
			return wait.finish(cmd, c, api, x, err)
		},
	}
	wait.add(cmd)
	f := cmd.Flags()
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	f.StringVar(&req.From, "from", "", "label of the step to start with; by default the one that failed")
	f.StringVar(&entities, "entities", "", "failed or all: the entities with which that step starts; by default what fits")
	f.BoolVar(&req.Force, "force", false, "even if others have changed entities since, for which results are kept")
	f.BoolVar(&req.Rollback, "rollback", false, "go on with the rollback that has failed, instead of forward")
	return cmd
}

// hintRetryConflict adds to a refusal the commands with which to continue: another execution has
// the key, or has changed entities since.
func hintRetryConflict(id string, err error) error {
	var refused *workflow.Error
	if !workflow.Is(err, workflow.CodeConflict) || !errors.As(err, &refused) || len(refused.Issues) == 0 {
		return err
	}
	switch i := refused.Issues[0]; i.Code {
	case "held":
		return withHint(err, "\"lockstep watch %s\" follows the one that has the key; after its end, \"lockstep retry %s\"", i.Message, id)
	case "outdated":
		return withHint(err, "\"lockstep rerun %s --all\" starts another execution; \"lockstep retry %s --force\" goes on regardless; where a step is named, \"lockstep retry %s --from STEP --entities all\" begins there", id, id, id)
	}
	return err
}

// noteRerun warns after a retry that another execution, which has not ended, repeats this one: both
// would do the same. If it cannot read that execution, it stays silent.
func noteRerun(cmd *cobra.Command, api *client.Client, x views.ExecutionView) {
	for _, id := range x.RerunBy {
		if by, err := api.Execution(cmd.Context(), id); err == nil && by.EndedAt == nil {
			printNote(cmd, "it is run again by %s, too, which is in %s: both would do the same; \"lockstep cancel %s\" ends that one", id, by.State, id)
		}
	}
}

// noteUnacknowledged warns after a retry that executions of an earlier try keep their locks: what is
// started in their place waits for these. If it cannot read the execution, it stays silent.
func noteUnacknowledged(cmd *cobra.Command, api *client.Client, x views.ExecutionView) {
	if len(x.ChildSets)+len(x.Children) == 0 {
		return
	}
	now, err := api.Execution(cmd.Context(), x.ID)
	if err != nil {
		return
	}
	for _, child := range now.Unacknowledged {
		printNote(cmd, "execution %s, which step %s has started before, is in %s and keeps its locks: what is started in its place waits for them until \"lockstep acknowledge %s\"", child.ID, child.Step, child.State, child.ID)
	}
	if now.UnacknowledgedMore {
		printNote(cmd, "more that it has started may keep their locks until they are acknowledged: \"lockstep tree %s\" lists all, with their states", x.ID)
	}
}

// hintRetrySteps adds to a refused --from the steps from which a retry may start.
func hintRetrySteps(cmd *cobra.Command, api *client.Client, id, from string, err error) error {
	if from == "" || !workflow.Is(err, workflow.CodeInvalid) {
		return err
	}
	var steps []string
	for s, failed := range api.Steps(cmd.Context(), id) {
		if failed != nil {
			return err
		}
		if !slices.Contains(steps, s.Step) {
			steps = append(steps, s.Step)
		}
	}
	return withHint(err, "it has reached these steps: %s", strings.Join(steps, ", "))
}
