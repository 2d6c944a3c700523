package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A subscription to a type that no event has would never receive anything.
func TestPutSubscription_RefusesUnknownEvents(t *testing.T) {
	for event, want := range map[string]string{
		"execution.settled":      "",
		"rollback.*":             "",
		"execution.failed_un*":   "",
		"*":                      "",
		"input.answered":         "",
		"execution.faild":        `no event has the type execution.faild; did you mean "execution.failed"?`,
		"nothing.*":              "no event has the type nothing.*",
		"execution.settled_late": "no event has the type execution.settled_late",
	} {
		c := openCatalog(sim.New(1))
		c.Subscribing.NewID = func() string { return "s-1" }
		_, _, err := c.PutSubscription(t.Context(), ann, "failures", views.SubscriptionRequest{EventBus: "ops", Events: []string{event}})
		var refused *workflow.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", event, err)
		case want == "":
		case issuesOf(err) != "events[0] unknown_event" || !errors.As(err, &refused) || !strings.HasPrefix(refused.Issues[0].Message, want):
			t.Errorf("%s: %v", event, err)
		}
	}
}

// Pausing the schedule of an unknown workflow reports that there never was one, not that it was
// removed.
func TestPauseSchedule_OfAnUnknownWorkflow(t *testing.T) {
	_, err := openCatalog(sim.New(1)).PauseSchedule(t.Context(), ann, "net/nigt", "")
	if !workflow.Is(err, workflow.CodeNotFound) || !strings.Contains(err.Error(), "no version of a workflow of this name has had one") {
		t.Error(err)
	}
}
