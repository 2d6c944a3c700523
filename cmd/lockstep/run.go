package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newRun(c *connection) *cobra.Command {
	var request startFlags
	var key string
	var signal, signalID, batch string
	var life, timeout time.Duration
	var detach, probe, stepwise, hold, use, dryRun, interactive bool
	cmd := &cobra.Command{
		Use:   "run WORKFLOW",
		Short: "Start an execution and follow it",
		Long: `Start an execution of PACKAGE/NAME[:VERSION] and follow it to its end. Without a version it
starts the newest. Ctrl-C stops following; the execution continues.

--id, --group and --query add up: an entity that matches any of them is changed. One condition
narrows another only within the query: --query "'core' in entity.groups && entity.site == 'zrh'".

With --key at most one execution of the workflow with that key runs: while one does, the start is
refused, or its --signal goes to that one, or with --use-existing that one is followed.

--interactive asks for the parameters of the definition that are not given, field by field, and
while it follows the execution for whatever a step of it asks you, by its schema. It says where a
step waits for somebody else.

Exit code 0: it succeeded. 1: it failed or was cancelled. 5: it completed, but some entities
failed (outcome PARTIAL). 124: --wait-timeout has passed. 130: Ctrl-C. 143: SIGTERM. So "lockstep run ... && next" runs next only
if everything succeeded.`,
		Example: "  lockstep run fleet/upgrade_firmware --set target=2.0.0 --group core\n  lockstep run fleet/upgrade_firmware:1 --parameters '{\"target\":\"2.0.0\"}' --id sw-001 --detach",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if batch != "" {
				return runBatch(cmd, c, api, args[0], batch, key)
			}
			req, err := request.build(args[0])
			if err != nil {
				return err
			}
			if req.IdempotencyKey = key; cmd.Flags().Changed("idempotency-key") && key == "" {
				return errors.New("--idempotency-key is empty: omit it, or give a key")
			}
			if req.IdempotencyLife = life; life != 0 && key == "" {
				return errors.New("--idempotency-life needs --idempotency-key")
			}
			if cmd.Flags().Changed("idempotency-life") && (life < time.Second || life > views.MaxIdempotencyLife || life%time.Second != 0) {
				return fmt.Errorf("--idempotency-life is from 1s to %s, in whole seconds", views.MaxIdempotencyLife)
			}
			if req.Signal, err = startSignal(signal, signalID, req.Key); err != nil {
				return err
			}
			if req.Signal != nil && req.IdempotencyKey == "" {
				req.IdempotencyKey = uuid.NewString() // the client repeats a request whose response is lost
			}
			if use {
				req.OnKey = views.OnKeyUse
			}
			req.Hold = hold
			switch {
			case probe && stepwise:
				return errors.New("--probe and --step exclude each other")
			case probe:
				req.Mode = views.ModeProbe
			case stepwise:
				req.Mode = views.ModeStep
			}
			form := newForm(cmd)
			if interactive {
				if req.Parameters, err = askForParameters(cmd, api, form, args[0], req.Parameters); err != nil {
					return err
				}
			}
			if dryRun {
				p, err := api.Plan(cmd.Context(), req)
				if err != nil {
					return hintStartFailed(cmd, api, args[0], request.sets, err)
				}
				return printPlan(cmd, c, p, false)
			}
			started, existed, err := api.Start(cmd.Context(), req)
			if err != nil {
				return hintStartFailed(cmd, api, args[0], request.sets, err)
			}
			if detach {
				noteExisting(cmd, started.ID, existed && !started.Signalled)
				if c.json() {
					return render.PrintJSON(cmd, started)
				}
				fmt.Fprintln(cmd.OutOrStdout(), started.ID)
				return nil
			}
			if started.Signalled {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s has the key %q, and has the signal\n", started.ID, req.Key)
			} else {
				noteExisting(cmd, started.ID, existed)
			}
			onEnd := func(x views.ExecutionView) {
				warnNoEntities(cmd, api, x, req.ExecuteOnParameters)
				noteMeant(cmd, api, x, req.ExecuteOnParameters)
			}
			if interactive {
				err = followAndAnswer(cmd, c, api, form, started.ID, timeout, onEnd)
			} else {
				err = follow(cmd, c, api, started.ID, timeout, onEnd)
			}
			if probe && err == nil && !c.json() {
				return printNext(cmd, api, started.ID)
			}
			return err
		},
	}
	f := cmd.Flags()
	request.add(f)
	f.StringVar(&key, "idempotency-key", "", "start at most one execution with this key")
	f.DurationVar(&life, "idempotency-life", 0, "for how long the key is remembered, up to 168h; as the service is configured unless given")
	f.StringVar(&signal, "signal", "", "signal as NAME or NAME=JSON: an execution that has the --key gets it, and none is started")
	f.StringVar(&signalID, "signal-id", "", "id of the signal: the same id again is the same signal")
	f.BoolVar(&use, "use-existing", false, "if an execution has the --key, follow that one and start none")
	f.BoolVar(&probe, "probe", false, "execute only the pure steps up to the first that is not, under shared locks, and show what would be done next")
	f.BoolVar(&stepwise, "step", false, "wait in front of each step until \"lockstep resume ID\"; the entities stay locked meanwhile")
	f.BoolVar(&hold, "hold", false, "do not begin, and lock nothing, before \"lockstep resume ID\"")
	f.StringVar(&batch, "batch", "", "start an execution for each line of this file, or of standard input for \"-\", and follow none: as \"lockstep batch\", but a line need not name the workflow")
	f.BoolVar(&interactive, "interactive", false, "ask for each parameter that is not given, and for what its steps ask you; what is sealed is not shown while you type it")
	f.BoolVar(&dryRun, "dry-run", false, "start nothing, and show what it would do, as \"lockstep plan\" does")
	addWaitTimeout(cmd, &timeout)
	f.BoolVarP(&detach, "detach", "d", false, "print the id and do not follow")
	return cmd
}

