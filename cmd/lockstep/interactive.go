package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// askForParameters asks for each parameter of a definition that is not given, and returns all.
func askForParameters(cmd *cobra.Command, api *client.Client, f *form, workflowArg string, given json.RawMessage) (json.RawMessage, error) {
	d, err := startedDefinition(cmd.Context(), api, workflowArg)
	if err != nil {
		return nil, hintStartFailed(cmd, api, workflowArg, nil, err)
	}
	source, err := workflow.EncodeJSON(d.Definition)
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(source, &parsed); err != nil {
		return nil, fmt.Errorf("the definition of %s cannot be read: %w", workflowArg, workflow.JSONError(err))
	}
	values := map[string]json.RawMessage{}
	if len(given) > 0 {
		if err := json.Unmarshal(given, &values); err != nil {
			return nil, fmt.Errorf("the parameters are not an object: %w", workflow.JSONError(err))
		}
	}
	var s fieldSchema
	_ = json.Unmarshal(parsed.Parameters, &s) // without a schema there is nothing to ask for
	if len(s.Properties) == 0 {
		return given, nil
	}
	f.show(new(fmt.Sprintf("parameters of %s", d.Package+"/"+d.Name+":"+d.Version)), nil)
	return f.fillRest(parsed.Parameters, values)
}

// startedDefinition reads the version of a definition that a start takes. A draft needs its exact version.
func startedDefinition(ctx context.Context, api *client.Client, workflowArg string) (none client.Definition, err error) {
	ref, err := workflow.ParseRef(workflowArg)
	if err != nil {
		return none, err
	}
	if !ref.Exact() {
		var versions []string
		for v, err := range api.Versions(ctx, ref.Package, ref.Name) {
			if err != nil {
				return none, err
			}
			if !v.Archived && !v.Draft {
				versions = append(versions, v.Version)
			}
		}
		newest := ref.Newest(versions)
		if newest == "" {
			return none, workflow.Errorf(workflow.CodeNotFound, "there is no definition %s", ref)
		}
		ref.Version = newest
	}
	return api.Definition(ctx, ref)
}

// followAndAnswer follows an execution as follow does, and asks for what its steps ask people.
func followAndAnswer(cmd *cobra.Command, c *connection, api *client.Client, f *form, id string, timeout time.Duration, onEnd func(views.ExecutionView)) error {
	ctx, cancel := limited(cmd.Context(), timeout)
	defer cancel()
	asked, noted, seen := map[string]bool{}, map[string]bool{}, int64(-1)
	for {
		x, err := followUntil(ctx, cmd, c, api, id, func(x views.ExecutionView) bool {
			return client.Idle(x) || x.Version != seen && asksInput(x)
		})
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return waitedTooLong(id, "has not ended", timeout)
		case err != nil:
			return err
		case client.Idle(x):
			onEnd(x)
			return printEnd(cmd, c, api, x)
		}
		seen = x.Version
		for input, err := range api.Inputs(ctx, id, true) {
			if err != nil {
				return render.AsServiceError(err)
			}
			if key := inputKey(input); !asked[key] {
				asked[key] = true
				if err := f.answer(ctx, api, input); err != nil {
					return withHint(err, "the execution continues; \"lockstep answer %s --ask\" answers, \"lockstep watch %s\" follows it again", id, id)
				}
			}
		}
		for input, err := range api.Inputs(ctx, id, false) {
			if err != nil {
				return render.AsServiceError(err)
			}
			if key := inputKey(input); !asked[key] && !noted[key] {
				noted[key] = true
				printNote(cmd, "step %s waits for somebody else to answer%s", input.Step, describeWho(input.Who))
			}
		}
	}
}

// inputKey names a question, for each of the levels of those who answer it.
func inputKey(i views.InputView) string { return fmt.Sprintf("%s %d %d", i.Step, i.Visit, i.Level) }

// describeWho says who may answer a question that the caller may not.
func describeWho(w views.WhoView) string {
	var who []string
	if len(w.Roles) > 0 {
		who = append(who, "who has the role "+strings.Join(w.Roles, " or "))
	}
	who = append(who, w.Actors...)
	if w.NotStarter {
		who = append(who, "not who has started the execution")
	}
	if len(who) == 0 {
		return ""
	}
	return " (" + strings.Join(who, "; ") + ")"
}

// asksInput reports whether a step of the execution waits for an input, in whatever branch.
func asksInput(x views.ExecutionView) bool {
	return x.Waiting != nil && (x.Waiting.Kind == workflow.WaitInput || slices.ContainsFunc(x.Waiting.All, func(w views.StepWaiting) bool { return w.Kind == workflow.WaitInput }))
}

// answer asks what a step asks people, and sends the answer. It asks again for one that does not fit,
// and gives up if another answer is not the caller's to give, or comes too late.
func (f *form) answer(ctx context.Context, api *client.Client, input views.InputView) error {
	for {
		f.show(input.Title, input.Show)
		value, err := f.fill(input.Schema)
		if err != nil {
			return err
		}
		_, err = api.Answer(ctx, input.Execution, views.AnswerRequest{Input: value, Step: input.Step, Visit: input.Visit, IdempotencyKey: uuid.NewString()})
		if err == nil {
			return nil
		}
		if !workflow.Is(err, workflow.CodeInvalid) && !workflow.Is(err, workflow.CodeForbidden) && !workflow.Is(err, workflow.CodeIllegalTransition) {
			return render.AsServiceError(err)
		}
		fmt.Fprintf(f.out, "  %s\n", render.OneLine(render.AsServiceError(err).Error()))
		if !workflow.Is(err, workflow.CodeInvalid) {
			return nil
		}
	}
}
