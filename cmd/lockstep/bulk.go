package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// filterFlags are the flags that choose executions.
type filterFlags struct {
	state, status, outcome, waiting, workflow, parent, key, region string
	labels                                                         []string
}

func (f *filterFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", "", "only this exact state, such as SCHEDULED")
	flags.StringVar(&f.status, "status", "", "only this status: PENDING, RUNNING, COMPLETED, FAILED, CANCELLED")
	flags.StringVar(&f.outcome, "outcome", "", "only this outcome: SUCCEEDED, PARTIAL, FAILED_SAFE, FAILED_UNSAFE, CANCELLED, PROBED")
	flags.StringVar(&f.waiting, "waiting", "", "only those that wait for this: INPUT, SIGNAL, TIMER, CONDITION, CHILD, CHILD_INPUT, HOLD, STEP, LOCK, WORKER, ACKNOWLEDGE, ENGINE")
	flags.StringVar(&f.workflow, "workflow", "", "only this workflow, PACKAGE/NAME[:VERSION]")
	flags.StringVar(&f.key, "key", "", "only executions with this business key")
	flags.StringVar(&f.region, "region", "", "only executions with this region")
	flags.StringVar(&f.parent, "parent", "", "only executions started by the one with this id")
	flags.StringArrayVarP(&f.labels, "label", "l", nil, "only with this label, NAME=VALUE (repeatable)")
}

func (f *filterFlags) parse() (filter views.ExecutionFilter, err error) {
	filter = views.ExecutionFilter{Parent: f.parent, Key: f.key, Region: f.region, Outcome: workflow.Outcome(strings.ToUpper(f.outcome)), Waiting: workflow.WaitKind(strings.ToUpper(f.waiting))}
	if f.state != "" {
		if filter.State, err = sm.ParseExecutionState(strings.ToUpper(f.state)); err != nil {
			return filter, err
		}
	}
	if f.status != "" {
		if filter.Status, err = sm.ParseStatus(strings.ToUpper(f.status)); err != nil {
			return filter, err
		}
	}
	if f.outcome != "" && !slices.Contains(workflow.Outcomes(), filter.Outcome) {
		return filter, fmt.Errorf("--outcome is one of %v, not %q", workflow.Outcomes(), f.outcome)
	}
	if f.waiting != "" && !slices.Contains(workflow.ListedWaits(), filter.Waiting) {
		return filter, fmt.Errorf("--waiting is one of %v, not %q", workflow.ListedWaits(), f.waiting)
	}
	if f.workflow != "" {
		if filter.Workflow, err = workflow.ParseRef(f.workflow); err != nil {
			return filter, err
		}
	}
	filter.Labels, err = parsePairs("label", f.labels)
	return filter, err
}