// noteExisting prints that a start has started nothing new.
func noteExisting(cmd *cobra.Command, id string, existed bool) {
	if existed {
		fmt.Fprintf(cmd.ErrOrStderr(), "this idempotency key has already started %s\n", id)
	}
}

// startSignal parses the signal to send with a start, nil for none.
func startSignal(text, id, key string) (*views.StartSignal, error) {
	name, data, hasData := strings.Cut(text, "=")
	switch {
	case text == "" && id == "":
		return nil, nil
	case name == "" || key == "":
		return nil, errors.New("a signal wants --key and --signal NAME=JSON")
	case hasData && !json.Valid([]byte(data)):
		return nil, fmt.Errorf("--signal wants NAME=JSON such as 'paid={\"amount\":12}', and %q is not JSON", data)
	}
	s := &views.StartSignal{Name: name, ID: id}
	if hasData {
		s.Data = json.RawMessage(data)
	}
	return s, nil
}

func newWatch(c *connection) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow an execution to its end",
		Long:  "Follow an execution to its end. Ctrl-C stops following; the execution continues.\n\nExit code 0: it succeeded. 1: it failed or was cancelled. 5: it completed, but some entities failed. 124: --wait-timeout has passed. 130: Ctrl-C. 143: SIGTERM.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return follow(cmd, c, api, args[0], timeout, nil)
		},
	}
	addWaitTimeout(cmd, &timeout)
	return cmd
}

// pollInterval is the time between two reads of a followed execution.
const pollInterval = 250 * time.Millisecond

// follow shows an execution's progress on standard error until it ends, then its outcome on
// standard output. It calls onEnd, if not nil, before the outcome. A timeout above 0 bounds it.
func follow(cmd *cobra.Command, c *connection, api *client.Client, id string, timeout time.Duration, onEnd func(views.ExecutionView)) error {
	ctx, cancel := limited(cmd.Context(), timeout)
	defer cancel()
	x, err := followUntil(ctx, cmd, c, api, id, client.Idle)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return waitedTooLong(id, "has not ended", timeout)
	}
	if err != nil {
		return err
	}
	if onEnd != nil {
		onEnd(x)
	}
	return printEnd(cmd, c, api, x)
}

// waitForEnd shows an execution's progress on standard error until it ends.
func waitForEnd(cmd *cobra.Command, c *connection, api *client.Client, id string) (views.ExecutionView, error) {
	return followUntil(cmd.Context(), cmd, c, api, id, client.Idle)
}

