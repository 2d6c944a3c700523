package main

import (
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
	cmd := &cobra.Command{
		Use:     "cancel ID",
		Short:   "End a run early and cleanly",
		Long:    "End a run early and cleanly: nothing more of it starts, what has started stops at its next\nheartbeat, and what was changed is rolled back unless --rollback=never. The runs that it has\nstarted are cancelled too, unless --no-cascade.",
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
			return printExecution(cmd, c, x, hintIllegalCancel(cmd, api, args[0], err))
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	f.StringVar(&rollback, "rollback", "auto", "auto or never")
	f.BoolVar(&noCascade, "no-cascade", false, "leave the runs that it has started alone")
	f.BoolVar(&cascade, "cascade", true, "cancel the runs that it has started too")
	return cmd
}

// hintIllegalCancel says why a run cannot be cancelled (any more).
func hintIllegalCancel(cmd *cobra.Command, api *client.Client, id string, err error) error {
	if !workflow.Is(err, workflow.CodeIllegalTransition) {
		return err
	}
	x, failed := api.Execution(cmd.Context(), id)
	switch {
	case failed != nil:
		return err
	case x.State == sm.ExecutionCancelling:
		return withHint(err, "it is being cancelled already; \"lockstep watch %s\" follows it", id)
	case x.EndedAt != nil || sm.Terminal(x.State):
		return withHint(err, "it has ended already. %s\n%s", render.DescribeExecution(x), render.IllegalStateHint("cancel", x.State, id))
	}
	return withHint(err, "it has failed and is being closed or rolled back; \"lockstep watch %s\" follows it", id)
}