func newBulk(c *connection) *cobra.Command {
	var filter filterFlags
	var reason string
	var dryRun, yes, rollback bool
	verbs := []string{string(views.BulkCancel), string(views.BulkAcknowledge), string(views.BulkRetry), string(views.BulkResume), string(views.BulkUnlock)}
	cmd := &cobra.Command{
		Use:   "bulk VERB",
		Short: "Cancel, acknowledge, retry, resume or unlock all executions that match",
		Long: `Do the same to all executions that match: cancel, acknowledge, retry, resume or unlock. What matches is
listed first, and nothing is done before you say yes. Each execution accepts or refuses the verb for
itself, as it would alone. After a rollback that has failed, retry goes forward, or with --rollback goes on
with the rollback; the list names those that it is about.`,
		Example:   "  lockstep bulk acknowledge --state FAILED_UNSAFE --label change=CHG-7 --reason \"checked by hand\"\n  lockstep bulk cancel --workflow fleet/upgrade --status RUNNING --dry-run",
		Args:      cobra.ExactArgs(1),
		ValidArgs: verbs,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient(noteSkipped(cmd))
			if err != nil {
				return err
			}
			if !slices.Contains(verbs, args[0]) {
				return fmt.Errorf("there is no bulk verb %q: want one of %s", args[0], strings.Join(verbs, ", "))
			}
			f, err := filter.parse()
			if err != nil {
				return err
			}
			if f.Empty() {
				return errors.New("say which executions: --state, --status, --outcome, --waiting, --workflow, --label, --parent or --key")
			}
			if c.json() && !yes && !dryRun {
				return errors.New("--output json does not ask: add --yes, or --dry-run")
			}
			req := views.BulkRequest{Verb: views.BulkVerb(args[0]), Reason: reason, DryRun: true, Rollback: rollback}
			if rollback && req.Verb != views.BulkRetry {
				return errors.New("--rollback is for the verb retry")
			}
			if dryRun || !yes {
				n, able := 0, 0
				err := printList(cmd, c, countItems(api.ChangeExecutions(cmd.Context(), f, req), &n), 0, []string{"ID", "WORKFLOW", "STATE", "NOTE"},
					func(x views.BulkItem) []string {
						before, _ := bulkNotes(req, x)
						switch {
						case x.CanRollback || render.VerbAllowed(args[0], x.State):
							able++
						case before == "":
							before = "in this state it will be refused"
						}
						return []string{x.ID, x.Workflow.String(), string(x.State), render.OrDash(&before)}
					})
				if err != nil || dryRun {
					return err
				}
				if n == 0 {
					printNote(cmd, "no execution matches")
					return nil
				}
				if !askYes(cmd.InOrStdin(), cmd.ErrOrStderr(), bulkQuestion(args[0], n, able)) {
					return errors.New("nothing was done; --yes does not ask")
				}
			}
			req.DryRun = false
			refused := 0
			count := func(yield func(views.BulkItem, error) bool) {
				for x, err := range api.ChangeExecutions(cmd.Context(), f, req) {
					if err == nil && !x.Applied {
						refused++
					}
					if !yield(x, err) {
						return
					}
				}
			}
			err = printList(cmd, c, count, 0, []string{"ID", "WORKFLOW", "STATE BEFORE", "RESULT"}, func(x views.BulkItem) []string {
				_, after := bulkNotes(req, x)
				result := "done" + after
				if x.Error != nil {
					result = itemErrorText(x.Error)
				}
				return []string{x.ID, x.Workflow.String(), string(x.State), result}
			})
			if err == nil && refused > 0 {
				return render.ErrPartial
			}
			return err
		},
	}
	filter.addTo(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history of each")
	cmd.Flags().BoolVar(&rollback, "rollback", false, "of retry: go on with the rollbacks that have failed, instead of forward")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what matches")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// bulkNotes explains what a verb means for an execution whose rollback has failed: one note before
// it is done, one after.
func bulkNotes(req views.BulkRequest, x views.BulkItem) (before, after string) {
	switch {
	case req.Rollback && !x.CanRollback:
		return "no rollback of it has failed that can be tried again: it will be refused", ""
	case req.Rollback || !x.CanRollback:
	case req.Verb == views.BulkRetry:
		return "a rollback has failed: this goes forward and gives it up; --rollback tries it again", "; it goes forward, although a rollback had failed"
	case req.Verb == views.BulkAcknowledge || req.Verb == views.BulkUnlock:
		return "a rollback has failed: this gives up to try it again", "; its rollback, which had failed, cannot be tried again"
	}
	return "", ""
}

// bulkQuestion asks whether to do the verb to n executions, of which so many are in a state that accepts it.
func bulkQuestion(verb string, n, able int) string {
	switch {
	case able < n:
		return fmt.Sprintf("%s these %d executions? By their states %d of them can.", verb, n, able)
	case n == 1:
		return verb + " this execution?"
	}
	return fmt.Sprintf("%s these %d executions?", verb, n)
}

// itemErrorText formats why one of several items was refused, with the places.
func itemErrorText(e *views.ItemError) string {
	text := string(e.Code) + ": " + e.Detail
	for _, i := range e.Errors {
		text += "; " + i.String()
	}
	return render.OneLine(text)
}

// maxBatchFile bounds the bytes of a file of starts.
const maxBatchFile = 64 << 20

func newBatch(c *connection) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "batch FILE",
		Short: "Start many executions from a file with one start on each line",
		Long: `Start an execution for each line of a file, or of standard input for "-". A line is a JSON object as
POST /workflow-execution takes it: {"workflow": "fleet/upgrade", "parameters": {...},
"executeOnParameters": {"ids": ["sw-001"]}, "labels": {...}}. Each start is accepted or refused for
itself. The key is printed: with the same file and --idempotency-key KEY again, what was started is
not started twice.`,
		Example: "  lockstep batch starts.ndjson\n  generate | lockstep batch - --idempotency-key change-7",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return startBatch(cmd, c, api, "", args[0], key)
		},
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "start each line at most once with this key")
	return cmd
}