// followUntil shows an execution's progress on standard error until it is as wanted.
func followUntil(ctx context.Context, cmd *cobra.Command, c *connection, api *client.Client, id string, wanted func(views.ExecutionView) bool) (views.ExecutionView, error) {
	bar := render.NewProgressBar(cmd.ErrOrStderr())
	noted, checked := false, ""
	x, err := api.FollowUntil(ctx, id, pollInterval, wanted, func(x views.ExecutionView) {
		if !noted && !c.temporary && x.Waiting != nil && x.Waiting.Kind == workflow.WaitInput && !wanted(x) {
			noted = true
			bar.Clear()
			fmt.Fprintf(cmd.ErrOrStderr(), "note: it waits for a person. Ctrl-C stops following, and the execution continues; \"lockstep answer %s\" answers\n", id)
		}
		if why := lockReason(x); why != checked && !c.temporary && !wanted(x) {
			if checked = why; why != "" {
				noteIdleHolder(ctx, cmd, bar, api, x)
			}
		}
		bar.Update(c.shown(x))
	}, bar.ConnectionLost)
	bar.Clear()
	if c.temporary {
		return x, render.AsServiceError(err)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return x, withHint(err, "the execution continues; \"lockstep watch %s\" follows it again", id)
	}
	if err != nil && bar.HasData {
		return x, withHint(render.AsServiceError(err), "gave up following; the execution continues if the service does: \"lockstep watch %s\" follows it again", id)
	}
	return x, render.AsServiceError(err)
}

// lockReason returns why an execution does not get a lock soon; "" if that is not known.
func lockReason(x views.ExecutionView) string {
	if x.Waiting == nil || x.Waiting.Kind != workflow.WaitLock || x.Waiting.Reason == nil {
		return ""
	}
	return *x.Waiting.Reason
}

// noteIdleHolder says which execution has a lock that another one waits for, and gives it back only when somebody
// decides so.
func noteIdleHolder(ctx context.Context, cmd *cobra.Command, bar *render.ProgressBar, api *client.Client, x views.ExecutionView) {
	for _, b := range x.Waiting.Blockers {
		if b.HeldBy == nil {
			continue
		}
		holder, err := api.Execution(ctx, *b.HeldBy)
		if err != nil || holder.Waiting == nil || holder.Waiting.Kind != workflow.WaitAcknowledge {
			continue
		}
		bar.Clear()
		printNote(cmd, "execution %s holds %s, has ended %s and waits for somebody: \"lockstep status %s\" says what to do, and \"lockstep acknowledge %s\" releases its locks",
			holder.ID, render.OrDash(b.Entity), holder.State, holder.ID, holder.ID)
		return
	}
}

// shown returns an execution for its description. With a temporary service it leaves out what
// somebody could do next, because the service is gone by then.
func (c *connection) shown(x views.ExecutionView) views.ExecutionView {
	if c.temporary {
		if x.ID = ""; x.Waiting != nil && x.Waiting.Kind == workflow.WaitAcknowledge {
			x.Waiting = nil
		}
	}
	return x
}

// printEnd shows how an execution ended. It returns the error for the command's exit code.
func printEnd(cmd *cobra.Command, c *connection, api *client.Client, x views.ExecutionView) error {
	if c.json() {
		if err := render.PrintJSON(cmd, x); err != nil {
			return err
		}
	} else {
		shown := c.shown(x)
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n%s%s", x.ID, x.State, render.DescribeExecution(shown), rollbackSummary(cmd, api, x), render.DescribeEntities(shown))
		if !c.temporary {
			fmt.Fprint(cmd.OutOrStdout(), render.DescribeUnacknowledged(x))
		}
	}
	switch {
	case x.Status != sm.StatusCompleted:
		return render.ErrSilent
	case x.Outcome != nil && *x.Outcome == workflow.OutcomePartial:
		return render.ErrPartial
	}
	return nil
}

// rollbackSummary returns a line with the number of rollback jobs, empty if nothing was rolled
// back. It ignores errors, since the outcome has already been printed.
func rollbackSummary(cmd *cobra.Command, api *client.Client, x views.ExecutionView) string {
	if x.Outcome == nil || !x.RolledBack && len(x.FailedEntities) == 0 {
		return ""
	}
	n, failed, try := 0, 0, 0
	for s, err := range api.Steps(cmd.Context(), x.ID) {
		if err != nil {
			return ""
		}
		if s.Kind != nil && *s.Kind == workflow.JobRollback { // one for each entity of the step, changed or not
			if s.Try != try { // an earlier failure was retried
				failed, try = 0, s.Try
			}
			n, failed = n+s.Jobs.Completed, failed+s.Jobs.Failed
		}
	}
	if n+failed == 0 {
		return ""
	}
	if failed > 0 {
		return fmt.Sprintf("Rollback jobs: %d completed, %d failed.\n", n, failed)
	}
	return fmt.Sprintf("Rollback jobs: %d completed.\n", n)
}

