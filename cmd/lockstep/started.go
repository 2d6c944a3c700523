package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/given"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// notStarted says why a run was not started, and what to do: restore an archived
// workflow, or give a text as one.
func notStarted(cmd *cobra.Command, api *client.Client, written string, sets []string, err error) error {
	if ref, bad := workflow.ParseRef(written); bad == nil && workflow.Is(err, workflow.CodeNotFound) {
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
			return hinted(called(err), "%s is archived; \"lockstep restore %s\" allows runs of it again", ref, ref)
		}
	}
	if workflow.Is(err, workflow.CodeInvalid) && numberForText.MatchString(details(err)) && len(sets) > 0 {
		return hinted(called(err), "--set reads JSON where it can; a text that looks like JSON is given in quotes: --set 'target=\"1\"'")
	}
	return missing(called(err), "%s", listHint(written))
}

func details(err error) string {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprint(e.Issues)
}

var numberForText = regexp.MustCompile(`got \w+, want string`)

// runOnRE finds a step that runs on entities in a definition's source.
var runOnRE = regexp.MustCompile(`"runOn":\s*"([^"]+)"`)

// warnOfNone warns of a run that has ended well because it was about nothing,
// which is hardly what was meant: one whose selection has matched no entity, and
// one without a selection whose steps run on entities.
func warnOfNone(cmd *cobra.Command, api *client.Client, x views.ExecutionView, selected *workflow.Selector) {
	if len(x.Entities) > 0 || x.Error != nil {
		return
	}
	matched := "nothing was selected, and the definition acquires nothing either: name entities with --id, --group, --query or --type"
	if selected != nil {
		matched = "0 entities matched " + given.Selection(*selected)
	} else if d, err := api.Definition(cmd.Context(), x.Workflow); err != nil || !onEntities(d) {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: the run was about no entity: %s. With \"assertNotEmpty: true\" in the definition such a run fails.\n", matched)
}

func onEntities(d client.Definition) bool {
	source, err := json.Marshal(d.Definition)
	for _, m := range runOnRE.FindAllStringSubmatch(string(source), -1) {
		if m[1] != workflow.RunOnGlobal {
			return err == nil
		}
	}
	return false
}