// runBatch starts a batch of a workflow. What a start has besides is in the lines.
func runBatch(cmd *cobra.Command, c *connection, api *client.Client, workflowName, path, key string) error {
	if _, err := workflow.ParseRef(workflowName); err != nil {
		return err
	}
	var other []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "batch" && f.Name != "idempotency-key" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			other = append(other, "--"+f.Name)
		}
	})
	if len(other) > 0 {
		return fmt.Errorf("with --batch each line says what its execution gets: leave out %s", strings.Join(other, ", "))
	}
	return startBatch(cmd, c, api, workflowName, path, key)
}

// startBatch starts an execution for each line of a file, of the workflow with the name unless the
// line names another.
func startBatch(cmd *cobra.Command, c *connection, api *client.Client, workflowName, path, key string) error {
	starts, err := readStarts(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	if key == "" {
		key = strings.ToLower(rand.Text())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d starts under the key %s\n", len(starts), key)
	refused, line := 0, 0
	items := func(yield func(views.BatchItem, error) bool) {
		for part := range slices.Chunk(starts, views.MaxBatch) {
			list, err := api.StartBatch(cmd.Context(), views.BatchRequest{Workflow: workflowName, Items: part, IdempotencyKey: fmt.Sprintf("%s.%d", key, line)})
			if err != nil {
				yield(views.BatchItem{}, err)
				return
			}
			for _, item := range list {
				if line++; item.Error != nil {
					refused++
				}
				if !yield(item, nil) {
					return
				}
			}
		}
	}
	row := 0
	err = printList(cmd, c, items, 0, []string{"LINE", "ID", "RESULT"}, func(x views.BatchItem) []string {
		row++
		result := "started"
		switch {
		case x.Error != nil:
			result = itemErrorText(x.Error)
		case x.Existed:
			result = "started before"
		}
		return []string{fmt.Sprint(row), render.OrDash(x.ID), result}
	})
	if err == nil && refused > 0 {
		return render.ErrPartial
	}
	return err
}

// readStarts reads the starts of a file, one on each line that is not blank.
func readStarts(stdin io.Reader, path string) ([]views.StartRequest, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, render.ReadError(path, err)
		}
		defer func() { _ = file.Close() }() // it has been read
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxBatchFile+1))
	if err != nil {
		return nil, render.ReadError(path, err)
	}
	if len(raw) > maxBatchFile {
		return nil, &render.FileError{Path: path, Err: fmt.Errorf("it has more than %d bytes: divide it", maxBatchFile)}
	}
	if raw, err = render.Text(raw); err != nil {
		return nil, &render.FileError{Path: path, Err: err}
	}
	var starts []views.StartRequest
	for n, line := range strings.Split(string(raw), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var start views.StartRequest
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&start); err != nil {
			return nil, &render.FileError{Path: path, Err: fmt.Errorf("line %d: %w", n+1, workflow.JSONError(err))}
		}
		starts = append(starts, start)
	}
	if len(starts) == 0 {
		return nil, &render.FileError{Path: path, Err: errors.New("it is empty: want one start on each line")}
	}
	return starts, nil
}