// hintStartFailed adds to the error of a start what to do: restore an archived workflow, allow a
// draft, or quote a text parameter.
func hintStartFailed(cmd *cobra.Command, api *client.Client, workflowArg string, sets []string, err error) error {
	if ref, bad := workflow.ParseRef(workflowArg); bad == nil && workflow.Is(err, workflow.CodeNotFound) {
		var versions, drafts []string
		for d, failed := range api.Versions(cmd.Context(), ref.Package, ref.Name) {
			if failed != nil {
				break
			}
			switch {
			case !ref.Matches(d.Version):
			case d.Archived:
				versions = append(versions, d.Version)
			case d.Draft:
				drafts = append(drafts, d.Version)
			}
		}
		if newest := ref.Newest(versions); newest != "" {
			ref.Version = newest
			return withHint(render.AsServiceError(err), "%s is archived; \"lockstep restore %s\" allows executions of it again", ref, ref)
		}
		if newest := ref.Newest(drafts); newest != "" {
			ref.Version = newest
			return withHint(render.AsServiceError(err), "%s is a draft; \"lockstep run --allow-draft %s\" starts it, and \"lockstep publish\" with its file publishes it", ref, ref)
		}
	}
	if workflow.Is(err, workflow.CodeInvalid) && typeMismatchRE.MatchString(issueText(err)) && len(sets) > 0 {
		return withHint(render.AsServiceError(err), "--set reads a value as JSON if it is JSON; quote text that looks like JSON: --set 'target=\"1\"'")
	}
	if missing, near := misspelledParameter(err, sets); near != "" {
		return withHint(render.AsServiceError(err), "--set %s: did you mean --set %s=...?", near, missing)
	}
	if workflow.Is(err, workflow.CodeNotFound) {
		if near := nearestDefinition(cmd.Context(), api, workflowArg); near != "" {
			return withHint(render.AsServiceError(err), "did you mean %s? %s", near, definitionsHint(workflowArg))
		}
	}
	return hintNotFound(render.AsServiceError(err), "%s", definitionsHint(workflowArg))
}

// misspelledParameter returns a parameter that is missing by an error, and the name among those that were set which
// probably means it; "" if there is none.
func misspelledParameter(err error, sets []string) (missing, set string) {
	var refused *workflow.Error
	if !errors.As(err, &refused) || refused.Code != workflow.CodeInvalid {
		return "", ""
	}
	var names []string
	for _, s := range sets {
		name, _, _ := strings.Cut(s, "=")
		names = append(names, name)
	}
	for _, issue := range refused.Issues {
		name, ok := strings.CutPrefix(issue.Path, "parameters.")
		if ok && issue.Code == "required" && !slices.Contains(names, name) {
			if near := workflow.Closest(name, names); near != "" {
				return name, near
			}
		}
	}
	return "", ""
}

// nearestDefinition returns the published name most similar to that of a reference, "" if none is
// similar.
func nearestDefinition(ctx context.Context, api *client.Client, reference string) string {
	name, _, _ := strings.Cut(reference, ":")
	var known []string
	for d, err := range api.Definitions(ctx) {
		if err != nil {
			break
		}
		known = append(known, d.Package+"/"+d.Name)
	}
	if slices.Contains(known, name) { // only its version is unknown
		return ""
	}
	return workflow.Closest(name, known)
}

func issueText(err error) string {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprint(e.Issues)
}

var typeMismatchRE = regexp.MustCompile(`got \w+, want string`)

// runOnRE matches a step's runOn in a definition's source.
var runOnRE = regexp.MustCompile(`"runOn":\s*"([^"]+)"`)

// warnNoEntities warns if an execution ended OK without entities, which the caller hardly meant:
// its selection matched none, or it had no selection although its steps run on entities.
func warnNoEntities(cmd *cobra.Command, api *client.Client, x views.ExecutionView, selected *workflow.Selector) {
	if len(x.Entities) > 0 || x.Error != nil {
		return
	}
	reason := "nothing was selected, and the definition acquires nothing: select entities with --id, --group, --query or --type"
	if selected != nil {
		reason = "0 entities matched " + formatSelector(*selected)
	} else if d, err := api.Definition(cmd.Context(), x.Workflow); err != nil || !runsOnEntities(d) {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: the execution had no entities: %s. With \"assertNotEmpty: true\" in the definition such an execution fails.\n", reason)
}

func runsOnEntities(d client.Definition) bool {
	source, err := workflow.EncodeJSON(d.Definition)
	for _, m := range runOnRE.FindAllStringSubmatch(string(source), -1) {
		if m[1] != workflow.RunOnGlobal && m[1] != workflow.RunOnItem {
			return err == nil
		}
	}
	return false
}
