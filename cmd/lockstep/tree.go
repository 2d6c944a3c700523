package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newTree(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "tree ID",
		Short: "Show an execution and all that it has started, with what they wait for",
		Long: "Show an execution and all that it has started, directly or through others, with what they wait for. Each is below the\n" +
			"one that has started it, with the step and, of one that was started for an item of a list, the item. Those whose step a later try has executed again are marked,\n" +
			"and of those that undo what another has done it says which. What the end of the execution itself has started (onEnd) follows it.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			x, err := api.Execution(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			root, err := readRoot(cmd.Context(), api, x, 0)
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, root)
			}
			printTree(cmd.OutOrStdout(), root, 0)
			fmt.Fprint(cmd.OutOrStdout(), render.DescribeUnacknowledged(x))
			return nil
		},
	}
}

// treeNode is an execution and its children.
type treeNode struct {
	ID         string          `json:"id"`
	Step       string          `json:"step,omitempty"` // that has started it
	Item       *int            `json:"item,omitempty"` // number of its item in the list, from 0
	ItemText   *string         `json:"itemText,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Superseded bool            `json:"superseded,omitempty"`

	Compensates *string            `json:"compensates,omitempty"` // id of the execution that it compensates
	Workflow    workflow.Ref       `json:"workflow"`
	State       *sm.ExecutionState `json:"state"` // null if it never began or was deleted
	Outcome     *workflow.Outcome  `json:"outcome"`
	Waiting     *views.Waiting     `json:"waiting"`
	Children    []treeNode         `json:"children"`
	FollowUp    *treeNode          `json:"followUp"` // that its end has started; null below the root
	atEnd       bool               // it is one
}

// readRoot reads what an execution has started, and what its end has started, and so on.
func readRoot(ctx context.Context, api *client.Client, x views.ExecutionView, depth int) (treeNode, error) {
	root := treeNode{ID: x.ID, Workflow: x.Workflow, State: &x.State, Outcome: x.Outcome, Waiting: x.Waiting}
	var err error
	if root.Children, err = readTree(ctx, api, x.ID, 0); err != nil || x.FollowUp == nil || depth > workflow.MaxDepth {
		return root, err
	}
	next, err := api.Execution(ctx, *x.FollowUp)
	if err != nil {
		return root, err
	}
	followUp, err := readRoot(ctx, api, next, depth+1)
	followUp.atEnd, root.FollowUp = true, &followUp
	return root, err
}

// readTree reads what an execution has started, down to the deepest generation allowed.
func readTree(ctx context.Context, api *client.Client, id string, depth int) ([]treeNode, error) {
	all := []treeNode{}
	if depth > workflow.MaxDepth {
		return all, nil
	}
	for child, err := range api.Children(ctx, id, "") {
		if err != nil {
			return nil, err
		}
		n := treeNode{ID: child.ID, Step: child.Step, Item: child.Item, ItemText: child.ItemText, Parameters: child.Parameters, Superseded: child.Superseded, Compensates: child.Compensates, Workflow: child.Workflow, State: child.State, Outcome: child.Outcome, Waiting: child.Waiting, Children: []treeNode{}}
		if child.State != nil && (child.Started == nil || *child.Started > 0) {
			if n.Children, err = readTree(ctx, api, child.ID, depth+1); err != nil {
				return nil, err
			}
		}
		all = append(all, n)
	}
	return all, nil
}

func printTree(out io.Writer, n treeNode, depth int) {
	line := strings.Repeat("  ", depth)
	switch {
	case n.Item != nil:
		line += fmt.Sprintf("%s %d (%s): ", n.Step, *n.Item, render.OrDash(n.ItemText))
	case n.atEnd:
		line += "at its end: "
	case n.Step != "":
		line += n.Step + ": "
	}
	state := "never began, or was removed"
	if n.State != nil {
		state = string(*n.State)
	}
	line += fmt.Sprintf("%s  %s  %s", n.ID, n.Workflow, state)
	if n.Outcome != nil && *n.Outcome == workflow.OutcomePartial {
		line += "  " + string(*n.Outcome)
	}
	if n.Compensates != nil {
		line += "  (undoes " + *n.Compensates + ")"
	}
	if n.Superseded {
		line += "  (executed again)"
	}
	if n.Waiting != nil {
		line += "  " + render.DescribeWaiting(n.Waiting)
	}
	fmt.Fprintln(out, render.OneLine(line))
	for _, child := range n.Children {
		printTree(out, child, depth+1)
	}
	if n.FollowUp != nil {
		printTree(out, *n.FollowUp, depth)
	}
}
