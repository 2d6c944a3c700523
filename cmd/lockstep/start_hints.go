package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// hintStartFailed says why a run was not started, and what to do: restore an archived
// workflow, or give a text as one.
func hintStartFailed(cmd *cobra.Command, api *client.Client, workflowArg string, sets []string, err error) error {
	if ref, bad := workflow.ParseRef(workflowArg); bad == nil && workflow.Is(err, workflow.CodeNotFound) {
		var versions []string
		for d, failed := range api.Versions(cmd.Context(), ref.Package, ref.Name) {
			if failed != nil {
				break
			}
			if d.Archived && ref.Matches(d.Version) {
				versions = append(versions, d.Version)
			}
		}
		if newest := ref.Newest(versions); newest != "" {
			ref.Version = newest
			return withHint(asServiceError(err), "%s is archived; \"lockstep restore %s\" allows runs of it again", ref, ref)
		}
	}
	if workflow.Is(err, workflow.CodeInvalid) && typeMismatchRE.MatchString(issueText(err)) && len(sets) > 0 {
		return withHint(asServiceError(err), "--set reads JSON where it can; a text that looks like JSON is given in quotes: --set 'target=\"1\"'")
	}
	return hintNotFound(asServiceError(err), "%s", definitionsHint(workflowArg))
}

func issueText(err error) string {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprint(e.Issues)
}

var typeMismatchRE = regexp.MustCompile(`got \w+, want string`)

// runOnRE finds a step that runs on entities in a definition's source.
var runOnRE = regexp.MustCompile(`"runOn":\s*"([^"]+)"`)

// warnNoEntities warns of a run that has ended well because it was about nothing,
// which is hardly what was meant: one whose selection has matched no entity, and
// one without a selection whose steps run on entities.
func warnNoEntities(cmd *cobra.Command, api *client.Client, x views.ExecutionView, selected *workflow.Selector) {
	if len(x.Entities) > 0 || x.Error != nil {
		return
	}
	matched := "nothing was selected, and the definition acquires nothing either: name entities with --id, --group, --query or --type"
	if selected != nil {
		matched = "0 entities matched " + formatSelector(*selected)
	} else if d, err := api.Definition(cmd.Context(), x.Workflow); err != nil || !runsOnEntities(d) {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: the run was about no entity: %s. With \"assertNotEmpty: true\" in the definition such a run fails.\n", matched)
}

func runsOnEntities(d client.Definition) bool {
	source, err := json.Marshal(d.Definition)
	for _, m := range runOnRE.FindAllStringSubmatch(string(source), -1) {
		if m[1] != workflow.RunOnGlobal {
			return err == nil
		}
	}
	return false
}
